"""`python -m coterie` is the `coterie` command."""

from coterie.cli.main import run

run()
