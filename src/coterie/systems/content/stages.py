"""The bulk form: a strategy learned from a sample, as the columns of a design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.errors import ConfigError
from coterie.model import Channels, Entries, Overlay, Placement, Relation, Spread, Trees, Workload
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index
from coterie.substrate.lowstretch import RootedTree, shortest_path_tree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand, documents_from_interest, documents_of_workload
from coterie.systems.content.grouping import choose, merge_by_cost, merge_by_overlap
from coterie.systems.content.merges import Merges
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.strategy import Strategy, fit, place_unseen, single
from coterie.systems.content.trees import each_apart, one_group

WORK_MAX = 5_000_000  # nodes x classes that are grouped: about ten seconds
APART_MAX = 20_000_000  # nodes x classes that have a tree each: a third of a gigabyte


@dataclass(frozen=True, eq=False)
class Groups(Channels):
    """Groups of subscriptions with the tree learned for each; a topic is carried by every group it matches."""

    strategy: Strategy


def network_of(workload: Workload, parameters: ContentParameters, seed: int) -> BrokerGraph:
    """The given broker network, or a random connected one where there is none."""
    if workload.graph is not None:
        return workload.graph
    count = workload.node_count
    random = np.random.default_rng([seed, count])
    ring = random.permutation(count)
    chords = random.integers(count, size=(2, count * max(parameters.degree - 2, 0) // 2))
    return BrokerGraph.of(count, np.concatenate([ring, chords[0]]), np.concatenate([np.roll(ring, 1), chords[1]]))


def learn(terrain: Terrain, demand: Demand, parameters: ContentParameters, seed: int) -> Strategy:
    """The routing strategy for a sample of documents, by the algorithm asked for."""
    if parameters.algorithm == "shortest-paths":
        root = int(np.random.default_rng([seed, 2]).integers(terrain.graph.node_count))
        return Strategy(one_group(demand), (shortest_path_tree(terrain.links, terrain.is_uniform, root),))
    if parameters.algorithm == "single":
        return single(terrain, demand, parameters.shape)
    classes_max = min(parameters.classes_max, max(WORK_MAX // terrain.graph.node_count, 1))
    if parameters.are_trees_free and _fits_apart(terrain, demand, parameters, classes_max):
        return fit(terrain, demand, each_apart(demand), parameters.shape)
    known, held_out = split_sample(demand, parameters, seed)
    merges = Merges.start(terrain, known, parameters.shape, classes_max)
    if parameters.algorithm != "cost":
        merge_by_overlap(merges)
    if parameters.algorithm == "hybrid":
        merge_by_cost(merges, max(len(merges.leaves) - parameters.hybrid_groups, 0))
    elif parameters.algorithm == "cost":
        merge_by_cost(merges)
    strategy = choose(merges, held_out, parameters.groups_max)
    if held_out is None:
        return strategy
    # The documents held out are a quarter of all we know: use them too, unless they themselves fare worse by it.
    refined = fit(terrain, demand.with_prior(parameters.prior), strategy.label, parameters.shape)
    single_trees = (single(terrain, one, parameters.shape) for one in (demand, known))
    return _prefer(terrain, held_out, (*single_trees, refined, strategy), parameters.gain_min)


def _fits_apart(terrain: Terrain, demand: Demand, parameters: ContentParameters, classes_max: int) -> bool:
    """Whether there are more classes than are grouped, no document matches two of them, and trees have room."""
    wanted = int(np.count_nonzero(demand.hosts.lengths))
    is_assumed, matched = not np.any(demand.publisher >= 0), demand.matches.lengths.max(initial=0)
    is_small = wanted * terrain.graph.node_count <= APART_MAX and not parameters.groups_max
    return bool(wanted > classes_max and is_assumed and matched <= 1 and is_small)


def _prefer(terrain: Terrain, held_out: Demand, found: tuple[Strategy, ...], gain_min: float) -> Strategy:
    """The cheapest; but one tree, unless several save enough to do so on other documents as well."""
    costs = {at: strategy.cost(terrain, held_out) for at, strategy in enumerate(found)}
    plain = min((at for at in costs if found[at].group_count == 1), key=costs.__getitem__)
    best = min(costs, key=costs.__getitem__)
    return found[best] if costs[best] < (1 - gain_min) * costs[plain] else found[plain]


def split_sample(demand: Demand, parameters: ContentParameters, seed: int) -> tuple[Demand, Demand | None]:
    """What to learn from (with the assumed documents) and what to choose the number of groups by."""
    if not np.any(demand.publisher >= 0):
        return demand, None  # there is no document yet, only assumed ones
    held_out: Demand | None = None
    if parameters.held_out:
        random = np.random.default_rng([seed, demand.document_count])
        demand, held_out = demand.split(parameters.held_out, random)
    return demand.with_prior(parameters.prior), held_out


def sample_of(workload: Workload, placement: Placement, parameters: ContentParameters, seed: int) -> Demand:
    """What the coordinator knows of the workload."""
    is_content = workload.content is not None
    if parameters.learn_from == "interest" or (parameters.learn_from == "auto" and not is_content):
        return documents_from_interest(workload, placement.node_of, parameters.unit)
    everything = documents_of_workload(workload, placement.node_of, parameters.unit)
    return everything.sampled(parameters.sampling, np.random.default_rng([seed, 1]))


def group_subscriptions(workload: Workload, placement: Placement, parameters: ContentParameters, seed: int) -> Channels:
    terrain = Terrain(network_of(workload, parameters, seed))
    if not terrain.is_connected:
        raise ConfigError("workload", workload.name, "a broker network in one piece")
    strategy = learn(terrain, sample_of(workload, placement, parameters, seed), parameters, seed)
    demand = documents_of_workload(workload, placement.node_of, parameters.unit)
    groups = strategy.groups_of(demand)
    topics = workload.publications.topic[groups.columns]
    carried = Relation.from_pairs(groups.rows, topics, groups.row_count, workload.topic_count)
    return Groups(carried, strategy)


def given_network(
    workload: Workload, placement: Placement, channels: Channels, parameters: ContentParameters, seed: int
) -> Overlay:
    graph = network_of(workload, parameters, seed)
    return Overlay(graph.neighbours, costs=None if np.all(graph.cost == 1.0) else graph.neighbour_costs)


def route_documents(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: ContentParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    """The learned trees, and for every publication the groups it enters and the nodes it must reach there."""
    demand = documents_of_workload(workload, placement.node_of, parameters.unit)
    if isinstance(channels, Groups):
        strategy = channels.strategy
    else:  # a design read back from disk: groups without what was learned
        terrain = Terrain(network_of(workload, parameters, seed))
        strategy = learn(terrain, sample_of(workload, placement, parameters, seed), parameters, seed)
    if np.any((strategy.label < 0) & (demand.hosts.lengths > 0)):  # keywords that nobody wanted when it was learned
        strategy = place_unseen(Terrain(network_of(workload, parameters, seed)), demand, strategy)
    return tree_columns(strategy.trees, demand, strategy.label), entries_of(demand, strategy)


def tree_columns(trees: tuple[RootedTree, ...], demand: Demand, label: Index) -> Trees:
    hosts = demand.hosts
    placed = label[hosts.rows] >= 0
    members = Relation.from_pairs(label[hosts.rows[placed]], hosts.columns[placed], len(trees), hosts.column_count)
    below = [tree.order[1:] for tree in trees]
    return Trees(
        Spread.FILTERED,
        members,
        np.array([tree.order[0] for tree in trees], np.int32),
        np.concatenate([[0], np.cumsum([len(nodes) for nodes in below])]).astype(np.int64),
        np.concatenate(below),
        np.concatenate([tree.parent[nodes] for tree, nodes in zip(trees, below, strict=True)]),
    )


def entries_of(demand: Demand, strategy: Strategy) -> Entries:
    """One row per publication and group it matches, right at the publisher's broker."""
    matches, hosts = demand.matches, demand.hosts
    lengths = hosts.lengths[matches.columns]
    document = np.repeat(matches.rows.astype(np.int64), lengths)
    group = np.repeat(strategy.label[matches.columns].astype(np.int64), lengths)
    first = np.repeat(hosts.indptr[matches.columns] - (np.cumsum(lengths) - lengths), lengths)
    node = hosts.columns[first + np.arange(len(first))]
    key = document * strategy.group_count + group
    rows = np.unique(key)
    targets = Relation.from_pairs(np.searchsorted(rows, key), node, len(rows), hosts.column_count)
    publication, channel = np.divmod(rows, strategy.group_count)
    return Entries(
        publication.astype(np.int32),
        channel.astype(np.int32),
        np.full(len(rows), -1, np.int32),
        np.arange(len(rows) + 1, dtype=np.int64),
        demand.publisher[publication].astype(np.int32),
        targets,
    )
