"""Places millions of clients at brokers for the fewest copies between them: rounds of Spark tasks, one for each block.

The problem lies in files that every executor maps, and so do the places of each block's clients; a round sends the
picture of all (brokers by topics, small) the same way and brings back what has changed in it. What comes out depends
on the seed alone, not on the cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from coterie.errors import ConfigError
from coterie.kernels.placement.blocks import (
    BLOCK_USERS,
    Passed,
    Picture,
    PlacementTask,
    Round,
    pass_block,
    place_blocks,
)
from coterie.kernels.placement.limits import Heaviest, limits_of
from coterie.kernels.placement.moves import renamed
from coterie.kernels.placement.problem import Problem
from coterie.model import Workload
from coterie.model.relation import Index
from coterie.pipeline.tasks import map_array, run_tasks, save_array
from coterie.substrate.placing import (
    EVEN_ENOUGH,
    ONE_PRICE,
    Balance,
    Placed,
    client_weights,
    local_nodes,
    problem_of,
    regions_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cut = tuple[int, int]  # of a PlacementTask, all but its problem
PICTURE_MAX = 1 << 29  # brokers x topics: two gigabytes for every task
COLUMNS = ("indptr", "topics", "rate", "weight", "capacity", "publisher", "said_topic", "said_rate")


@dataclass(frozen=True)
class BlockChoices:
    """How far above the mean load a broker may be, and how the work is cut; the cut shows in the result."""

    balance: Balance = EVEN_ENOUGH
    block_users: int = BLOCK_USERS
    seed: int = 1


DEFAULT_BLOCKS = BlockChoices()


def can_place(broker_count: int, topic_count: int) -> bool:
    """Whether the picture that every task needs fits in memory."""
    return broker_count * topic_count <= PICTURE_MAX


def place_users(spark: SparkSession, workload: Workload, work: Path, choices: BlockChoices = DEFAULT_BLOCKS) -> Placed:
    """The attachment is where clients are now: kept if it fits and nothing cheaper is found. `work` is left empty.

    Nobody leaves its zone: one is placed after the other, each on all machines.
    """
    weight, now = client_weights(workload), workload.attachment
    whole = problem_of(workload, weight, np.zeros((workload.node_count, weight.shape[1])))
    node_of, capacity, heaviest = now.copy(), np.zeros(whole.capacity.shape), list[Heaviest]()
    for number, (clients, nodes) in enumerate(regions_of(workload, ONE_PRICE)):
        here = local_nodes(now[clients], nodes, workload.node_count)
        found = place_problem(spark, whole.among(clients, nodes), here, work / f"region-{number}", choices)
        node_of[clients], capacity[nodes] = nodes[found.node_of], found.capacity
        heaviest += [replace(one, client=int(clients[one.client])) for one in found.heaviest]
    shutil.rmtree(work, ignore_errors=True)
    moves, load = np.flatnonzero(node_of != now).astype(np.int32), whole.loads(node_of)
    return Placed(node_of, whole.copies(now), whole.copies(node_of), moves, load, capacity, tuple(heaviest))


def place_problem(spark: SparkSession, problem: Problem, now: Index, work: Path, choices: BlockChoices) -> Placed:
    """Weights as they are; what brokers may hold follows from the choices."""
    brokers, topics = problem.broker_count, len(problem.rate)
    if not can_place(brokers, topics):
        allowed = f"at most {PICTURE_MAX}: take fewer brokers or place by similarity"
        raise ConfigError("brokers x topics", f"{brokers} x {topics}", allowed)
    weight = problem.weight
    limits = limits_of(weight, np.ones(problem.capacity.shape), choices.balance.by_dimension)
    bounded = replace(problem, weight=limits.weight, capacity=limits.capacity)
    found = _place_on_spark(spark, bounded, work, choices)
    found = renamed(found, now, bounded.loads(found), limits.capacity)
    fitting = [part for part in (now, found) if bounded.is_within(part)] or [limits.packed]
    node_of = min(fitting, key=problem.copies)
    moves = np.flatnonzero(node_of != now).astype(np.int32)
    heaviest = () if limits.heaviest is None else (limits.heaviest,)
    before, after, load = problem.copies(now), problem.copies(node_of), problem.loads(node_of)
    return Placed(node_of, before, after, moves, load, limits.capacity, heaviest)


def _place_on_spark(spark: SparkSession, problem: Problem, work: Path, choices: BlockChoices) -> Index:
    cut = (choices.seed, choices.block_users)
    task = PlacementTask(problem, *cut)
    for name in COLUMNS:
        save_array(getattr(problem, name), work, name)
    save_array(task.rank, work, "rank")
    found = place_blocks(task, OnSpark(spark, work, cut))
    shutil.rmtree(work, ignore_errors=True)
    return found


@dataclass(frozen=True, eq=False)
class OnSpark:
    """The blocks of a round as Spark tasks; everything but a few numbers travels in files.

    A block's places are written anew in every round, under the round's number: a task that runs twice reads the same.
    """

    spark: SparkSession
    work: Path
    cut: Cut

    def passed(self, told: Round) -> list[Passed]:
        folder = self.work / f"round-{told.number:03d}"
        for name in Picture._fields:
            save_array(getattr(told.picture, name), folder, name)
        facts = (told.number, told.smoothing, told.blocks, told.alike)
        job = _block(self.work, folder, self.cut, facts)
        run_tasks(self.spark, told.blocks, job, "block int")
        found = [Passed(*_loaded(folder / f"block-{block}.npz")) for block in told.blocks]
        shutil.rmtree(folder)
        for block, one in zip(told.blocks, found, strict=True):
            save_array(one.part, self.work, f"part-{block}")
        return found


def _loaded(path: Path) -> list[Any]:
    """What a block changed: counts travel as the few cells that differ."""
    with np.load(path) as saved:
        counts = np.zeros(tuple(saved["shape"]), np.int32)
        counts.flat[saved["cells"]] = saved["changes"]
        entering = np.zeros((len(counts) if len(saved["entered"]) else 0, counts.shape[1]), np.float32)
        entering.flat[saved["said_cells"]] = saved["entered"][:-1]
        return [saved["part"], counts, entering, saved["load"], saved["price"]]


def _save(passed: Passed, path: Path) -> None:
    cells, said = np.flatnonzero(passed.counts), np.flatnonzero(passed.entering)
    entered = passed.entering.ravel()[said]
    np.savez(
        path,
        shape=np.array(passed.counts.shape),
        cells=cells,
        changes=passed.counts.ravel()[cells],
        said_cells=said,
        entered=np.append(entered, np.float32(0)) if len(passed.entering) else entered,  # none: not counted at all
        part=passed.part,
        load=passed.load,
        price=passed.price,
    )


Facts = tuple[int, float, tuple[int, ...], int]  # of a Round, all but the picture


def _block(work: Path, folder: Path, cut: Cut, facts: Facts) -> Callable[[int], pa.Table]:
    source, target = str(work), str(folder)
    number, smoothing, blocks, alike = facts

    def run(block: int) -> pa.Table:
        columns: list[Any] = [map_array(source, name) for name in COLUMNS]
        task = PlacementTask(Problem(*columns), *cut, known_rank=np.asarray(map_array(source, "rank"), np.int32))
        picture: list[Any] = [map_array(target, name) for name in Picture._fields]
        kept: Any = map_array(source, f"part-{block}") if (Path(source) / f"part-{block}.npy").exists() else None
        passed = pass_block(task, Round(number, smoothing, Picture(*picture), blocks, alike), block, kept)
        _save(passed, Path(target) / f"block-{block}.npz")
        return pa.table({"block": pa.array([block], pa.int32())})

    return run
