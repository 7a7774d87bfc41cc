"""Options of the commands that read a log: what it is, where things land, and what it is planned for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.api.logs import AGAINST, ASSUMED_ZONES, Log, request_of
from coterie.cli.choices import Conf, Seed
from coterie.pipeline.storage import folder_of

if TYPE_CHECKING:
    from coterie.api.comparing import Comparison
    from coterie.api.logs import Report

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
        "auto recognises all of these but patterns.",
        rich_help_panel=INPUT,
    ),
]
Zone = Annotated[str, typer.Option("--zone", help="Time zone for timestamps without one.", rich_help_panel=INPUT)]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.", rich_help_panel=INPUT)]
ByContent = Annotated[
    bool,
    typer.Option(
        "--by-content",
        help="A file has changed if its content has; by default, if its size or time has. Reads every file once more.",
        rich_help_panel=INPUT,
    ),
]
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
        help="Spread the brokers over this many zones, if neither the log nor --fleet says where they are. "
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
LearnShare = Annotated[
    float, typer.Option("--learn-share", help="Share of the publications to learn from.", rich_help_panel=WINDOWS)
]


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """A log, and how to read it."""

    inputs: Inputs = None
    out_folder: Out = Path("out")
    columns: Map = None
    mapping: Mapping = None
    time_unit: TimeUnit = "auto"
    zone: Zone = "UTC"
    strict: Strict = False
    by_content: ByContent = False
    machines: Machines = 1000
    cell: Cell = 1.0
    seed: Seed = 1
    spark: Spark = "local[*]"
    conf: Conf = None

    def log(self, is_peers: bool = False) -> Log:
        """Nothing is read yet; what is made of it lands below `out_folder`."""
        from coterie.pipeline.shapes import Choices

        readers = Choices(seed=self.seed, subscribers=self.machines, cell_degrees=self.cell, strict=self.strict)
        request = request_of(self.inputs or [], self.columns, self.mapping, self.time_unit, self.zone, is_peers)
        request = replace(
            request, readers=readers, seed=self.seed, strict=self.strict, is_hashed=self.by_content
        )  # fmt: skip
        folder = self.out_folder / (f"{request.name}-peers" if is_peers else request.name)
        return Log(request.name, request, is_peers=is_peers, spark=self.spark, folder=folder, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(LogOptions):
    """A log, the brokers, what they run now and what it is compared with."""

    systems: Systems = None
    against: Against = AGAINST
    brokers: BrokerCount = 0
    zones: ZoneCount = None
    peers: Peers = False
    fleet: FleetFile = None
    prices: PriceFile = None
    learn_share: LearnShare = 0.5

    def compared(
        self, log: Log, progress: Report, target: str | None = None, limits: list[str] | None = None
    ) -> Comparison:
        from coterie.api.comparing import compare

        learn = replace(log, brokers=self.brokers).split(self.learn_share)[0]
        return compare(
            learn, systems=self.systems, against=self.against, prices=self.prices, zones=self.zones, target=target,
            fleet=self.fleet, limits=limits, seed=self.seed, progress=progress,
        )  # fmt: skip
