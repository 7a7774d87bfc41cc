"""`import coterie`: what it offers, what it loads, and that the names are there for a reader and for a type checker."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import coterie

HEAVY = ("numba", "pyspark", "pyarrow", "numpy", "matplotlib", "scipy", "rich", "typer", "pandas")


def loaded_by(code: str) -> set[str]:
    told = f"import json, sys; {code}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_importing_loads_nothing_heavy() -> None:
    assert not loaded_by("import coterie") & set(HEAVY)


def test_help_loads_no_command() -> None:
    code = "import contextlib, io\nfrom coterie.cli.main import run\nsys.argv = ['coterie', '--help']\n"
    code += "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): run()\n"
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = json.loads(done.stdout.splitlines()[-1])
    assert not {name.partition(".")[0] for name in names} & {"numba", "pyspark", "pyarrow", "numpy", "matplotlib"}
    assert [name for name in names if name.startswith("coterie.")] == [
        "coterie.cli", "coterie.cli.console", "coterie.cli.groups", "coterie.cli.main", "coterie.errors",
    ]  # fmt: skip


def test_help_of_a_command_loads_no_engine() -> None:
    """Its options are in its module; what it does is imported when it does it. `torture` is the laboratory's own."""
    from coterie.cli.main import COMMANDS

    modules = {listed.place.partition(":")[0] for name, listed in COMMANDS.items() if name != "torture"}
    code = "; ".join(f"import coterie.cli.{module}" for module in sorted(modules))
    assert not loaded_by(code) & {"numba", "pyspark", "scipy", "matplotlib", "pandas"}


@pytest.mark.parametrize("name", coterie.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(coterie, name).__doc__


def test_unknown_names_are_told() -> None:
    with pytest.raises(AttributeError, match="no attribute 'plna'"):
        coterie.plna  # noqa: B018
    assert {name for name in dir(coterie) if not name.startswith("__")} == set(coterie.__all__)
