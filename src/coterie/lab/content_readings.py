"""MULT of the content trees paper with keywords that no sampled document has left alone, as Algorithm 3 begins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie.lab.content_runs import MULT_OF_PAPER, everything_of, run_costs, run_sampling, sample
from coterie.lab.experiment import Point
from coterie.model.relation import Index
from coterie.substrate.lowstretch import RootedTree, shortest_path_tree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand
from coterie.systems.content.grouping import merge_by_overlap
from coterie.systems.content.merges import Merges
from coterie.systems.content.strategy import Strategy, place_unseen
from coterie.systems.content.trees import CODES, span


def left_alone(terrain: Terrain, demand: Demand, strategy: Strategy, is_joined: bool) -> Strategy:
    """Every class without a group keeps the one it begins with (Algorithm 3, line 1).

    Algorithm 1 has no document for it, so only its last line applies: shortest paths, here from one of its nodes.
    Section III-A asks of a tree at least that it connects the nodes of its group: `is_joined` joins these first.
    """
    label = strategy.label.copy()
    unseen = np.flatnonzero((label < 0) & (demand.hosts.lengths > 0))
    label[unseen] = strategy.group_count + np.arange(len(unseen), dtype=np.int32)
    trees = tuple(_undocumented(terrain, demand.hosts.row(int(one)), is_joined) for one in unseen)
    return Strategy(label, strategy.trees + trees)


def _undocumented(terrain: Terrain, hosts: Index, is_joined: bool) -> RootedTree:
    if not is_joined or len(hosts) < 2:
        return shortest_path_tree(terrain.links, terrain.is_uniform, int(hosts[0]))
    multiplicity = np.zeros(terrain.graph.link_count)
    multiplicity[terrain.steiner(hosts)] = 1.0
    return span(terrain, multiplicity, CODES["low-stretch"])


def all_readings(terrain: Terrain, known: Demand) -> dict[str, Strategy]:
    """Algorithm 3 on the sample, its cheapest moment; the unseen in other groups, or in their own, in two shapes."""
    merges = Merges.start(terrain, known, MULT_OF_PAPER.shape)
    merge_by_overlap(merges)
    costs = merges.costs()
    cheapest = int(np.flatnonzero(costs <= costs.min() * (1 + 1e-9))[-1])
    label = np.full(known.class_count, -1, np.int32)
    alive = merges.alive(cheapest)
    for group, number in enumerate(alive):
        label[merges.groups[number].classes] = group
    found = Strategy(label, tuple(merges.tree(number) for number in alive))
    return {
        "placed": place_unseen(terrain, known, found),
        "alone": left_alone(terrain, known, found, is_joined=True),
        "alone_paths": left_alone(terrain, known, found, is_joined=False),
    }


def run_schemes(point: Point, seed: int) -> Mapping[str, float]:
    """Figure 5: every scheme, and MULT as printed in all readings of what becomes of unseen keywords."""
    terrain, demand = everything_of(point, seed)
    return {**run_costs(point, seed), **_printed(terrain, demand, point, seed)}


def run_learning(point: Point, seed: int) -> Mapping[str, float]:
    """Figure 4: all readings of MULT, and ours, learned from less and less, judged on all documents."""
    terrain, demand = everything_of(point, seed)
    return {**run_sampling(point, seed), **_printed(terrain, demand, point, seed)}


def _printed(terrain: Terrain, demand: Demand, point: Point, seed: int) -> dict[str, float]:
    known = sample(demand, float(point.get("sampling", 0.03)), seed)
    values = {"seen_share": float(np.mean(np.bincount(known.matches.columns, minlength=known.class_count) > 0))}
    for name, strategy in all_readings(terrain, known).items():
        values[name] = strategy.cost(terrain, demand)
        values[f"{name}_groups"] = float(strategy.group_count)
    return values
