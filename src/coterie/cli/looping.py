"""`coterie loop`: observe, plan, apply, again when it pays, for brokers people already run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import err, out
from coterie.errors import ConfigError
from coterie.fleets.export.registry import TARGETS, expressible
from coterie.fleets.fleet import BrokerFleet, read_fleet
from coterie.fleets.observe.following import LogObserver
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.places import BrokerPlace

PLANNERS = ("here", "spark")


def loop_command(
    fleet: Annotated[
        Path | None, typer.Option("--fleet", help="The fleet file; `coterie export --example-fleet`.")
    ] = None,
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="TARGET", help=f"Repeatable: {', '.join(TARGETS)}.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="The journal of `coterie observe`; the fleet file may name it.")
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for copies of what was there before.")] = Path(
        "loop"
    ),
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two plans.")] = 900.0,
    rounds: Annotated[int, typer.Option(min=0, help="Stop after this many plans; 0: never.")] = 0,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")] = False,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe", help="Also read the brokers' mosquitto logs, instead of running `coterie observe` beside it."
        ),
    ] = False,
    planner: Annotated[
        str, typer.Option(help="here: in this process; spark: by the pipeline, for big journals.")
    ] = "here",
    spark: Annotated[str, typer.Option("--spark", help="Spark's master, for --planner spark.")] = "local[*]",
) -> None:
    """Observe, plan and apply, again and again.

    Newcomers are admitted where their topics are; every so often there is a plan, which is applied if it pays. Nothing
    is moved beyond limits.moves_per_hour. The journal is kept up to date by `coterie observe --follow` beside it,
    or with --observe from the logs that the fleet file names.

    Examples:
      coterie loop --fleet fleet.toml --to mosquitto-acl --observe --dry-run
    """
    from coterie.fleets.loop import FleetLoop, journal_of, plan_here
    from coterie.fleets.sparkplanning import plan_with_spark

    if fleet is None:
        raise ConfigError("--fleet", None, "a fleet file", do="`coterie export --example-fleet` prints one")
    if not to:
        raise ConfigError("--to", None, f"at least one of {', '.join(TARGETS)}")
    brokers = read_fleet(fleet)
    if planner not in PLANNERS:
        raise ConfigError("--planner", planner, f"one of {', '.join(PLANNERS)}")
    systems = expressible(to[-1]).systems
    with ExitStack() as stack:
        lines, look = (
            _observed(brokers, journal, out_folder, stack) if observe else (journal_of(brokers, journal), _idle)
        )
        chosen = plan_here(systems[0])
        if planner == "spark":
            chosen = plan_with_spark(brokers, lines, out_folder / "plans-of-the-loop", systems, spark)
        loop = FleetLoop(brokers, lines, to, out_folder, chosen, dry, look, _say)
        try:
            loop.run(every, rounds)
        except KeyboardInterrupt:
            err.print("stopped; the fleet stays as it is")


def _observed(
    fleet: BrokerFleet, journal: Path | None, folder: Path, stack: ExitStack
) -> tuple[Path, Callable[[], object]]:
    """The journal, and what brings it up to date from the brokers' logs."""
    path = journal or fleet.journal or folder / "journal"
    if missing := [one.name for one in fleet.broker if one.log is None]:
        raise fleet.missing(
            fleet.key(missing[0], "log"), "what --observe reads; NATS and others: run `coterie observe`"
        )
    store = stack.enter_context(JournalStore(path, "mosquitto"))
    logs = LogObserver(store, [BrokerPlace(one.name, str(one.log)) for one in fleet.broker])
    logs.check_readable()
    return path, logs.observe


def _idle() -> None:
    """Somebody else keeps the journal up to date."""


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
