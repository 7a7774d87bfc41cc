"""Plan with every system on the learning window and price each design on both windows; one Spark task per design.

In a fleet every system is planned twice, so that placement and structure are told apart: with clients where they are,
and with clients placed by interest (systems that place by themselves do it their own way). Peers sit at themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.burden import burden
from coterie.accounting.price import price
from coterie.accounting.sturdiness import Sturdiness, sturdiness
from coterie.errors import CoterieError
from coterie.model import Design, Ledger, Workload
from coterie.model.latency import Latency
from coterie.model.limits import NO_LIMITS, DesignLimits, calm
from coterie.model.relation import Index
from coterie.model.store import load_workload, save_design
from coterie.model.wires import COTERIE, Wire, wire_named
from coterie.pipeline.blocks import BlockChoices, can_place, place_users
from coterie.pipeline.ordering import ORDERED_NODES_MIN, order_network
from coterie.pipeline.tasks import run_tasks, save_array
from coterie.protocol.system import Parameters, System, attach_as_given
from coterie.substrate.placing import Balance, Placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEARN, LATER = "learn.npz", "later.npz"
STAY, PLACED, OWN = "stay", "placed", "own"  # what becomes of clients: nobody moves, by interest, the system's own way
PLACED_FILE = "node-of-placed"
PRICED_HERE_BYTES_MAX = 10 << 20  # of a workload's file, some millions of wishes
PRICED_SCHEMA = pa.schema([("system", pa.string()), ("priced", pa.binary())])
PLACED_USERS_MIN = 200_000  # fewer are placed faster by one task than by rounds of many


class Priced(msgspec.Struct, frozen=True):
    """One system's bill on both windows for one placement, with the lower bounds of both; or why it has none."""

    system: str
    placement: str = OWN
    learn: Ledger | None = None
    later: Ledger | None = None
    learn_bound: Ledger | None = None
    later_bound: Ledger | None = None
    plan_s: float = 0.0
    price_s: float = 0.0
    problem: str = ""
    cut_by_node: float = 0.0  # see accounting.sturdiness; where a limit asks for it
    cut_by_zone: float = 0.0

    @property
    def name(self) -> str:
        """Unique in a run."""
        return self.system if self.placement == OWN else f"{self.system} ({self.placement})"


@dataclass(frozen=True)
class Candidate:
    """A system and the parameters to plan with; `placement` says whether clients stay or are placed."""

    system: System
    parameters: Parameters
    placement: str = OWN

    @property
    def places(self) -> bool:
        """Whether the system has a placement of its own."""
        return self.system.stages.placement is not attach_as_given


@dataclass(frozen=True)
class Ways:
    """How a run plans and prices: by whom clients are placed, on which wire bytes are counted, from which seed."""

    placer: Candidate | None = None
    wire: str = COTERIE.name
    seed: int = 1
    limits: DesignLimits = NO_LIMITS


class OutcomeKeeper(Protocol):
    """Keeps what each system came to, and what several of them share, for later runs on the same workloads."""

    def keep(self, candidate: Candidate, priced: Priced, out: Path) -> None: ...

    def shared(self, placer: Candidate) -> Path: ...


@dataclass(frozen=True)
class Prepared:
    """What all executors together made of a candidate's plan beforehand, as files."""

    order: Path | None = None  # of the ring
    node_of: Path | None = None  # where users go


NOTHING_PREPARED = Prepared()
DEFAULT_WAYS = Ways()


def design_file(folder: Path, system: str, placement: str = OWN) -> Path:
    return folder / (f"design-{system}.npz" if placement == OWN else f"design-{system}-{placement}.npz")


def both_ways(candidates: Sequence[Candidate], is_fleet: bool) -> list[Candidate]:
    """In a fleet each system with clients where they are, and with clients placed."""
    ways = (STAY, PLACED) if is_fleet else (STAY,)
    return [replace(candidate, placement=way) for candidate in candidates for way in ways]


def price_all(
    spark: SparkSession,
    workloads: Path,
    candidates: Sequence[Candidate],
    out: Path,
    ways: Ways,
    keeper: OutcomeKeeper | None = None,
) -> list[Priced]:
    """Write a design per candidate into `out` and return the bills, in the order of the candidates.

    Rings of big networks are put in order before, and clients placed, by all executors if they are many; the rest of a
    design is one task each, which gives what it found to the `keeper`.
    """
    placed = _placed(spark, workloads, candidates, out, ways, keeper)
    tasks = [
        (
            candidate,
            Prepared(
                _order_on_spark(spark, workloads, candidate, out, ways.seed),
                placed
                if candidate.placement == PLACED and not candidate.places
                else _place_on_spark(spark, workloads, candidate, out, ways.seed),
            ),
        )
        for candidate in candidates
    ]
    work = _pricer(workloads, out, ways, keeper)
    if _is_for_one(spark, workloads):
        table = pa.concat_tables([PRICED_SCHEMA.empty_table(), *map(work, tasks)])
    else:
        table = run_tasks(spark, tasks, work, "system string, priced binary")
    return [msgspec.json.decode(entry, type=Priced) for entry in table["priced"].to_pylist()]


