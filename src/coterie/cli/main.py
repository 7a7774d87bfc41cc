"""The `coterie` command: it wires the library to a terminal and prints; what it does is in `coterie.api`."""

from __future__ import annotations

import errno
import inspect
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from coterie.cli.console import err, loading, out, plain
from coterie.cli.groups import spread, worded
from coterie.errors import ConfigError, CoterieError, InputError


class CommandEntry(NamedTuple):
    """Where a command is and what the list says of it: its first sentence, which a test compares."""

    place: str
    says: str
    panel: str


PLANNING, FLEET, NETWORK, LAB, HELP = "Plan", "The brokers you have", "Our nodes", "Laboratory", "Help"

# A module is imported when its command is run: nobody who publishes a message or asks for help waits for Spark.
COMMANDS = {
    "compare": CommandEntry(
        "planning:compare_command", "What would I save? All systems on a log, side by side.", PLANNING
    ),
    "plan": CommandEntry("planning:plan_command", "Compare, and publish the cheapest design as a plan.", PLANNING),
    "frontier": CommandEntry(
        "frontier:frontier_command", "Show the trade-offs: cost against hops, crashes and moves.", PLANNING
    ),
    "backtest": CommandEntry(
        "backtesting:backtest_command", "Run through a log window by window, moves included.", PLANNING
    ),
    "watch": CommandEntry("watching:watch_command", "Follow a journal; publish a new plan when it pays.", PLANNING),
    "prices": CommandEntry("prices:prices_command", "Print an example price file, or check one.", PLANNING),
    "observe": CommandEntry("observing:observe_command", "Record what the brokers you have are doing.", FLEET),
    "export": CommandEntry(
        "exporting:export_command", "Turn a plan into configuration for HAProxy, mosquitto, NATS, EMQX.", FLEET
    ),
    "loop": CommandEntry("looping:loop_command", "Observe, plan and apply, again and again.", FLEET),
    "up": CommandEntry("up:up_command", "Start a network of nodes on this machine.", NETWORK),
    "init": CommandEntry("founding:init_command", "Create a network: one folder per host.", NETWORK),
    "node": CommandEntry("node:node_command", "Run one node.", NETWORK),
    "apply": CommandEntry("applying:apply_command", "Switch a running network to a plan.", NETWORK),
    "pub": CommandEntry("pubsub:pub_command", "Publish messages.", NETWORK),
    "sub": CommandEntry("pubsub:sub_command", "Subscribe and print the messages.", NETWORK),
    "top": CommandEntry("top:top_command", "Show a live table of the nodes.", NETWORK),
    "inspect": CommandEntry(
        "inspecting:inspect_command", "Ask the whole network about a client, a topic or a link.", NETWORK
    ),
    "dashboard": CommandEntry("dashboard:dashboard_command", "Serve a web page that shows a running network.", NETWORK),
    "reload": CommandEntry("reloading:reload_command", "Make nodes read their configuration again.", NETWORK),
    "members": CommandEntry("membership:members_command", "List the members of the network.", NETWORK),
    "drain": CommandEntry("membership:drain_command", "Make a node leave the network cleanly.", NETWORK),
    "remove": CommandEntry("membership:remove_command", "Take a dead node out of the network.", NETWORK),
    "backup": CommandEntry("keeping:backup_command", "Copy a node's store into one file, while it runs.", NETWORK),
    "restore": CommandEntry("keeping:restore_command", "Restore a node's store from a backup.", NETWORK),
    "bench": CommandEntry("bench:bench_command", "Load a broker and measure it.", NETWORK),
    "simulate": CommandEntry("simulating:simulate_command", "Run a system's protocol in virtual time.", LAB),
    "torture": CommandEntry(
        "torturing:torture_command", "Test whole brokers and clients in simulation, under every kind of fault.", LAB
    ),
    "price": CommandEntry("pricing:price_command", "Plan with any systems on a generated workload.", LAB),
    "reproduce": CommandEntry("reproducing:reproduce_command", "Run the papers' experiments.", LAB),
    "systems": CommandEntry("catalogue:systems_command", "List the systems, or the parameters of one.", HELP),
    "workloads": CommandEntry(
        "catalogue:workloads_command", "List the workload generators, or one's parameters.", HELP
    ),
    "doctor": CommandEntry("doctor:doctor_command", "Check the installation.", HELP),
}

NOT_ON_WINDOWS = ("fcntl", "resource", "uvloop")  # modules that nodes need
INTERRUPTED = 130  # the exit code of what Ctrl-C ended
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


def load_command(name: str) -> Any:
    """The command with its options; imports its module."""
    module, _, function = COMMANDS[name].place.partition(":")
    with loading():
        command = getattr(import_module(f"coterie.cli.{module}"), function)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    alone.command(name, cls=WordedCommand, help=help_of(command), context_settings=HELP_NAMES)(spread(command))
    return typer.main.get_command(alone)


class WordedCommand(TyperCommand):
    """Its help says in words what an option takes."""

    def get_params(self, ctx: Any) -> list[Any]:
        return worded(super().get_params(ctx))


class LateGroup(TyperGroup):
    """Lists commands by what the table says of them; loads the one that is run."""

    def get_params(self, ctx: Any) -> list[Any]:
        return worded(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        listed = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=listed.says, rich_help_panel=listed.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            if args[1:] == ["-h"]:  # for pub and sub it is the host, as for mosquitto_pub; a host needs a name
                args = [args[0], "--help"]
            return args[0], load_command(args[0]), args[1:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LateGroup,
    help="Publish/subscribe that organises itself around who listens to what. Begin with: coterie compare",
    no_args_is_help=True,
    context_settings=HELP_NAMES,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def help_of(command: Callable[..., None]) -> str:
    """Its docstring with a line per paragraph: where lines end is for the terminal to say. Examples keep theirs."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(_told(paragraph) for paragraph in paragraphs)


def _told(paragraph: str) -> str:
    if paragraph.startswith("Examples:"):
        return "\b\n" + "\n".join(line.replace("[", r"\[") for line in paragraph.splitlines())
    return " ".join(paragraph.split())


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    debug: bool = typer.Option(False, "--debug", help="Show a stack trace with an error."),
) -> None:
    if version:
        import coterie

        out.print(f"coterie {coterie.__version__}")
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
        app(list(arguments), prog_name="coterie")
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the command line's library says so without a word
            raise KeyboardInterrupt from None
        raise
    except ModuleNotFoundError as error:
        if error.name not in NOT_ON_WINDOWS:
            raise
        name = next((word for word in arguments if word in COMMANDS), "")
        told = "Linux, macOS or WSL (docs/howto/install.md says what runs where)"
        raise ConfigError(f"coterie {name}", sys.platform, told) from None
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
