"""Placement: speed and quality against version 0.1's code (baseline_fanout.py) and Mt-KaHyPar, in the same run.

    python benchmarks/bench_placement.py                    # small instances, the large crowd, moves, blocks
    python benchmarks/bench_placement.py --kahypar          # Mt-KaHyPar besides (minutes)
    python benchmarks/bench_placement.py --only crowd
    python benchmarks/bench_placement.py --full             # up to 100 million wishes
    python benchmarks/bench_placement.py --only spark       # the million clients through Spark

Copies are rate x (brokers - 1) as a share of those with clients spread evenly; seconds are CPU seconds of this process.
Same capacity for all: 0.1's where 0.1 is compared, 3 % above the mean elsewhere.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import baseline_fanout
from coterie.kernels.placement.blocks import Here, Task, place_blocks
from coterie.kernels.placement.moves import renamed
from coterie.kernels.placement.passes import CAREFUL, QUICK, Present, auctioned
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.search import MOVES
from coterie.kernels.placement.solve import Solver
from coterie.model import Workload
from coterie.systems.dynatops.placement import place_by_similarity
from coterie.workloads import make_workload

BROKERS, SEED = 64, 1
SMALL = {
    "zipf": ("dynatops", {"pattern": "zipf", "nodes": 50, "subscribers": 10_000}),
    "uniform": ("dynatops", {"pattern": "uniform", "nodes": 50, "subscribers": 10_000}),
    "multimodal": ("dynatops", {"pattern": "multimodal", "nodes": 50, "subscribers": 10_000}),
}
TRACES = {
    "gowalla": ("gowalla", {"placement": "static"}),
    "foursquare": ("foursquare", {"placement": "static"}),
    "wiki": ("wiki", {"nodes": 64}),
}


def crowd(clients: int, each: int, topics: int, seed: int, modes: int = 200, noise: float = 0.2) -> Problem:
    """Clients of overlapping modes: Zipf inside a window of topics, and some of what is popular everywhere."""
    draw = np.random.default_rng(seed)
    window = 4 * topics // modes
    inside, everywhere = (np.cumsum(1 / np.arange(1, size + 1)) for size in (window, topics))
    start, shuffled, popular = draw.integers(topics, size=modes), draw.permutation(topics), draw.permutation(topics)
    parts = []
    for first in range(0, clients, 1 << 18):
        count = min(1 << 18, clients - first)
        ranks = np.searchsorted(inside / inside[-1], draw.random((count, 2 * each)))
        cells = shuffled[(start[draw.integers(modes, size=count)][:, None] + ranks) % topics]
        common = popular[np.searchsorted(everywhere / everywhere[-1], draw.random((count, 2 * each)))]
        cells = np.where(draw.random(cells.shape) < noise, common, cells)
        key = np.unique(np.arange(count)[:, None] * topics + cells)
        rows = key // topics
        order = np.lexsort([draw.random(len(key)), rows])
        place = np.arange(len(key)) - np.searchsorted(rows, rows)
        kept = np.sort(order[place < each])
        parts.append((np.bincount(rows[kept], minlength=count), (key[kept] % topics).astype(np.int32)))
    lengths = np.concatenate([part[0] for part in parts])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    weight, capacity = lengths.astype(float)[:, None], np.full((BROKERS, 1), 1.03 * indptr[-1] / BROKERS)
    return Problem.of(indptr, np.concatenate([part[1] for part in parts]), np.ones(topics), weight, capacity)


def even(problem: Problem) -> np.ndarray:
    return (np.arange(problem.client_count) % problem.broker_count).astype(np.int32)


def timed(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def say(what: str, problem: Problem, part: np.ndarray, seconds: float, base: float) -> float:
    load = problem.loads(part)
    share = problem.copies(part) / base
    print(
        f"  {what}: {share:.4f} of even, {100 * (load.max() / load.mean() - 1):.1f} % above the mean, "
        f"{seconds:.2f} s CPU, {len(problem.topics) / max(seconds, 1e-9) / 1e6:.2f} M wishes a second",
        flush=True,
    )
    return share


def small(names: list[str], is_kahypar: bool) -> None:
    """Never above 0.1 on any instance, at 0.1's own capacity."""
    for name in names:
        workload = make_workload(*({**SMALL, **TRACES}[name]), SEED)
        (seats, capacity), seconds = timed(lambda w=workload: baseline_fanout.partitioned(w, 0.03, SEED))
        problem = problem_of(workload, capacity)
        base = problem.copies(workload.attachment)
        print(
            f"{name}: {workload.subscriber_count:,} clients, {len(problem.topics):,} wishes, "
            f"{problem.broker_count} brokers"
        )
        old = say("0.1", problem, seats.part, seconds, base)
        part, seconds = timed(lambda p=problem, w=workload: Solver(p, w.attachment, SEED).scratch(starts_of(w)))
        new = say("now", problem, part, seconds, base)
        print(f"  now : 0.1 = {new / old:.3f}")
        for preset in ("DEFAULT", "QUALITY") if is_kahypar else ():
            part, seconds = timed(lambda p=problem, k=preset: kahypar(p, k))
            print(f"  now : it = {new / say(f'Mt-KaHyPar {preset.lower()}', problem, part, seconds, base):.3f}")