def _is_for_one(spark: SparkSession, workloads: Path) -> bool:
    """Whether this process prices faster than workers that load the kernels first; then Spark is not even started."""
    master = getattr(spark, "master_url", None) or spark.conf.get("spark.master", "")
    learn = workloads / LEARN
    return str(master).startswith("local[") and isinstance(learn, Path) and learn.stat().st_size < PRICED_HERE_BYTES_MAX


def _placed(
    spark: SparkSession,
    workloads: Path,
    candidates: Sequence[Candidate],
    out: Path,
    ways: Ways,
    keeper: OutcomeKeeper | None,
) -> Path | None:
    """The file that says where everybody goes, for all systems that do not place by themselves."""
    if ways.placer is None or not any(one.placement == PLACED and not one.places for one in candidates):
        return None
    home = out if keeper is None else keeper.shared(ways.placer)
    if (home / f"{PLACED_FILE}.npy").exists():
        return home / f"{PLACED_FILE}.npy"
    found = _place_on_spark(spark, workloads, ways.placer, out, ways.seed)
    if found is not None:
        return save_array(np.load(found), home, PLACED_FILE)
    learn = load_workload(workloads / LEARN)
    placement = ways.placer.system.stages.placement(learn, ways.placer.parameters, ways.seed)
    return save_array(placement.node_of, home, PLACED_FILE)


def _order_on_spark(spark: SparkSession, workloads: Path, candidate: Candidate, out: Path, seed: int) -> Path | None:
    """The file with the order of the ring, for systems that take one and networks big enough to be worth it."""
    system, parameters = candidate.system, candidate.parameters
    if system.stages.ordered is None:
        return None
    learn = load_workload(workloads / LEARN)
    if learn.node_count < ORDERED_NODES_MIN or not system.fits(learn):
        return None
    placement = system.stages.placement(learn, parameters, seed)
    interests, weights = system.stages.ordered.likes(learn, placement, parameters)
    order = order_network(spark, interests, weights, out / f"order-{system.name}", seed)
    return save_array(order, out, f"order-{system.name}")


def _place_on_spark(spark: SparkSession, workloads: Path, candidate: Candidate, out: Path, seed: int) -> Path | None:
    """The file with everybody's place, for systems that take one and crowds big enough to be worth it."""
    system, imbalance = candidate.system, candidate.system.stages.imbalance(candidate.parameters)
    if imbalance is None or candidate.placement == STAY:
        return None
    learn = load_workload(workloads / LEARN)
    if (
        learn.is_peer_network
        or learn.subscriber_count < PLACED_USERS_MIN
        or not can_place(learn.node_count, learn.topic_count)
    ):
        return None
    in_blocks, parameters = system.stages.in_blocks, candidate.parameters

    def place(crowd: Workload, balance: Balance) -> Placed:
        return place_users(spark, crowd, out / f"rounds-{system.name}", BlockChoices(balance, seed=seed))

    by_cluster = place(learn, Balance(imbalance)) if in_blocks is None else in_blocks(learn, parameters, place)
    return None if by_cluster is None else save_array(by_cluster.node_of, out, f"node-of-{system.name}")


def _pricer(
    workloads: Path, out: Path, ways: Ways, keeper: OutcomeKeeper | None
) -> Callable[[tuple[Candidate, Prepared]], pa.Table]:
    source, target = str(workloads), str(out)

    def work(task: tuple[Candidate, Prepared]) -> pa.Table:
        candidate, prepared = task
        priced = price_one(candidate, Path(source), Path(target), ways, prepared)
        if keeper is not None:
            keeper.keep(candidate, priced, Path(target))
        return pa.table({"system": [priced.system], "priced": pa.array([msgspec.json.encode(priced)], pa.binary())})

    return work


def price_one(
    candidate: Candidate, workloads: Path, out: Path, ways: Ways = DEFAULT_WAYS, prepared: Prepared = NOTHING_PREPARED
) -> Priced:
    """`price_both` on files."""
    learn, later = load_workload(workloads / LEARN), load_workload(workloads / LATER)
    priced, design = price_both(candidate, learn, later, ways, _loaded(prepared.order), _loaded(prepared.node_of))
    if design is not None:
        out.mkdir(parents=True, exist_ok=True)
        save_design(design, design_file(out, candidate.system.name, candidate.placement))
    return priced


