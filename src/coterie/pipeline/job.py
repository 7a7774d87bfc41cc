"""The main job: logs in, priced plan out; a list of named steps that a killed run picks up where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

import coterie
from coterie.accounting.bounds import lower_bounds
from coterie.accounting.placement_bound import least_copies
from coterie.errors import ConfigError, InputError
from coterie.kernels.placement.limits import limits_of
from coterie.model import Workload
from coterie.model.limits import NO_LIMITS, DesignLimits
from coterie.model.store import load_workload, save_workload
from coterie.model.wires import COTERIE
from coterie.pipeline.catalogs import read_tables, tables_of, versions_of
from coterie.pipeline.deriving import derive
from coterie.pipeline.files import EMPTY_FILE, list_files
from coterie.pipeline.ingest import Account, ingest
from coterie.pipeline.legs import Leg, Legs
from coterie.pipeline.mapping import Source
from coterie.pipeline.pieces import Pieces
from coterie.pipeline.planning import (
    LATER,
    LEARN,
    OWN,
    PLACED,
    STAY,
    Candidate,
    Priced,
    Ways,
    both_ways,
    cheapest,
    closest,
    design_file,
    price_all,
)
from coterie.pipeline.rolling import Rolled, roll
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.shapes import DEFAULT_CHOICES, Choices, read_shape, shape_of
from coterie.pipeline.steps import Facts, Progress, Step, run_steps
from coterie.pipeline.storage import FileStat, Folder, Remote, write_rows
from coterie.pipeline.windows import DEFAULT_WINDOWS, WindowChoices, build_workloads, plan_tables
from coterie.plans.plan import DESIGN, PlanFacts
from coterie.plans.store import PlanStore
from coterie.plans.tables import write_tables
from coterie.substrate.placing import DIMENSIONS, EVEN_ENOUGH, client_weights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGERS, BILLS = "ledgers.parquet", "bills"
NOT_ROLLED = Rolled()
AGAINST = "mesh"  # what the user runs, unless told: the shape of NATS, EMQX and VerneMQ clusters


@dataclass(frozen=True)
class Request:
    """What to plan for: a known trace or journal, or sources with a column mapping; and how."""

    name: str
    trace: Path | None = None
    sources: tuple[Source, ...] = ()
    readers: Choices = DEFAULT_CHOICES
    windows: WindowChoices = DEFAULT_WINDOWS
    seed: int = 1
    strict: bool = False
    is_hashed: bool = False  # files count as changed by their content, not by size and time
    against: str = AGAINST  # the system the user runs now, on the placement found in the log
    wire: str = COTERIE.name  # in whose bytes the bills are
    allowed: tuple[str, ...] = (STAY, PLACED, OWN)  # what may become of clients in the plan that is chosen
    is_crowd: bool | None = None  # clients stay tables; None: where there are too many rows for one machine
    limits: DesignLimits = NO_LIMITS  # what it must keep to
    only: str = ""  # the system it must be of; "": any


@dataclass(frozen=True)
class Outcome:
    """What the job found; `accounts` says what became of every input row, per table."""

    name: str
    folder: Any  # a Path, or a folder of a store
    priced: list[Priced]
    facts: Facts
    accounts: dict[str, Facts]
    chosen: Priced | None
    seconds: dict[str, float]
    against: Priced | None = None  # what the user runs now
    rolled: Rolled = NOT_ROLLED  # what the chosen design saves over several windows
    unmet: str = ""  # which limits nothing keeps to, and what comes closest


def run_job(
    spark: SparkSession,
    request: Request,
    candidates: Sequence[Candidate],
    out: Any,
    progress: Progress | None = None,
    placer: Candidate | None = None,
) -> Outcome:
    """Ingest, build both workloads, plan and price; everything lands below `out`, a Path or a folder of a store.

    With a `placer`, a fleet's clients are planned both ways: where they are, and where the placer puts them.
    """
    names = [candidate.system.name for candidate in candidates]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError("system", repeated[0], "each system once", do="compare its settings in runs of their own")
    if _is_crowd(spark, request, out, progress):
        from coterie.pipeline.crowds.job import run_crowd

        return run_crowd(spark, request, candidates, out, progress, placer)
    steps = [
        tables_step(spark, request),
        workloads_step(spark, request),
        Step(
            "designs",
            _designs(spark, request, candidates, placer),
            ("workloads",),
            described(candidates, request) | {"placer": None if placer is None else placer.system.name},
            version=3,
        ),
    ]
    done = run_steps(steps, out / "work", progress=progress, spark=spark)
    priced = [msgspec.convert(entry, Priced) for entry in done["designs"].facts["priced"]]
    against = next((one for one in priced if one.system == request.against and one.placement != PLACED), None)
    allowed = [one for one in priced if one.placement in request.allowed and request.only in ("", one.system)]
    clients = int(done["workloads"].facts["clients"])
    chosen = cheapest(allowed, request.limits, clients)
    facts = done["workloads"].facts | {"least_copies": done["designs"].facts["least_copies"]}
    write_ledgers(priced, against, out / LEDGERS)
    if placer is not None and against is not None and chosen is not None:
        pair = (_asked(candidates, against), _asked(candidates, chosen))
        about = described(pair, request) | {"chosen": chosen.name, "windows": plain(request.windows)}
        rolling = Step("rolling", _rolling(spark, request, pair, placer), ("tables",), about)
        done = run_steps([*steps, rolling], out / "work", progress=progress, spark=spark)
    return Outcome(
        request.name,
        out,
        priced,
        facts,
        done["tables"].facts["accounts"],
        chosen,
        {name: step.seconds for name, step in done.items()},
        against,
        msgspec.convert(done["rolling"].facts["rolled"], Rolled) if "rolling" in done else NOT_ROLLED,
        closest(allowed, request.limits, clients),
    )


def _is_crowd(spark: SparkSession, request: Request, out: Folder, progress: Progress | None) -> bool:
    """Whether clients are too many for one machine, as what was read says, or no disk of this machine is to be used."""
    if request.is_crowd is not None or request.windows.is_peers or isinstance(out, Remote):
        return bool(request.is_crowd) or isinstance(out, Remote)
    from coterie.pipeline.crowds.steps import is_crowd

    done = run_steps([tables_step(spark, request)], out / "work", progress=progress, spark=spark)
    return is_crowd(done["tables"].facts["accounts"], None)


def least_copies_of(later: Workload) -> float:
    """Copies per second that no placement of the clients within the usual limits can do without; peers cannot move."""
    if later.is_peer_network:
        return lower_bounds(later).dissemination.wanted
    even = np.ones((later.node_count, len(DIMENSIONS)))
    limits = limits_of(client_weights(later), even, EVEN_ENOUGH.by_dimension)
    return least_copies(later, limits.weight, limits.capacity)


def _asked(candidates: Sequence[Candidate], entry: Priced) -> Candidate:
    found = next(one for one in candidates if one.system.name == entry.system)
    return replace(found, placement=entry.placement)


def publish_plan(outcome: Outcome, store: PlanStore, told: Sequence[str] = ()) -> int:
    """Publish the cheapest design, with its bill and what is to be said of it; the same one from the same data once."""
    if outcome.chosen is None:
        reason = outcome.unmet or "no system serves everybody on the later window"
        raise InputError(str(outcome.folder), f"{reason.rstrip('.')}; nothing to publish")
    chosen = outcome.chosen
    done = outcome.folder / "work"
    is_crowd = bool(outcome.facts.get("is_crowd"))
    designs = only(done / ("crowd-designs" if is_crowd else "designs"))

    def write(folder: Path) -> None:
        if is_crowd:
            from coterie.pipeline.crowds.job import write_crowd_plan

            write_crowd_plan(outcome, folder)
            return
        workloads = only(done / "workloads")
        (folder / DESIGN).write_bytes(design_file(designs, chosen.system, chosen.placement).read_bytes())
        write_tables(plan_tables(workloads, only(done / "tables"), load_workload(workloads / LATER)), folder)

    facts = PlanFacts(
        system=chosen.system,
        input=outcome.name,
        about=outcome.facts,
        predicted=chosen.learn,
        later=chosen.later,
        now=None if outcome.against is None else outcome.against.later,
        against=None if outcome.against is None else outcome.against.name,
        told=tuple(told),
        because=f"fewest bytes between brokers on the later window, of {len(outcome.priced)} designs",
    )
    key = f"{designs.name}/{chosen.name}"
    if isinstance(outcome.folder, Remote):
        from coterie.pipeline.crowds.job import publish_in_store

        return publish_in_store(outcome, key, facts)
    return store.publish(key, facts, write)


def write_ledgers(priced: Sequence[Priced], against: Priced | None, path: Folder) -> None:
    """One row per (system, placement, window, column): per second, with its bound and the saving against what runs."""
    rows: list[dict[str, Any]] = []
    for entry in priced:
        for window in ("learn", "later"):
            ledger, bound = getattr(entry, window), getattr(entry, f"{window}_bound")
            if ledger is None:
                continue
            now = getattr(against, window) if against is not None else None
            base, bounds = now.columns() if now is not None else {}, bound.columns()
            rows += [
                {
                    "system": entry.system,
                    "placement": entry.placement,
                    "window": window,
                    "column": column,
                    "value": value,
                    "bound": bounds[column],
                    "saved": 1 - value / base[column] if base.get(column) else None,
                }
                for column, value in ledger.columns().items()
            ]
    schema = pa.schema(
        [(name, pa.string()) for name in ("system", "placement", "window", "column")]
        + [(name, pa.float64()) for name in ("value", "bound", "saved")]
    )
    write_rows(pa.Table.from_pylist(rows, schema), path)


# --- steps ---


def tables_step(spark: SparkSession, request: Request) -> Step:
    """What every job begins with: the input as canonical tables."""
    params = _read_as(request)
    if any(tables_of(source) for source in request.sources):
        params |= {"tables": dict(versions_of(spark, request.sources))}
    legs = Legs()
    files, is_hashed = _files_of(request), request.is_hashed
    return Step("tables", _tables(spark, request, legs), (), params, files, is_hashed, version=2, legs=legs)


def workloads_step(spark: SparkSession, request: Request) -> Step:
    """The second: both windows as arrays."""
    cut = plain(request.windows) | {"name": request.name}
    return Step("workloads", _workloads(spark, request), ("tables",), cut, version=4)


Run = Callable[[Path, Mapping[str, Path]], Facts]


def _tables(spark: SparkSession, request: Request, leg: Leg) -> Run:
    def run(out: Path, inputs: Mapping[str, Path]) -> Facts:
        if request.trace is not None:
            accounts = read_shape(spark, request.trace, out, request.readers)
        else:
            by_table: dict[str, list[Source]] = {}
            for source in request.sources:
                by_table.setdefault(source.table, []).append(source)
            accounts = {}
            for number, (table, sources) in enumerate(by_table.items()):
                leg(number / len(by_table), (number + 1) / len(by_table))
                accounts[table] = _read(spark, sources, out, request.strict)
        _check_kept(request, accounts)
        accounts |= derive(spark, out, request.readers.cell_degrees)
        return {"accounts": {table: account.as_facts() for table, account in accounts.items()}}

    return run


def _read(spark: SparkSession, sources: list[Source], out: Path, strict: bool) -> Account:
    """Files, or tables of a catalog."""
    named = [source for source in sources if tables_of(source)]
    if not named:
        return ingest(spark, sources, out, strict=strict)
    if len(sources) > 1:
        raise ConfigError("input", [source.paths for source in sources], "one source for a table that is a catalog's")
    return read_tables(spark, named[0], out)


def _check_kept(request: Request, accounts: Mapping[str, Account]) -> None:
    """Tables of nothing but bad rows are a mistake in the mapping more often than in the data: say so at once."""
    for table, account in accounts.items():
        if table == "subscriptions" and not account.rows_in:
            unread = [file for file in account.files if file.note not in ("", EMPTY_FILE)]
            if unread:
                more = f"; {len(unread) - 1:,} more files are like it" if len(unread) > 1 else ""
                raise InputError(unread[0].path, f"{unread[0].note}{more}")
            files = ", ".join(path for source in request.sources if source.table == table for path in source.paths)
            raise InputError(files or request.name, "holds no subscriptions: not one row was found")
        if account.rows_in and not account.kept:
            reason = max(account.reasons, key=lambda name: account.reasons[name], default="they are bad")
            rows = f"all {account.rows_in:,} rows of {table} were" if account.rows_in > 1 else f"the row of {table} was"
            raise InputError(request.name, f"{rows} set aside: {reason}{_advice(table, reason)}")


def _advice(table: str, reason: str) -> str:
    """What helps against rows that are all bad for one reason."""
    if "the file is torn" in reason:
        return ""
    if "not valid UTF-8" in reason:
        return """; say what it is in a file for --mapping: encoding = "latin-1\""""
    if "is not a time" in reason:
        return "; say how your times are written, for example --time-unit '%d.%m.%Y %H:%M:%S'"
    wanted = ", ".join(table_schema(table).names)
    return f"; the columns are {wanted}: name yours with --map, for example --map subscriber=user"


