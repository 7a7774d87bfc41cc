"""What the experiments of the content trees paper run: (point, seed) -> values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from coterie.kernels.trees import groups as kernels
from coterie.lab.experiment import Point
from coterie.model import Relation, Workload
from coterie.model.graph import BrokerGraph
from coterie.substrate.lowstretch import average_stretch
from coterie.substrate.steiner import Terrain
from coterie.systems.content.baselines import SemCast, optimum, spt_costs, terminals_of
from coterie.systems.content.demand import Demand, documents_of_workload
from coterie.systems.content.grouping import merge_by_cost, merge_by_overlap
from coterie.systems.content.merges import Merges
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.stages import learn, split_sample
from coterie.systems.content.strategy import single
from coterie.systems.content.trees import compute_tree, every_document, one_group
from coterie.workloads import make_workload

PAPER = "content"
MULT = ContentParameters()  # ours: assumed documents, number of groups by held-out ones
MULT_OF_PAPER = ContentParameters(prior=0.0, held_out=0.0, shape="low-stretch")
INSTANCE = ("network", "nodes", "documents", "data", "locality", "keywords", "keywords_per_document", "unit", "cost")

Values = Mapping[str, float]


def workload_of(point: Point, seed: int) -> Workload:
    """A point names a network and how local interest is; articles brings CiteULike's documents."""
    settings: dict[str, object] = {"nodes": point["nodes"], "network": point["network"], "topics": point["documents"]}
    if str(point["network"]).startswith("flat-"):
        settings |= {"network": "flat", "degree": str(point["network"]).partition("-")[2]}
    if "cost" in point:
        settings |= {"cost": point["cost"]}
    if point.get("data") == "articles":
        return make_workload("citeulike-documents", settings, seed)
    settings |= {"locality": point["locality"], "keywords": point.get("keywords", 1000)}
    settings |= {"keywords_per_document": point.get("keywords_per_document", 3)}
    return make_workload("content", settings, seed)


def everything_of(point: Point, seed: int) -> tuple[Terrain, Demand]:
    """The network and all documents of a point; points of one instance share it, they follow each other."""
    return _instance(tuple((key, point[key]) for key in INSTANCE if key in point), seed)


@lru_cache(maxsize=1)
def _instance(settings: tuple[tuple[str, float | int | str | bool], ...], seed: int) -> tuple[Terrain, Demand]:
    point = dict(settings)
    workload = workload_of(point, seed)
    assert workload.graph is not None
    unit = str(point.get("unit", "keyword"))
    return Terrain(workload.graph), documents_of_workload(workload, workload.attachment, unit)


def sample(demand: Demand, share: float, seed: int) -> Demand:
    return demand.sampled(share, np.random.default_rng([seed, 1]))


# --- worked examples --------------------------------------------------------------------------------------------------