def bill_all(design: Design, workload: Workload, window: int, wire: Wire, latency: Latency | None) -> Ledger:
    """Of a workload in which everybody is."""
    return price(design, workload, latency, wire)


Biller = Callable[[Design, Workload, int, Wire, Latency | None], Ledger]  # window: 0 learned from, 1 later


def price_both(
    candidate: Candidate,
    learn: Workload,
    later: Workload,
    ways: Ways = DEFAULT_WAYS,
    order: Index | None = None,
    node_of: Index | None = None,
    bill: Biller = bill_all,
) -> tuple[Priced, Design | None]:
    """Plan on one window, price on both: the bills and the design, or why there are none. No Spark, no files."""
    system, parameters, seed = candidate.system, candidate.parameters, ways.seed

    def failed(problem: str) -> tuple[Priced, None]:
        return Priced(system.name, candidate.placement, problem=problem), None

    if not system.fits(learn):
        return failed("it is not made for a workload of this kind or size")
    if candidate.placement == STAY:
        node_of = learn.attachment
    wire = wire_named(ways.wire)
    try:
        began = time.process_time()
        design = system.plan(learn, parameters, seed, order, node_of)
        planned = time.process_time()
        latency = latency_of(learn, ways.limits)
        first = bill(design, learn, 0, wire, latency)
        adopted = system.adopt(design, later, parameters, seed)
        second = bill(adopted, later, 1, wire, latency)
        cut = Sturdiness() if ways.limits.survive == "none" else sturdiness(adopted, later)
    except CoterieError as error:
        return failed(str(error))
    except Exception as error:  # a defect of one system must not take the others with it
        return failed(f"it failed on this workload ({type(error).__name__}: {error})")
    finished = time.process_time()
    priced = Priced(
        system.name,
        candidate.placement,
        first,
        second,
        lower_bounds(learn, design.placement.node_of, wire, design.upkeep),
        lower_bounds(later, adopted.placement.node_of, wire, design.upkeep),
        planned - began,
        finished - planned,
        cut_by_node=cut.node,
        cut_by_zone=cut.zone,
    )
    return priced, design


def latency_of(workload: Workload, limits: DesignLimits) -> Latency | None:
    """As limits in milliseconds assume it, where there are any."""
    if not limits.ms_mean and not limits.ms_p99:
        return None
    return Latency.by_zone(workload.zone_of, limits.hop_ms, limits.zone_ms)


def _loaded(path: Path | None) -> Index | None:
    return None if path is None else np.load(path)


def is_whole(bill: Ledger) -> bool:
    """Whether everybody gets what they want; rates are no whole numbers, so sums of them differ in the last digits."""
    return bill.loss.lost <= 1e-9 * bill.loss.owed


def cheapest(
    priced: Sequence[Priced], limits: DesignLimits = NO_LIMITS, clients: int = 0, column: str = ""
) -> Priced | None:
    """The lowest bill on the later window among those that serve everybody and keep to the limits.

    In bytes (see `burden`), unless a column says otherwise; ties go to the first. By bytes, only the calm ones count: a
    design is not cheap because one node does everybody's work.
    """
    bills = {
        at: entry.later
        for at, entry in enumerate(priced)
        if entry.later is not None
        and is_whole(entry.later)
        and not limits.broken(entry.later, entry.cut_by_node, entry.cut_by_zone, clients)
    }
    if not column:
        kept = list(bills)
        bills = {kept[at]: bills[kept[at]] for at in calm(list(bills.values()))}
    best = min(bills, key=lambda at: bills[at].columns()[column] if column else burden(bills[at]), default=None)
    return None if best is None else priced[best]


def closest(priced: Sequence[Priced], limits: DesignLimits, clients: int) -> str:
    """In a sentence: that nothing keeps to the limits, and what comes closest; "" if something does."""
    whole = [entry for entry in priced if entry.later is not None and is_whole(entry.later)]
    if limits.is_empty or cheapest(priced, limits, clients) is not None:
        return ""
    if not whole:
        return next((entry.problem for entry in priced if entry.problem), "")
    told = []
    for entry in whole:
        assert entry.later is not None
        cut = (entry.cut_by_node, entry.cut_by_zone)
        missed = limits.broken(entry.later, *cut, clients)
        rank = (len(missed), limits.excess(entry.later, *cut), burden(entry.later))
        told.append((rank, f"{entry.name} has {limits.achieved(entry.later, *cut)}, and misses {' and '.join(missed)}"))
    return f"Nothing keeps to {limits.named()}. The closest: {min(told)[1]}."