def starts_of(workload: Workload) -> list[tuple[np.ndarray, object]]:
    gathered = place_by_similarity(workload, workload.node_count, load_weight=1.0, rounds=2)
    return [(gathered, MOVES[2:]), (workload.attachment, MOVES[-1:]), (workload.attachment, ())]


def problem_of(workload: Workload, capacity: float) -> Problem:
    interests = workload.interests
    weight, room = interests.lengths.astype(float)[:, None], np.full((workload.node_count, 1), float(capacity))
    return Problem.of(interests.indptr, interests.columns, workload.rates, weight, room)


@cache
def _library():  # type: ignore[no-untyped-def]
    import mtkahypar

    return mtkahypar.initialize(1)


def kahypar(problem: Problem, preset: str) -> np.ndarray:
    import mtkahypar

    library = _library()
    context = library.context_from_preset(getattr(mtkahypar.PresetType, preset))
    imbalance = float(problem.capacity[0, 0]) * problem.broker_count / float(problem.weight.sum()) - 1
    context.set_partitioning_parameters(problem.broker_count, imbalance, mtkahypar.Objective.KM1)
    context.logging = False
    order = np.argsort(problem.topics, kind="stable")
    rows = np.repeat(np.arange(problem.client_count), np.diff(problem.indptr))[order]
    begins = np.searchsorted(problem.topics[order], np.arange(len(problem.rate) + 1))
    wanted = np.flatnonzero(np.diff(begins) > 1)
    nets = [rows[begins[topic] : begins[topic + 1]].tolist() for topic in wanted]
    scale = 1000 / problem.rate[wanted].max()
    rates = np.maximum(np.rint(scale * problem.rate[wanted]), 1).astype(int).tolist()
    weights = problem.weight[:, 0].astype(int).tolist()
    graph = library.create_hypergraph(context, problem.client_count, len(nets), nets, weights, rates)
    found = graph.partition(context)
    return np.array([found.block_id(client) for client in range(problem.client_count)], np.int32)