def _workloads(spark: SparkSession, request: Request) -> Run:
    def run(out: Path, inputs: Mapping[str, Path]) -> Facts:
        learn, later, facts = build_workloads(spark, inputs["tables"], out, request.name, request.windows)
        save_workload(learn, out / LEARN)
        save_workload(later, out / LATER)
        return facts | {"published_per_s": float(later.publications.rate.sum())}

    return run


def _designs(spark: SparkSession, request: Request, candidates: Sequence[Candidate], placer: Candidate | None) -> Run:
    def run(out: Path, inputs: Mapping[str, Path]) -> Facts:
        ways = Ways(placer, request.wire, request.seed, request.limits)
        asked = list(candidates)
        if placer is not None:
            asked = both_ways(candidates, not load_workload(inputs["workloads"] / LEARN).is_peer_network)
        pieces = Pieces(out.parent.parent / BILLS, inputs["workloads"].name, ways)
        pieces.sweep()
        priced = _priced_once(spark, inputs["workloads"], asked, out, pieces)
        later = load_workload(inputs["workloads"] / LATER)
        return {"priced": msgspec.to_builtins(priced), "least_copies": least_copies_of(later)}

    return run


def _priced_once(
    spark: SparkSession, workloads: Path, asked: Sequence[Candidate], out: Path, pieces: Pieces
) -> list[Priced]:
    """Bills and designs of all; those that an earlier run has left are not made again."""
    known = {pieces.name(one): kept for one in asked if (kept := pieces.kept(one)) is not None}
    missing = [one for one in asked if pieces.name(one) not in known]
    for one in asked:
        if pieces.name(one) in known:
            pieces.restore(one, out)
    if missing:
        found = price_all(spark, workloads, missing, out, pieces.ways, pieces)
        known |= {pieces.name(one): priced for one, priced in zip(missing, found, strict=True)}
    return [known[pieces.name(one)] for one in asked]


