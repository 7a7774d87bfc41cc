"""Plan with every system on the learning window and price each design on both windows; one Spark task per system."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.errors import CoterieError
from coterie.model import Ledger
from coterie.model.relation import Index
from coterie.model.store import load_workload, save_design
from coterie.pipeline.blocks import BlockChoices, can_place, place_users
from coterie.pipeline.ordering import ORDERED_NODES_MIN, order_network
from coterie.pipeline.tasks import run_tasks, save_array
from coterie.protocol.system import Parameters, System

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEARN, LATER = "learn.npz", "later.npz"
PLACED_USERS_MIN = 200_000  # fewer are placed faster by one task than by rounds of many


class Priced(msgspec.Struct, frozen=True):
    """One system's bill on both windows, with the lower bounds of both; or why it has none."""

    system: str
    learn: Ledger | None = None
    later: Ledger | None = None
    learn_bound: Ledger | None = None
    later_bound: Ledger | None = None
    plan_s: float = 0.0
    price_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Candidate:
    """A system and the parameters to plan with."""

    system: System
    parameters: Parameters


@dataclass(frozen=True)
class Prepared:
    """What all executors together made of a candidate's plan beforehand, as files."""

    order: Path | None = None  # of the ring
    node_of: Path | None = None  # where users go


NOTHING_PREPARED = Prepared()


def design_file(folder: Path, system: str) -> Path:
    return folder / f"design-{system}.npz"


def price_all(
    spark: SparkSession, workloads: Path, candidates: Sequence[Candidate], out: Path, seed: int
) -> list[Priced]:
    """Write a design per system into `out` and return the bills, in the order of the candidates.

    Rings of big networks are put in order before, and users of big ones placed, by all executors; the rest of a design
    is one task per system.
    """
    tasks = [
        (
            candidate,
            Prepared(
                _order_on_spark(spark, workloads, candidate, out, seed),
                _place_on_spark(spark, workloads, candidate, out, seed),
            ),
        )
        for candidate in candidates
    ]
    table = run_tasks(spark, tasks, _pricer(workloads, out, seed), "system string, priced binary")
    return [msgspec.json.decode(entry, type=Priced) for entry in table["priced"].to_pylist()]


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
    if imbalance is None:
        return None
    learn = load_workload(workloads / LEARN)
    if learn.subscriber_count < PLACED_USERS_MIN or not can_place(learn.node_count, learn.topic_count):
        return None
    choices = BlockChoices(imbalance=imbalance, seed=seed)
    work = out / f"rounds-{system.name}"
    placed = place_users(spark, learn.interests, learn.rates, learn.attachment, learn.node_count, work, choices)
    return save_array(placed.node_of, out, f"node-of-{system.name}")


def _pricer(workloads: Path, out: Path, seed: int) -> Callable[[tuple[Candidate, Prepared]], pa.Table]:
    source, target = str(workloads), str(out)

    def work(task: tuple[Candidate, Prepared]) -> pa.Table:
        candidate, prepared = task
        priced = price_one(candidate, Path(source), Path(target), seed, prepared)
        return pa.table({"system": [priced.system], "priced": pa.array([msgspec.json.encode(priced)], pa.binary())})

    return work


def price_one(
    candidate: Candidate, workloads: Path, out: Path, seed: int, prepared: Prepared = NOTHING_PREPARED
) -> Priced:
    system, parameters = candidate.system, candidate.parameters
    learn, later = load_workload(workloads / LEARN), load_workload(workloads / LATER)
    if not system.fits(learn):
        return Priced(system.name, problem="it is not made for a workload of this kind or size")
    try:
        began = time.process_time()
        design = system.plan(learn, parameters, seed, _loaded(prepared.order), _loaded(prepared.node_of))
        planned = time.process_time()
        first = price(design, learn)
        adopted = system.adopt(design, later, parameters, seed)
        second = price(adopted, later)
    except CoterieError as error:
        return Priced(system.name, problem=str(error))
    except Exception as error:  # a defect of one system must not take the others with it
        return Priced(system.name, problem=f"it failed on this workload ({type(error).__name__}: {error})")
    finished = time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    save_design(design, design_file(out, system.name))
    node_of = design.placement.node_of
    return Priced(
        system.name,
        first,
        second,
        lower_bounds(learn, node_of),
        lower_bounds(later, adopted.placement.node_of),
        planned - began,
        finished - planned,
    )


def _loaded(path: Path | None) -> Index | None:
    return None if path is None else np.load(path)


def is_whole(bill: Ledger) -> bool:
    """Whether everybody gets what they want; rates are no whole numbers, so sums of them differ in the last digits."""
    return bill.loss.lost <= 1e-9 * bill.loss.owed


def cheapest(priced: Sequence[Priced], column: str = "overall") -> Priced | None:
    """The system with the lowest bill on the later window among those that serve everybody; ties go to the first."""
    whole = [entry for entry in priced if entry.later is not None and is_whole(entry.later)]
    return min(whole, key=lambda entry: entry.later.columns()[column], default=None)  # type: ignore[union-attr]