def large(problem: Problem, name: str, is_kahypar: bool) -> np.ndarray:
    base = problem.copies(even(problem))
    print(f"{name}: {problem.client_count:,} clients, {len(problem.topics):,} wishes, {problem.broker_count} brokers")
    part, seconds = timed(lambda: auctioned(problem, SEED, QUICK))
    say("quick", problem, part, seconds, base)
    if len(problem.topics) < 5_000_000:
        part, seconds = timed(lambda: auctioned(problem, SEED, CAREFUL))
        ours = say("careful", problem, part, seconds, base)
        if is_kahypar:
            found, seconds = timed(lambda: kahypar(problem, "DEFAULT"))
            print(f"  careful : it = {ours / say('Mt-KaHyPar default', problem, found, seconds, base):.4f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"  largest memory of the process so far: {peak / len(problem.topics):.0f} bytes a wish")
    return part


def moves(problem: Problem, now: np.ndarray, share: float, price: float = 2.0) -> None:
    """A share of the clients wants something else; at a price, few move, and copies end near those from scratch."""
    draw = np.random.default_rng(5)
    lengths = np.diff(problem.indptr)
    changed = np.flatnonzero(draw.random(problem.client_count) < share)
    others = draw.permutation(problem.client_count)[: len(changed)]
    rows = np.arange(problem.client_count)
    rows[changed] = others
    later = problem.among(rows, np.arange(problem.broker_count))
    room = 1.03 * later.weight.sum() / later.broker_count
    later = Problem.of(later.indptr, later.topics, later.rate, later.weight, np.full((later.broker_count, 1), room))
    base = later.copies(even(later))
    print(f"{100 * share:.0f} % of the clients want something else ({len(lengths):,} clients)")
    say("stay", later, now, 0.0, base)
    scratch, seconds = timed(lambda: auctioned(later, SEED, CAREFUL))
    named = renamed(scratch, now, later.loads(scratch), later.capacity)
    whole = say("from scratch", later, scratch, seconds, base)
    print(f"    moves {100 * np.mean(named != now):.1f} % of the clients")
    solver = Solver(later, scratch, SEED)
    moved, seconds = timed(lambda: solver.moved(Present(now, price)).part)
    few = say(f"at {price:g} copies a move", later, moved, seconds, base)
    print(f"    moves {100 * np.mean(moved != now):.2f} % of the clients; it : from scratch = {few / whole:.4f}")


def blocks(problem: Problem, count: int = 8) -> None:
    base = problem.copies(even(problem))
    task = Task(problem, SEED, -(-problem.client_count // count))
    part, seconds = timed(lambda: place_blocks(task, Here(task)))
    ours = say(f"{count} blocks", problem, part, seconds, base)
    part, seconds = timed(lambda: auctioned(problem, SEED, QUICK))
    print(f"  blocks : one after the other = {ours / say('one after the other', problem, part, seconds, base):.4f}")


def spark(problem: Problem) -> None:
    """Blocks side by side through Spark: the same cost as in one process, seconds by the clock."""
    from coterie.pipeline.blocks import BlockChoices, place_problem
    from coterie.pipeline.session import open_session
    from coterie.substrate.placing import Balance

    session = open_session("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        wide = Problem.of(problem.indptr, problem.topics, problem.rate, np.repeat(problem.weight, 2, axis=1),
                          np.repeat(problem.capacity, 2, axis=1))  # fmt: skip
        choices = BlockChoices(Balance(0.03, 0.03), -(-problem.client_count // 8), seed=SEED)
        found = place_problem(session, wide, even(problem), Path(folder) / "rounds", choices)
        seconds = time.monotonic() - began
    print(f"  Spark: {found.copies / found.copies_before:.4f} of even, {seconds:.1f} s by the clock")
    session.stop()


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", choices=("small", "traces", "crowd", "spark"), action="append")
    asked.add_argument("--kahypar", action="store_true")
    asked.add_argument("--full", action="store_true")
    choices = asked.parse_args()
    parts = choices.only or ("small", "crowd")
    auctioned(crowd(2000, 5, 500, 1, modes=20), SEED)  # compiled now, not while timed
    tiny = make_workload("dynatops", {"nodes": 8, "subscribers": 500, "topics": 60, "modes": 6}, 1)
    baseline_fanout.partitioned(tiny, 0.03, SEED)
    Solver(problem_of(tiny, 400), tiny.attachment, SEED).scratch(starts_of(tiny))
    if "small" in parts:
        small(list(SMALL), choices.kahypar)
    if "traces" in parts:
        small(list(TRACES), choices.kahypar)
    if "crowd" in parts:
        problem = crowd(100_000, 20, 10_000, 1)
        now = large(problem, "a10", choices.kahypar)
        for share in (0.01, 0.1):
            moves(problem, now, share)
        blocks(problem)
    if "spark" in parts:
        spark(crowd(1_000_000, 20, 100_000, 1))
    if choices.full:
        large(crowd(1_000_000, 20, 100_000, 1), "1 M clients", False)
        large(crowd(5_000_000, 20, 100_000, 1), "5 M clients", False)


if __name__ == "__main__":
    main()