def _rolling(spark: SparkSession, request: Request, pair: tuple[Candidate, Candidate], placer: Candidate) -> Run:
    def run(out: Path, inputs: Mapping[str, Path]) -> Facts:
        ways = Ways(placer, request.wire, request.seed)
        return {"rolled": msgspec.to_builtins(roll(spark, inputs["tables"], out, request.windows, *pair, ways))}

    return run


def described(candidates: Sequence[Candidate], request: Request) -> Facts:
    systems = {entry.system.name: msgspec.to_builtins(entry.parameters) for entry in candidates}
    told = {"systems": systems, "seed": request.seed, "coterie": coterie.__version__, "wire": request.wire}
    return told if request.limits == NO_LIMITS else told | {"limits": msgspec.to_builtins(request.limits)}


def _files_of(request: Request) -> dict[Folder, FileStat | None]:
    if request.trace is None:
        listed = [one for source in request.sources if not tables_of(source) for one in list_files(source)]
        return {where if isinstance(where, Remote) else Path(where): status for where, status in listed}
    if request.trace.is_dir():
        return dict.fromkeys(sorted(path for path in request.trace.rglob("*") if path.is_file()))
    shape = shape_of(request.trace)
    if shape is None:
        raise ConfigError("input", str(request.trace), "a known trace; for other files name their columns")
    return dict.fromkeys(sorted(request.trace.parent.glob(f"{shape.prefix}*")))


def _read_as(request: Request) -> Facts:
    """Everything besides the files themselves that decides what the tables hold."""
    mapped = [plain(source) for source in request.sources]
    return plain(request.readers) | {"sources": mapped, "strict": request.strict}


def plain(choices: Any) -> Facts:
    plain: Facts = json.loads(json.dumps(asdict(choices)))
    return plain


def only(home: Any) -> Any:
    """The one finished output of a step."""
    found = [entry for entry in home.iterdir() if not entry.name.startswith(".")]
    assert len(found) == 1, f"{home} should hold one output"
    return found[0]
