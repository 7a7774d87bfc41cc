"""DYNATOPS: incremental swap evaluation against whole recomputation, hypergraph placement against Mt-KaHyPar.

Run: python benchmarks/bench_dynatops.py [--kahypar] [multimodal zipf uniform gowalla foursquare]
"""

from __future__ import annotations

import sys
import time
from functools import cache

import numpy as np

from coterie.kernels.rings import slotcost
from coterie.lab.dynatops_runs import broker_interests
from coterie.systems.dynatops.hypergraph import partition_of, partitioned
from coterie.systems.dynatops.placement import place_by_similarity
from coterie.systems.dynatops.positions import Slots, hashed_slots, slot_positions, ssbr_greedy
from coterie.workloads import make_workload

TRACES = ("gowalla", "foursquare")


def swap_evaluation(brokers: int, topics: int, count: int = 2000) -> None:
    slots = Slots.at(slot_positions(brokers, "random", 1))
    instance = slots.instance(broker_interests(brokers, topics, 5, "uniform", 1), np.ones(topics), 1.0)
    standing = slotcost.stand(instance, hashed_slots(brokers, 1))
    draw = np.random.default_rng(1)
    slotcost.typical_delta(instance, standing, draw, 10)
    slotcost.full_cost(instance, standing.slot_of)
    began = time.process_time()
    slotcost.typical_delta(instance, standing, draw, 100 * count)
    incremental = (time.process_time() - began) / (100 * count)
    began = time.process_time()
    for _ in range(count // 20):
        slotcost.full_cost(instance, standing.slot_of)
    whole = (time.process_time() - began) / (count // 20)
    print(
        f"one swap, {brokers} brokers x {topics} topics: incremental {incremental * 1e6:.2f} us, "
        f"whole {whole * 1e6:.1f} us, ratio 1 : {whole / incremental:.0f}"
    )


def greedy(brokers: int, topics: int) -> None:
    slots = Slots.at(slot_positions(brokers, "random", 1))
    instance = slots.instance(broker_interests(brokers, topics, 5, "uniform", 1), np.ones(topics), 1.0)
    ssbr_greedy(instance, hashed_slots(brokers, 1))
    began = time.process_time()
    path = ssbr_greedy(instance, hashed_slots(brokers, 1))
    spent = time.process_time() - began
    print(f"SSBR-Greedy, {brokers} brokers x {topics} topics: {spent * 1e3:.1f} ms CPU, {len(path.one)} swaps")


def placement(name: str, with_kahypar: bool) -> None:
    """`name` is a pattern of subscriptions, or one of the check-in traces."""
    is_trace = name in TRACES
    settings = {"placement": "static"} if is_trace else {"pattern": name}
    workload = make_workload(name if is_trace else "dynatops", settings, 1)
    interests, rates, brokers = workload.interests, workload.rates, workload.node_count
    began = time.process_time()
    ours = partitioned(workload, 0.03, 1)
    spent = time.process_time() - began
    static = partition_of(interests, rates, workload.attachment, brokers)
    paper = partition_of(interests, rates, place_by_similarity(workload, 10, 1.0), brokers)
    print(
        f"{name}: copies static {static.cost:.0f}, Algorithm 1 (c = 10) {paper.cost:.0f}, "
        f"hypergraph {ours.cost:.0f} (imbalance {ours.imbalance:.3f}, {spent:.1f} s CPU)",
        flush=True,
    )
    for preset in ("DEFAULT", "QUALITY") if with_kahypar else ():
        cost, imbalance, spent = kahypar(workload, ours.imbalance if is_trace else 0.03, preset)
        print(
            f"    Mt-KaHyPar ({preset.lower()}) {cost:.0f} (imbalance {imbalance:.3f}, {spent:.1f} s CPU); "
            f"ours : it = {ours.cost / cost:.2f}",
            flush=True,
        )


@cache
def _library():  # type: ignore[no-untyped-def]
    import mtkahypar

    return mtkahypar.initialize(1)


def kahypar(workload, imbalance: float, preset: str) -> tuple[float, float, float]:  # type: ignore[no-untyped-def]
    import mtkahypar

    library = _library()
    context = library.context_from_preset(getattr(mtkahypar.PresetType, preset))
    context.set_partitioning_parameters(workload.node_count, imbalance, mtkahypar.Objective.KM1)
    context.logging = False
    topics = workload.interests.transposed
    wanted = [topic for topic in range(workload.topic_count) if len(topics.row(topic)) > 1]
    graph = library.create_hypergraph(
        context,
        workload.subscriber_count,
        len(wanted),
        [topics.row(topic).tolist() for topic in wanted],
        workload.interests.lengths.tolist(),
        np.rint(workload.rates[wanted]).astype(int).tolist(),
    )
    began = time.process_time()
    found = graph.partition(context)
    spent = time.process_time() - began
    node_of = np.array([found.block_id(user) for user in range(workload.subscriber_count)], np.int32)
    partition = partition_of(workload.interests, workload.rates, node_of, workload.node_count)
    return partition.cost, partition.imbalance, spent


if __name__ == "__main__":
    swap_evaluation(100, 100)
    swap_evaluation(1000, 100)
    greedy(100, 100)
    greedy(100, 5000)
    greedy(1000, 100)
    partitioned(make_workload("dynatops", {"nodes": 10, "subscribers": 500, "topics": 50, "modes": 5}, 1), 0.03, 1)
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")]
    for name in chosen or ("multimodal", "zipf", "uniform", *TRACES):
        placement(name, "--kahypar" in sys.argv)
