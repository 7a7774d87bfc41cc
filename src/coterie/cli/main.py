"""The `coterie` command: the only place that wires layers together and the only one that prints."""

from __future__ import annotations

import os
import sys

import typer

from coterie import __version__
from coterie.cli.catalogue import systems_command, workloads_command
from coterie.cli.console import err, out
from coterie.cli.doctor import doctor_command
from coterie.cli.planning import compare_command, plan_command
from coterie.cli.pricing import price_command
from coterie.cli.reproducing import reproduce_command
from coterie.cli.simulating import simulate_command
from coterie.errors import CoterieError

app = typer.Typer(
    help="Publish/subscribe that organises itself around who listens to what.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("compare")(compare_command)
app.command("plan")(plan_command)
app.command("reproduce")(reproduce_command)
app.command("simulate")(simulate_command)
app.command("price")(price_command)
app.command("systems")(systems_command)
app.command("workloads")(workloads_command)
app.command("doctor")(doctor_command)


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    debug: bool = typer.Option(False, "--debug", help="Show a stack trace with an error."),
) -> None:
    if version:
        out.print(f"coterie {__version__}")
        raise typer.Exit


def run() -> None:
    """Errors that are somebody's become one sentence and an exit code; the rest is ours and says so."""
    is_debugging = "--debug" in sys.argv or bool(os.environ.get("COTERIE_DEBUG"))
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]  # it may stand anywhere
    try:
        app()
    except CoterieError as error:
        if is_debugging:
            raise
        err.print(f"[bold red]error:[/] {plain(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        if is_debugging:
            raise
        err.print(f"[bold red]internal error:[/] {plain(f'{type(error).__name__}: {error}')}", soft_wrap=True)
        err.print("this is a defect of coterie; run the command again with --debug and report what it prints")
        sys.exit(70)


def plain(text: str) -> str:
    """Text with brackets that rich would otherwise take for markup."""
    return text.replace("[", r"\[")