def run_circle(point: Point, seed: int) -> Values:
    """Example I.3: v_1 .. v_n/2 want one document, v_n/2 .. v_n-1 the other, both published at v_0."""
    count = int(point["n"])
    terrain = Terrain(BrokerGraph.of(count, np.arange(count), (np.arange(count) + 1) % count))
    halves = [range(1, count // 2 + 1), range(count // 2, count)]
    demand = Demand(Relation.from_rows(halves, count), Relation.identity(2), np.zeros(2, np.int32), np.ones(2))
    two = learn(terrain, demand, ContentParameters(held_out=0.0, prior=0.0), seed)
    return {
        "single": single(terrain, demand).cost(terrain, demand),
        "groups": two.cost(terrain, demand),
        "trees": float(two.group_count),
        "n": float(count),
    }


def run_spine(point: Point, seed: int) -> Values:
    """Example I.2: v_i hangs from a spine whose parts have length x, and has a way of its own of length x + 2."""
    count, part = int(point["n"]), float(point["x"])
    spine = np.arange(count + 1) + count + 1
    links = [(v, count + 1 + v, 1.0) for v in range(count + 1)]
    links += [(int(spine[at]), int(spine[at + 1]), part) for at in range(count)]
    links += [(0, v, part + 2) for v in range(1, count + 1)]
    graph = BrokerGraph.of(2 * count + 2, *(np.array(column) for column in zip(*links, strict=True)))
    terrain = Terrain(graph)
    subscribers = Relation.from_rows([[v] for v in range(1, count + 1)], 2 * count + 2)
    demand = Demand(subscribers, Relation.identity(count), np.zeros(count, np.int32), np.ones(count))
    return {
        "steiner": _cost_on(terrain, demand, terrain.steiner(np.arange(count + 1, dtype=np.int32))),
        "shortest": spt_costs(terrain, demand, 0)[0],
        "single": single(terrain, demand).cost(terrain, demand),
        "steiner_expected": 2 * count + part * count * (count + 1) / 2,
        "shortest_expected": count * (part + 2),
    }


def _cost_on(terrain: Terrain, demand: Demand, edges: np.ndarray) -> float:
    in_tree = np.zeros(terrain.graph.link_count, np.bool_)
    in_tree[edges] = True
    parent, parent_edge, depth, _ = kernels.hang_tree(terrain.links, in_tree, 0)
    return kernels.route_cost(
        terrain.links, parent, parent_edge, depth, demand.arrays, every_document(demand), one_group(demand), 0
    )


# --- communication cost -----------------------------------------------------------------------------------------------


def run_costs(point: Point, seed: int) -> Values:
    """Figure 5: every scheme on all documents, learned from a sample of 3 %."""
    terrain, demand = everything_of(point, seed)
    known = sample(demand, float(point.get("sampling", 0.03)), seed)
    random = np.random.default_rng([seed, 7])
    best = optimum(terrain, demand, random, int(point.get("examined", 150)))
    filtered, flooded = spt_costs(terrain, demand, int(random.integers(terrain.graph.node_count)))
    semcast, semcast_filtered = SemCast(terrain, known, demand).build().costs()
    joined, joined_filtered = SemCast(terrain, known, demand, is_splitting=False).build().costs()
    ours = learn(terrain, known, MULT, seed)
    papers = learn(terrain, known, MULT_OF_PAPER, seed)
    return {
        "opt": best.cost,
        "floor": best.floor,
        "single": single(terrain, known).cost(terrain, demand),
        "single_paper": single(terrain, known, "low-stretch").cost(terrain, demand),
        "spt_filtered": filtered,
        "spt_flooded": flooded,
        "semcast": semcast,
        "semcast_filtered": semcast_filtered,
        "semcast_joined": joined,
        "semcast_joined_filtered": joined_filtered,
        "mult": ours.cost(terrain, demand),
        "mult_groups": float(ours.group_count),
        "mult_paper": papers.cost(terrain, demand),
        "mult_paper_groups": float(papers.group_count),
    }


def run_held_out(point: Point, seed: int) -> Values:
    """MULT and SINGLE, each in both shapes: on the documents the choice was made by, and on those nobody has seen."""
    terrain, demand = everything_of(point, seed)
    share = float(point.get("sampling", 0.03))
    is_known = np.random.default_rng([seed, 1]).random(demand.document_count) < share
    known, fresh = demand.only(np.flatnonzero(is_known)), demand.only(np.flatnonzero(~is_known))
    values: dict[str, float] = {}
    for name, shape in (("", "best"), ("_low_stretch", "low-stretch")):
        parameters = ContentParameters(shape=shape, unit=str(point.get("unit", "keyword")))
        ours = learn(terrain, known, parameters, seed)
        one = single(terrain, known, shape)
        _, judged = split_sample(known, parameters, seed)
        assert judged is not None
        values[f"mult_judged{name}"] = ours.cost(terrain, judged)
        values[f"single_judged{name}"] = one.cost(terrain, judged)
        values[f"mult{name}"] = ours.cost(terrain, fresh)
        values[f"single{name}"] = one.cost(terrain, fresh)
        values[f"groups{name}"] = float(ours.group_count)
    return values


def run_sampling(point: Point, seed: int) -> Values:
    """Figure 4: MULT learned from less and less, judged on all documents."""
    terrain, demand = everything_of(point, seed)
    known = sample(demand, float(point["sampling"]), seed)
    return {
        "mult": learn(terrain, known, MULT, seed).cost(terrain, demand),
        "mult_paper": learn(terrain, known, MULT_OF_PAPER, seed).cost(terrain, demand),
        "single": single(terrain, known).cost(terrain, demand),
    }


# --- multiple trees ---------------------------------------------------------------------------------------------------


def run_trees(point: Point, seed: int) -> Values:
    """Figures 6 and 7: cost and duplicates at a given number of trees, for all algorithms, on all documents."""
    terrain, demand = everything_of(point, seed)
    wanted = int(point["trees"])
    values: dict[str, float] = {}
    for name, merges in _histories(tuple((key, point[key]) for key in point if key != "trees"), seed).items():
        leaves, costs = len(merges.leaves), merges.costs()
        values[f"{name}_best_trees"] = float(leaves - int(np.argmin(costs)))
        values[f"{name}_best_sampled"] = float(costs.min())
        values[f"{name}_work"] = float(merges.work)
        if wanted > leaves or leaves - wanted > len(merges.history):
            continue  # there never were so many groups, or Algorithm 2 stopped before so few
        strategy = merges.strategy(leaves - wanted)
        duplicates, first = strategy.duplicate_share(demand)
        values[name] = strategy.cost(terrain, demand)
        values[f"{name}_sampled"] = float(costs[leaves - wanted])
        values[f"{name}_duplicates"] = duplicates / first
        if name == "mult":
            # Algorithm 2 as printed tries every pair of groups, and the new group with every other after each merge.
            values["mult_trees_computed"] = 2.0 * leaves - 1
            values["mult2_printed_trees_computed"] = (
                leaves + leaves * (leaves - 1) / 2 + (leaves - 1) * (leaves - 2) / 2
            )
    return values


@lru_cache(maxsize=1)
def _histories(settings: tuple[tuple[str, float | int | str | bool], ...], seed: int) -> dict[str, Merges]:
    """What Algorithms 3 and 2 and the hybrid of section V merge, as the paper has it: on the documents learned from."""
    point = dict(settings)
    terrain, demand = everything_of(point, seed)
    known = sample(demand, float(point.get("sampling", 0.03)), seed)
    found = {name: Merges.start(terrain, known, "low-stretch") for name in ("mult", "mult2", "hybrid")}
    merge_by_overlap(found["mult"])
    merge_by_cost(found["mult2"])
    merge_by_overlap(found["hybrid"])
    merge_by_cost(found["hybrid"], max(len(found["hybrid"].leaves) - int(point.get("hybrid_groups", 200)), 0))
    return found


# --- theory -----------------------------------------------------------------------------------------------------------


def run_bound(point: Point, seed: int) -> Values:
    """Theorem IV.1: the one tree's cost over a floor for any routing, and the tree's average stretch (Equation 2)."""
    terrain, demand = everything_of(point, seed)
    label = one_group(demand)
    made = compute_tree(terrain, demand, label, 0, every_document(demand), "low-stretch")
    floor = sum(
        float(demand.weight[document]) * terrain.steiner_floor(terminals_of(demand, label, document), rotations=1)
        for document in range(demand.document_count)
    )
    size = math.log2(terrain.graph.node_count)
    return {
        "ratio": made.cost / floor,
        "bound": size**2 * math.log2(size),
        "stretch": average_stretch(terrain.links, made.multiplicity, made.tree),
        "log_n": size,
        "steiner_ratio": made.steiner_cost / floor,
    }


def run_weights(point: Point, seed: int) -> Values:
    """Trees that know what links cost and how large documents are, and trees that do not, on the same bill."""
    terrain, demand = everything_of({**point, "cost": "length"}, seed)
    size = np.exp(np.random.default_rng([seed, 11]).normal(0.0, 1.5, demand.document_count))
    weighed = replace(demand, weight=demand.weight * size)
    blind = Terrain(replace(terrain.graph, cost=np.ones(terrain.graph.link_count)))
    share = float(point.get("sampling", 0.03))
    values = {}
    for name, ground, documents in (
        ("all", terrain, weighed),
        ("costs", terrain, demand),
        ("sizes", blind, weighed),
        ("nothing", blind, demand),
    ):
        learned = learn(ground, sample(documents, share, seed), MULT, seed)
        values[name] = learned.cost(terrain, weighed)
    return values
