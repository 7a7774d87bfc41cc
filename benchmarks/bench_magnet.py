"""How fast Magnet's bulk form is: ring, links, trees and ledger of 10,000 nodes (100,000 with --large).

Ratios, all in one run and in processor time: identifier acquisition against the same in plain Python (sets, a fifth
of the nodes, scaled by nodes), and every phase against building the strawman, which does not look at interests.
"""

from __future__ import annotations

import sys
from random import Random
from time import process_time

import numpy as np

from coterie.accounting.price import price
from coterie.model import Relation, Workload
from coterie.systems.magnet.parameters import MagnetParameters, RingParameters
from coterie.systems.magnet.stages import join_order
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM
from coterie.workloads import make_workload

PLAIN_SHARE = 5


def plain_join_order(interests: list[frozenset[int]], samples: int, random: Random) -> list[int]:
    """Algorithm 1 with sets, dictionaries and a linked list."""
    arrivals = list(range(len(interests)))
    random.shuffle(arrivals)
    subscribers: dict[int, list[int]] = {}
    after: dict[int, int] = {}
    for turn, node in enumerate(arrivals):
        known = {
            peer
            for topic in interests[node]
            for peer in random.sample(subscribers.get(topic, []), min(samples, len(subscribers.get(topic, []))))
        }
        own = interests[node]
        best = max(
            sorted(known),
            key=lambda peer: len(own & interests[peer]) / len(own | interests[peer]),
            default=random.choice(arrivals[:turn]) if turn else node,
        )
        after[node] = after.get(best, node)
        after[best] = node
        for topic in own:
            subscribers.setdefault(topic, []).append(node)
    return list(after)


def timed(label: str, run: object, baseline_s: float | None = None) -> float:
    start = process_time()
    run()  # type: ignore[operator]
    took_s = process_time() - start
    ratio = "" if baseline_s is None else f"   {took_s / baseline_s:6.2f} x the strawman"
    print(f"{label:34s} {took_s:8.2f} s{ratio}")
    return took_s


def part_of(workload: Workload, nodes: int) -> list[frozenset[int]]:
    return [frozenset(workload.interests.row(node).tolist()) for node in range(nodes)]


def main(nodes: int) -> None:
    for size in (200, nodes):  # the first one compiles
        workload = make_workload("multimodal", {"nodes": size, "modes": 10}, 1)
        print(f"--- {size} nodes, {workload.topic_count} topics, {workload.interests.pair_count} subscriptions")
        measure(workload)


def measure(workload: Workload) -> None:
    strawman_s = timed("strawman: plan", lambda: UNIFORM.plan(workload, RingParameters(), 1))
    interests: Relation = workload.node_interests()
    order_s = timed(
        "identifiers (Algorithm 1)", lambda: join_order(workload, interests, MagnetParameters(), 1), strawman_s
    )
    design = SYSTEM.plan(workload, MagnetParameters(), 1)
    timed("magnet: plan", lambda: SYSTEM.plan(workload, MagnetParameters(), 1), strawman_s)
    timed("magnet: ledger", lambda: price(design, workload), strawman_s)
    timed("interest-ring: plan", lambda: INTEREST_RING.plan(workload, MagnetParameters(), 1), strawman_s)
    part = part_of(workload, max(1, min(workload.node_count, 10_000) // PLAIN_SHARE))
    start = process_time()
    plain_join_order(part, MagnetParameters().samples, Random(1))
    plain_s = (process_time() - start) * workload.node_count / len(part)
    print(f"{'identifiers in plain Python':34s} {plain_s:8.2f} s (scaled)   {plain_s / order_s:6.1f} x ours")
    assert np.isfinite(plain_s)


if __name__ == "__main__":
    main(100_000 if "--large" in sys.argv else 10_000)
