"""A log: who subscribed to what and who published what, from files or from memory; the beginning of everything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError, InputError

if TYPE_CHECKING:
    from coterie.pipeline.cutting import WindowChoices
    from coterie.pipeline.job import Request
    from coterie.plans.tables import NamedWorkload

LEARN, LATER = "learn", "later"
AGAINST = "mesh"  # what the user runs, unless told: the shape of NATS, EMQX and VerneMQ clusters
ASSUMED_ZONES = 3  # where nothing is known of the brokers
WHOLE_SHARE = 1e-9  # to learn from so little leaves all of the log to the later window
Report = Callable[[str, float], None]


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """A log, or one of the two windows that `split` makes of it.

    Nothing is read before it is needed. Files go through the Spark pipeline and are kept by content in `folder`, so
    that a second look starts nothing; data in memory is used as it is.
    """

    name: str
    request: Request | None = None  # of files
    tables: Mapping[str, Any] = field(default_factory=dict)  # of data in memory: canonical Arrow tables
    ready: NamedWorkload | None = None  # of a generator
    accounts: Mapping[str, Any] = field(default_factory=dict)  # what became of every row, by table
    is_plain: bool = False  # + and # mean nothing in topics
    spark: str = "local[*]"
    folder: Path | None = None
    brokers: int = 0  # where the log names none; 0 chooses by the number of clients
    zones: int | None = None  # of brokers that the log does not name; None: as many as are usual
    is_peers: bool = False  # every client is a node
    seed: int = 1
    zone_of: tuple[tuple[str, str], ...] = ()  # broker and zone, where a fleet file says it
    share: float | None = None  # where it was split
    window: str | None = None  # which half this is

    def split(self, share: float = 0.5) -> tuple[Log, Log]:
        """The first part of the log to learn from, by the share of its publications, and the rest to price on."""
        if not 0 < share < 1:
            raise ConfigError("share", share, "a number between 0 and 1")
        if self.window is not None:
            raise ConfigError("log", f"the {self.window} window", "a whole log: it was split already")
        return replace(self, share=share, window=LEARN), replace(self, share=share, window=LATER)

    @property
    def is_split(self) -> bool:
        return self.window is not None

    def is_other_half_of(self, other: Log) -> bool:
        same = self.request == other.request and self.share == other.share
        same = same and self.tables is other.tables and self.ready is other.ready
        return same and {self.window, other.window} == {LEARN, LATER}

    def demand(self, nodes: int | None = None) -> NamedWorkload:
        """Rates and interests as arrays with their names. With `nodes`, spread over so many if the log names none."""
        found = self._windows[0 if self.window == LEARN else 1]
        if not nodes or nodes == found.workload.node_count:
            return found
        if found.nodes or found.workload.is_peer_network:
            why = "names its nodes" if found.nodes else "is one of peers"
            raise ConfigError("brokers", nodes, f"{found.workload.node_count}, because the log {why}")
        from coterie.pipeline.windows import spread_over

        workload = spread_over(found.workload, nodes, max(len(found.workload.zones), 1))
        return replace(found, workload=workload, facts={**found.facts, "nodes": nodes, "brokers_assumed": False})

    @property
    def facts(self) -> Mapping[str, Any]:
        """How many clients, topics, subscriptions ..., and what was assumed."""
        return self.demand().facts

    @cached_property
    def _windows(self) -> tuple[NamedWorkload, NamedWorkload]:
        if self.ready is not None:
            return self.ready, self.ready
        if self.request is None:
            from coterie.api.memory import windows_of

            shares = [] if self.share is None else [self.share]
            made = windows_of(self.tables, self.name, shares, self.choices, self.is_plain)
            return made[0], made[-1]
        return self._read()

    @property
    def choices(self) -> WindowChoices:
        """How the pipeline is to cut it and to seat clients."""
        from coterie.pipeline.cutting import WindowChoices

        zones = ASSUMED_ZONES if self.zones is None else self.zones
        return WindowChoices(
            learn_share=WHOLE_SHARE if self.share is None else self.share,
            brokers=self.brokers,
            zones=1 if self.is_peers else zones,
            zone_of=self.zone_of,
            is_peers=self.is_peers,
            seed=self.seed,
        )

    def _read(self) -> tuple[NamedWorkload, NamedWorkload]:
        from coterie.pipeline.latesession import session_for
        from coterie.pipeline.named import named_windows

        assert self.request is not None
        cut = replace(self.request, windows=self.choices)
        with session_for(cut, self.spark) as session:
            return named_windows(session, cut, self.home)

    @property
    def home(self) -> Path:
        """Where the pipeline keeps what it made of the files."""
        from coterie.pipeline.java import cache_dir

        return self.folder if self.folder is not None else cache_dir() / "logs" / self.name

    def __repr__(self) -> str:
        what = f"{self.window} window, split at {self.share:g}" if self.window else "whole"
        if self.request is not None and "_windows" not in self.__dict__:
            return f"<Log {self.name}: {what}, not read yet>"
        facts = self.facts
        return (
            f"<Log {self.name}: {what}, {facts['clients']:,} clients, {facts['topics']:,} topics, "
            f"{facts['subscriptions']:,} subscriptions, {facts['nodes']:,} nodes>"
        )

    def _repr_html_(self) -> str:
        if self.request is not None and "_windows" not in self.__dict__:
            return f"<p>{escape(repr(self)[1:-1])}</p>"
        shown = {name: value for name, value in self.facts.items() if isinstance(value, (int, float, str)) and value}
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in shown.items()
        )
        return f"<p><b>{escape(repr(self)[1:-1])}</b></p><table>{rows}</table>"


def read_log(
    subscriptions: Any = None,
    publications: Any = None,
    *,
    nodes: Any = None,
    attachments: Any = None,
    links: Any = None,
    columns: Mapping[str, str] | None = None,
    mapping: str | Path | None = None,
    name: str | None = None,
    time_unit: str = "auto",
    zone: str = "UTC",
    topics: str = "mqtt",
    brokers: int = 0,
    zones: int | None = None,
    peers: bool = False,
    strict: bool = False,
    spark: str = "local[*]",
    folder: str | Path | None = None,
) -> Log:
    """A log of files (CSV, JSON lines, Parquet, journals; paths, folders, globs) or of data frames in memory.

    `subscriptions` alone will do; without anything it is the embedded Debian data. `columns` maps our names to yours:
    `{"subscriber": "user", "topic": "page"}`. The tables and their columns: docs/PIPELINE.md.

    >>> log = read_log([{"subscriber": "ann", "topic": "news"}, {"subscriber": "bob", "topic": "news"}])
    >>> log
    <Log log: whole, 3 clients, 1 topics, 2 subscriptions, 4 nodes>
    """
    from coterie.api.frames import is_frame

    given = {
        "subscriptions": subscriptions,
        "publications": publications,
        "nodes": nodes,
        "attachments": attachments,
        "links": links,
    }
    given = {table: value for table, value in given.items() if value is not None}
    frames = {table: value for table, value in given.items() if is_frame(value)}
    if frames and len(frames) < len(given):
        file = next(table for table in given if table not in frames)
        raise ConfigError(file, given[file], "all tables as files, or all of them in memory")
    if frames:
        found = _of_frames(frames, columns or {}, name or "log", time_unit, zone, topics == "plain", strict)
        return replace(found, brokers=brokers, zones=zones, is_peers=peers)
    words = [f"{key}={value}" for key, value in (columns or {}).items()]
    request = request_of(
        _inputs(given), words, None if mapping is None else Path(mapping), time_unit, zone, peers, topics
    )
    request = replace(request, name=name or request.name, strict=strict)
    return Log(
        request.name,
        request,
        is_plain=topics == "plain",
        spark=spark,
        folder=None if folder is None else Path(folder),
        brokers=brokers,
        zones=zones,
        is_peers=peers,
    )


def _inputs(given: Mapping[str, Any]) -> list[str]:
    found = []
    for table, value in given.items():
        paths = [value] if isinstance(value, (str, os.PathLike)) else list(value)
        named = ["=" in str(path) and not os.path.exists(path) for path in paths]
        found += [str(path) if is_named or (table == "subscriptions" and len(given) == 1) else f"{table}={path}"
                  for path, is_named in zip(paths, named, strict=True)]  # fmt: skip
    return found


def _of_frames(
    frames: Mapping[str, Any], columns: Mapping[str, str], name: str, time_unit: str, zone: str, is_plain: bool,
    strict: bool,
) -> Log:  # fmt: skip
    from coterie.api.frames import canonical
    from coterie.pipeline.schemas import table_schema

    if "subscriptions" not in frames:
        raise InputError(name, "has no subscriptions; they are the first thing that read_log wants")
    tables, accounts = {}, {}
    known = {column for table in frames for column in table_schema(table).names}
    if strange := [key for key in columns if key not in known]:
        raise ConfigError("columns", strange[0], f"one of {', '.join(sorted(known))}")
    for table, frame in frames.items():
        mine = {key: value for key, value in columns.items() if key in table_schema(table).names}
        tables[table], account = canonical(
            frame, table, mine, time_unit=time_unit, zone=zone, is_plain=is_plain, strict=strict
        )
        accounts[table] = account.as_facts()
    return Log(name, tables=tables, accounts=accounts, is_plain=is_plain)


def workload_log(name: str, settings: Mapping[str, object] | None = None, *, seed: int = 0) -> Log:
    """A generated workload (`ct.list_workloads()` lists them) as a log; its topics and clients are numbered."""
    from coterie.workloads import make_workload

    return log_of(make_workload(name, settings or {}, seed))


def check_log(log: Any) -> None:
    """Before work is done with it."""
    from coterie.plans.pricing import LOG_WANTED

    if not isinstance(log, Log):
        raise ConfigError("log", type(log).__name__, LOG_WANTED)


def log_of(demand: Any) -> Log:
    """A workload in memory as a log."""
    import pyarrow as pa

    from coterie.plans.tables import NamedWorkload

    topics = pa.array([f"topic-{number}" for number in range(demand.topic_count)], pa.string())
    clients = pa.array([f"client-{number}" for number in range(demand.subscriber_count)], pa.string())
    facts = {
        "clients": demand.subscriber_count,
        "topics": demand.topic_count,
        "subscriptions": demand.interests.pair_count,
        "nodes": demand.node_count,
        "is_peers": demand.is_peer_network,
        "zones": list(demand.zones),
        "published_per_s": float(demand.publications.rate.sum()),
    }
    return Log(demand.name, ready=NamedWorkload(demand, topics, clients, facts=facts))


# --- files ---


def request_of(
    inputs: Sequence[str],
    columns: Sequence[str] | None,
    mapping: Path | None,
    time_unit: str,
    zone: str,
    is_peers: bool,
    topics: str = "mqtt",
) -> Request:
    """Words of a command line as what the pipeline reads: paths, TABLE=PATH, the name of a trace, or nothing."""
    from coterie.pipeline.embedded import embedded_request
    from coterie.pipeline.job import Request
    from coterie.pipeline.mapping import read_sources
    from coterie.pipeline.shapes import SHAPES, find_trace, shape_of

    if mapping is not None:
        return Request(mapping.stem, sources=tuple(read_sources(mapping)))
    if not inputs:
        return embedded_request(is_peers)
    if len(inputs) == 1 and inputs[0] in {shape.name for shape in SHAPES}:
        return Request(inputs[0], trace=find_trace(inputs[0]))
    if len(inputs) == 1 and "=" not in inputs[0] and os.path.exists(inputs[0]) and not columns:
        path = Path(inputs[0])
        shape = shape_of(path)
        if shape is not None:
            return Request(path.name if shape.name == "journal" else shape.name, trace=path)
    return Request(_name(inputs), sources=_sources(inputs, columns or [], time_unit, zone, topics))


def _sources(inputs: Sequence[str], columns: Sequence[str], time_unit: str, zone: str, topics: str) -> tuple[Any, ...]:
    from coterie.pipeline.mapping import Source, parse_columns
    from coterie.pipeline.schemas import TABLES

    by_table: dict[str, list[str]] = {}
    for entry in inputs:
        name, separator, path = entry.partition("=")
        is_named = bool(separator) and name in TABLES
        if separator and not is_named and not os.path.exists(entry):
            raise ConfigError("input", entry, f"TABLE=PATH with a table of {', '.join(TABLES)}")
        by_table.setdefault(name if is_named else "subscriptions", []).append(path if is_named else entry)
    for word in columns:
        if not any(word.partition("=")[0].strip() in TABLES[name].names for name in by_table):
            known = sorted({column for name in by_table for column in TABLES[name].names})
            raise ConfigError("--map", word, f"NAME=COLUMN with a name of {', '.join(known)}")
    sources = []
    for name, paths in by_table.items():
        mine = [word for word in columns if word.partition("=")[0].strip() in TABLES[name].names]
        sources.append(
            Source(tuple(paths), name, parse_columns(mine, name), time_unit=time_unit, zone=zone, topics=topics)
        )
    check_columns(sources)
    return tuple(sources)


def check_columns(sources: Sequence[Any]) -> None:
    """A column that the files do not have is told with those that they have, before anything is started."""
    from coterie.pipeline.catalogs import is_table
    from coterie.pipeline.files import list_files, look_into
    from coterie.pipeline.schemas import table_schema

    for source in sources:
        if "://" in source.paths[0] or is_table(source.paths[0]):  # what is far away is looked at by who reads it
            continue
        for where, _ in list_files(replace(source, paths=source.paths[:1]))[:1]:
            file = look_into(where, source)
            if not file.columns or (file.format == "csv" and not file.has_header):
                continue
            wanted = {one.name for one in table_schema(source.table).fields if one.required} | set(source.columns)
            absent = [name for name in table_schema(source.table).names
                      if name in wanted and source.column(name) not in file.columns]  # fmt: skip
            if absent:
                told = f"one of the columns of {file.path}: {', '.join(file.columns)}"
                do = f"say {' '.join(f'--map {name}=COLUMN' for name in absent)} (in Python, columns=)"
                raise ConfigError(f"column of {absent[0]}", source.column(absent[0]), told, do=do)


def _name(inputs: Sequence[str]) -> str:
    from coterie.pipeline.catalogs import TABLE, is_table

    first = inputs[0].partition("=")[2] or inputs[0]
    stem = first.removeprefix(TABLE).rpartition(".")[2] if is_table(first) else Path(first).name.split(".")[0]
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in stem) or "input"
