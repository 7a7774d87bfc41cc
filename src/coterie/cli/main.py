"""The `coterie` command: the only place that wires layers together and the only one that prints."""

from __future__ import annotations

import errno
import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import typer

from coterie import __version__
from coterie.cli.console import err, out
from coterie.errors import CoterieError, InputError

# Command -> where it is. A module is imported when its command is run (or when help lists them all): nobody who
# publishes a message should wait for Spark.
COMMANDS = {
    "compare": "planning:compare_command",
    "plan": "planning:plan_command",
    "backtest": "backtesting:backtest_command",
    "observe": "observing:observe_command",
    "watch": "watching:watch_command",
    "reproduce": "reproducing:reproduce_command",
    "simulate": "simulating:simulate_command",
    "price": "pricing:price_command",
    "prices": "prices:prices_command",
    "systems": "catalogue:systems_command",
    "workloads": "catalogue:workloads_command",
    "up": "up:up_command",
    "node": "node:node_command",
    "apply": "applying:apply_command",
    "export": "exporting:export_command",
    "loop": "looping:loop_command",
    "pub": "pubsub:pub_command",
    "sub": "pubsub:sub_command",
    "bench": "bench:bench_command",
    "top": "top:top_command",
    "reload": "reloading:reload_command",
    "dashboard": "dashboard:dashboard_command",
    "doctor": "doctor:doctor_command",
}

INTERRUPTED = 130  # the exit code of what Ctrl-C ended

app = typer.Typer(
    help="Publish/subscribe that organises itself around who listens to what.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def load_commands(arguments: Sequence[str]) -> None:
    """Register the command that is asked for, or all of them."""
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name in [asked] if asked in COMMANDS else COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        command = getattr(import_module(f"coterie.cli.{module}"), function)
        app.command(name, help=help_of(command))(command)


def help_of(command: Callable[..., None]) -> str:
    """Its docstring with a line per paragraph: where lines end is for the reader's terminal to say."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


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
    if not is_debugging:  # what Spark's bridge logs when Ctrl-C cuts a call short is no message to a user
        logging.getLogger().addFilter(unheard)  # loggers with a name, asyncio's for one, are heard as ever
    try:
        carry_out(sys.argv[1:])
    except CoterieError as error:
        if is_debugging:
            raise
        err.print(f"[bold red]error:[/] {plain(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if is_debugging:
            raise
        err.print(f"[bold red]error:[/] {plain(environment_says(error))}", soft_wrap=True)
        sys.exit(InputError.exit_code)
    except Exception as error:
        if is_debugging:
            raise
        err.print(f"[bold red]internal error:[/] {plain(f'{type(error).__name__}: {error}')}", soft_wrap=True)
        hint = "this is a defect of coterie; run the command again with --debug and report what it prints"
        err.print(hint, soft_wrap=True)
        sys.exit(70)


def carry_out(arguments: Sequence[str]) -> None:
    """The command. Ctrl-C is KeyboardInterrupt, whatever else breaks on the way out of it."""
    try:
        load_commands(arguments)
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the command line's library says so without a word
            raise KeyboardInterrupt from None
        raise
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        raise


def was_interrupted(error: BaseException | None) -> bool:
    """Whether it happened while something was being cut short by Ctrl-C: then that is all there is to say."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def unheard(record: logging.LogRecord) -> bool:
    return False


def environment_says(error: OSError) -> str:
    """A file, a folder or a disk that cannot be used is nobody's defect: say which one, and why."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: cannot be used: {reason}"
    if error.errno == errno.ENOSPC:
        return f"the output cannot be written: {reason}"
    return f"the system refused: {reason}"


def plain(text: str) -> str:
    """Text with brackets that rich would otherwise take for markup."""
    return text.replace("[", r"\[")
