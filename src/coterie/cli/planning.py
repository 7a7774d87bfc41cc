"""`coterie compare` and `coterie plan`: logs in, bills and a priced plan out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.api.answers import KeptAnswer, keep_answer, kept_answer, question
from coterie.api.logs import AGAINST, ASSUMED_ZONES, Log, request_of
from coterie.cli import choices
from coterie.cli.console import LOG_STAGES, out, print_json, progress
from coterie.cli.shown import show
from coterie.pipeline.storage import folder_of

if TYPE_CHECKING:
    from coterie.pipeline.shapes import Choices
    from coterie.plans.plan import Plan

ANSWERS = ".answers"
INPUT, WINDOWS = "Input", "Windows and network"

Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders, globs, a journal folder, or the name of a known trace; TABLE=PATH says what a file "
        "holds. Nothing: the embedded Debian data.",
        show_default=False,
    ),
]
Out = Annotated[
    Any,
    typer.Option(
        "--out",
        "-o",
        metavar="PATH",
        parser=folder_of,
        help="Folder for tables, designs, ledgers, plans and the report; or a URI (s3a://..., gs://..., hdfs://...).",
    ),
]
Spark = Annotated[str, typer.Option("--spark", help="Master: local[*], spark://..., or sc://... (Spark Connect).")]
Systems = Annotated[
    list[str] | None,
    typer.Option("--system", "-s", help="NAME or NAME:key=value,...; repeatable. Default: all systems."),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME=COLUMN",
        help="Our name for a column and yours: subscriber=user; repeatable. Subscriptions have subscriber, topic, "
        "since, until; publications time, publisher, topic, bytes.",
        rich_help_panel=INPUT,
    ),
]
Mapping = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        help="A TOML file that names files and columns, instead of --map; see docs/PIPELINE.md.",
        rich_help_panel=INPUT,
    ),
]
TimeUnit = Annotated[
    str,
    typer.Option(
        "--time-unit",
        help="How times are written: s, ms, us or ns since 1970, iso, or a pattern such as '%d.%m.%Y %H:%M:%S'. "
        "auto tells all but patterns apart by itself.",
        rich_help_panel=INPUT,
    ),
]
Zone = Annotated[str, typer.Option("--zone", help="Time zone for timestamps without one.", rich_help_panel=INPUT)]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.", rich_help_panel=INPUT)]
Machines = Annotated[
    int, typer.Option("--machines", help="Subscribers drawn for the Debian trace.", rich_help_panel=INPUT)
]
Cell = Annotated[
    float, typer.Option("--cell", help="Edge of a grid cell in degrees, for positions.", rich_help_panel=INPUT)
]
BrokerCount = Annotated[
    int,
    typer.Option(
        "--brokers",
        "--nodes",
        "-b",
        help="How many brokers you run, if the log names none; 0 chooses by the number of clients.",
        rich_help_panel=WINDOWS,
    ),
]
Peers = Annotated[
    bool,
    typer.Option("--peers", help="No brokers: every client is a node (peer-to-peer).", rich_help_panel=WINDOWS),
]
ZoneCount = Annotated[
    int | None,
    typer.Option(
        "--zones",
        help="Spread the brokers over so many zones, if neither the log nor --fleet says where they are. "
        f"{ASSUMED_ZONES} by default; 1 with --fleet or --for.",
        show_default=False,
        rich_help_panel=WINDOWS,
    ),
]
Against = Annotated[
    str,
    typer.Option(
        "--against",
        "-a",
        help="What you run now: mesh, star, nats, emqx, vernemq, mosquitto, or any system.",
        rich_help_panel=WINDOWS,
    ),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        help="Plan only what this target of `coterie export` can express: haproxy, mosquitto-acl, nats-users ...",
        rich_help_panel=WINDOWS,
    ),
]
FleetFile = Annotated[
    Path | None,
    typer.Option(
        "--fleet", help="The fleet file, which names the hub of a star and the brokers' zones.", rich_help_panel=WINDOWS
    ),
]
PriceFile = Annotated[
    Path | None,
    typer.Option("--prices", help="A price file (`coterie prices` prints an example).", rich_help_panel=WINDOWS),
]
Interval = Annotated[
    float,
    typer.Option(
        "--interval",
        help="Show rates per so many seconds (60, 3600, 86400 ...); changes no ratio.",
        rich_help_panel=WINDOWS,
    ),
]
LearnShare = Annotated[
    float, typer.Option("--learn-share", help="Share of the publications to learn from.", rich_help_panel=WINDOWS)
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="What the plan must keep to; repeatable. hops_mean, hops_p99: links that a delivery crosses. ms_mean, "
        "ms_p99: milliseconds (at hop_ms a link, zone_ms between zones: 1 and 5 unless set). links_max: links at any "
        "broker. hottest_max: messages of the busiest broker, times the mean (unless set 2, as far as that can be had, "
        "where a broker has over 10,000 a second). survive=node or survive=zone: the crash of any one cuts nobody else "
        "off. moves_per_day: share of the clients that may be moved. If no design keeps to them, you are told which "
        "comes closest.",
        rich_help_panel="Limits",
    ),
]


def planning_command(publishes: bool, says: str) -> Callable[..., None]:
    """The two commands differ in what they do with the outcome."""

    def command(
        inputs: Inputs = None,
        out_folder: Out = Path("out"),
        systems: Systems = None,
        columns: Map = None,
        mapping: Mapping = None,
        time_unit: TimeUnit = "auto",
        zone: Zone = "UTC",
        strict: Strict = False,
        machines: Machines = 1000,
        cell: Cell = 1.0,
        against: Against = AGAINST,
        brokers: BrokerCount = 0,
        zones: ZoneCount = None,
        peers: Peers = False,
        target: For = None,
        fleet: FleetFile = None,
        prices: PriceFile = None,
        interval: Interval = 3600.0,
        learn_share: LearnShare = 0.5,
        limit: Limit = None,
        seed: choices.Seed = 1,
        spark: Spark = "local[*]",
        conf: choices.Conf = None,
        as_json: choices.Json = False,
    ) -> None:
        asked = dict(locals())
        words = {name: value for name, value in asked.items() if name not in ("as_json", "inputs")}
        name = None if publishes or mapping is not None else question(words, inputs or [])
        answer = kept_answer(out_folder / ANSWERS, name)
        if answer is not None:
            _print(answer, None, as_json)
            return
        with progress("plan" if publishes else "compare", as_json, LOG_STAGES) as report:
            from coterie.api.comparing import compare
            from coterie.cli.bills import Unit, answer_of
            from coterie.pipeline.shapes import Choices

            unit = Unit(interval)
            readers = Choices(seed=seed, subscribers=machines, cell_degrees=cell, strict=strict)
            log = log_of_words(inputs, out_folder, columns, mapping, time_unit, zone, readers, spark, peers)
            folder, learn = log.home, replace(log, brokers=brokers).split(learn_share)[0]
            found = compare(
                learn, systems=systems, against=against, prices=prices, zones=zones, target=target, fleet=fleet,
                limits=limit, seed=seed, progress=report,
            )  # fmt: skip
            report("report", 1.0)
            page = found.report(unit.seconds, unit.name).write(folder / "report.html")
            answer = answer_of(found, unit, page)
        keep_answer(out_folder / ANSWERS, name, answer)
        published = found.publish() if publishes else None
        _print(answer, published, as_json)
        if published is not None and not as_json:
            _show_next(folder, target, fleet)

    command.__doc__ = says
    return command


def log_of_words(
    inputs: list[str] | None,
    out_folder: Path,
    columns: list[str] | None,
    mapping: Path | None,
    time_unit: str,
    zone: str,
    readers: Choices,
    spark: str,
    peers: bool = False,
) -> Log:
    """The log that the words of a command line name; what is made of it lands below `out_folder`."""
    request = request_of(inputs or [], columns, mapping, time_unit, zone, peers)
    request = replace(request, readers=readers, seed=readers.seed, strict=readers.strict)
    folder = out_folder / (f"{request.name}-peers" if peers else request.name)
    return Log(request.name, request, is_peers=peers, spark=spark, folder=folder, seed=readers.seed)


compare_command = planning_command(
    False,
    """What would I save? All systems on a log, side by side.

    Every system plans on the first part of the log; the plans are priced on the rest, against what you run now.

    Examples:
      coterie compare
      coterie compare subscriptions=subs.csv publications=pubs.jsonl.gz --map subscriber=user
      coterie compare subs.csv --against mosquitto --brokers 8
    """,
)
plan_command = planning_command(
    True,
    """Compare, and publish the cheapest design as a plan.

    It is a new version in OUT/NAME/plans; planning the same data again publishes nothing new. `coterie apply OUT` and
    `coterie export OUT` find it there.

    Examples:
      coterie plan
      coterie plan subscriptions=subs.csv publications=pubs.jsonl.gz --map subscriber=user --out out
    """,
)


def _print(answer: KeptAnswer, published: Plan | None, as_json: bool) -> None:
    if as_json:
        print_json(answer.document | {"plan": published and published.version, "report": answer.page})
        return
    show(answer)
    if published is not None:
        out.print(f"\nplan {published.version} is current in {Path(published.source).parent}", soft_wrap=True)
    out.print(f"\nreport: {answer.page}", soft_wrap=True)


def _show_next(folder: Path, target: str | None, fleet: Path | None) -> None:
    if target is None:
        said = (
            f"coterie apply {folder} --dry-run (our nodes), or coterie export {folder} --to ... (the brokers you have)"
        )
    else:
        said = f"coterie export {folder} --to {target} --fleet {fleet or 'fleet.toml'} --out export --check"
    out.print(f"next: {said}", soft_wrap=True)
