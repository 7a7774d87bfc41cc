"""`coterie watch`: follow the journal of a live network and publish a new plan whenever it pays."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from coterie.cli.choices import Conf, Seed
from coterie.cli.console import err, number, out
from coterie.cli.logoptions import Spark, Systems
from coterie.errors import ConfigError
from coterie.model.parameters import settings_of
from coterie.pipeline.features import ALPHA, BETA

if TYPE_CHECKING:
    from coterie.pipeline.progress import Progress
    from coterie.pipeline.reconfiguration import Decision
    from coterie.pipeline.watch import WatchLock

TIME, RULES = "Time", "Decision"

Journal = Annotated[
    str,
    typer.Argument(
        help="The journal folder of the nodes (docs/JOURNAL.md), kafka://host:port/topic, or table:catalog.schema.name."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="For Kafka and tables: which column is time, kind, client ..."),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for plans, state and checkpoint; keep it to continue later.")
]
Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint", metavar="URI", help="Where Spark keeps its state; all executors must see it. Default: --out."
    ),
]
WindowLength = Annotated[
    float, typer.Option("--window", help="Seconds of event time per window.", rich_help_panel=TIME)
]
Late = Annotated[
    float, typer.Option("--late", help="Seconds that a window waits for late lines.", rich_help_panel=TIME)
]
Every = Annotated[
    float, typer.Option("--every", help="Seconds between two looks at the journal.", rich_help_panel=TIME)
]
Period = Annotated[
    float,
    typer.Option(
        "--period", help="Seconds between two decisions; a new plan must pay within it.", rich_help_panel=RULES
    ),
]
Alpha = Annotated[
    float, typer.Option("--alpha", help="Weight of the newest window in the rates.", rich_help_panel=RULES)
]
Beta = Annotated[
    float,
    typer.Option(
        "--beta",
        help="Look for a new plan only if the current one costs more in a period than this share of a change of "
        "everything.",
        rich_help_panel=RULES,
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Read what is there now, then stop.")]
UntilIdle = Annotated[bool, typer.Option("--until-idle", help="Stop when nothing new comes.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per decision and line.")]


def watch_command(
    journal: Journal,
    out_folder: Out = Path("out/watch"),
    systems: Systems = None,
    window: WindowLength = 60.0,
    period: Period = 600.0,
    alpha: Alpha = ALPHA,
    beta: Beta = BETA,
    late: Late = 10.0,
    every: Every = 5.0,
    once: Once = False,
    until_idle: UntilIdle = False,
    seed: Seed = 1,
    spark: Spark = "local[*]",
    conf: Conf = None,
    columns: Columns = None,
    checkpoint: Checkpoint = "",
    as_json: JsonLines = False,
) -> None:
    """Follow a journal; publish a new plan when it pays.

    The journal is that of a live network; a plan pays when it saves more than the change costs. It may be stopped or
    killed at any moment: the same command goes on where it was, and no plan is lost or published twice. Every decision
    is one line that says why.

    A decision is made in the memory of this machine, for up to 20 million subscriptions; for more, run plan now and
    then.

    Examples:
      coterie watch coterie-data/journal --out plans
    """
    from coterie.api.choosing import candidates_of
    from coterie.pipeline.reconfiguration import DecisionRules
    from coterie.pipeline.session import close_session, open_session
    from coterie.pipeline.storage import folder_of
    from coterie.pipeline.streams import lines_of
    from coterie.pipeline.watch import Watch, WatchLock
    from coterie.systems import SYSTEMS

    if once and until_idle:
        raise ConfigError("--once", "--until-idle", "one of the two")
    if window <= 0:
        raise ConfigError("--window", window, "a positive number of seconds")
    rules = DecisionRules(candidates_of(systems), SYSTEMS, beta, max(1, round(period / window)), seed)
    source = lines_of(journal, settings_of(columns or [], "--map"))
    place = folder_of(checkpoint) if checkpoint else None
    wanted = Watch(Path(journal), out_folder, rules, window, alpha, late, every, source=source, checkpoint=place)
    err.print(f"starting Spark; plans for up to {wanted.wanted_max:,} subscriptions")
    session = open_session(spark)
    watcher = WatchLock(session, wanted, _tell_json if as_json else _tell)
    run = watcher.run_once if once else watcher.run_until_idle if until_idle else watcher.follow
    try:
        run()
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from here")
    finally:
        close_session(session)
    progress = watcher.progress()
    if progress.batch >= 0 and not as_json:
        out.print(_summary(progress, watcher), soft_wrap=True)


def _tell_json(decision: Decision) -> None:
    sys.stdout.write(msgspec.json.encode(decision).decode() + "\n")
    sys.stdout.flush()


def _tell(decision: Decision) -> None:
    head = f"{_clock(decision.end_s)} "
    if decision.is_published:
        said = f"[bold]plan {decision.plan} published[/] ({decision.system}): {decision.reason}"
    elif decision.plan is None:
        said = f"no plan: {decision.reason}"
    else:
        said = f"plan {decision.plan} kept: {decision.reason}"
    out.print(head + said + _figures(decision), soft_wrap=True)


def _figures(decision: Decision) -> str:
    if decision.benefit is not None and decision.change_cost is not None:
        return f" ({decision.system} saves {number(decision.benefit)}, changing costs {number(decision.change_cost)})"
    if decision.cost_now is not None and decision.threshold is not None:
        return f" (costs {number(decision.cost_now)}, worth a look above {number(decision.threshold)})"
    return ""


def _summary(progress: Progress, watcher: WatchLock) -> str:
    upto = "no window is complete yet"
    if progress.next_window is not None:
        upto = f"complete up to {_clock(progress.next_window * progress.window_s)}"
    plan = watcher.store.current()
    told = [
        f"{progress.line_count:,} lines of {progress.node_count} nodes, {upto}",
        f"{progress.wanted_count:,} subscriptions, {progress.event_count:,} publications",
        "no plan" if plan is None else f"plan {plan} is current in {watcher.store.root / 'plans'}",
    ]
    if progress.bad_count or progress.late_count:
        told.append(
            f"[yellow]{progress.bad_count:,} lines unreadable or from the future, {progress.late_count:,} too late[/]"
        )
    return "\n".join(told)


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
