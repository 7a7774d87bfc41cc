"""What the paper compares with: OPT and its floor, one shortest-path tree, and SemCast's exclusive channels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.graphs import paths as graphs
from coterie.kernels.trees import groups as content
from coterie.model.relation import Index
from coterie.substrate.lowstretch import RootedTree, hang, shortest_path_tree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand
from coterie.systems.content.trees import every_document, one_group, route_cost


@dataclass(frozen=True)
class Optimum:
    """OPT: a near-optimal Steiner tree for every document; and what no routing at all can beat.

    Both are worked out on some documents (the floor on a third of them) and scaled by what a plain shortest-path
    Steiner heuristic costs on those and on all; `exact_share` says on how many.
    """

    cost: float
    floor: float
    exact_share: float


def optimum(terrain: Terrain, demand: Demand, random: np.random.Generator, examined: int = 150) -> Optimum:
    label = one_group(demand)
    everything = every_document(demand)
    indptr, edges = content.steiner_trees(terrain.links, terrain.routes, demand.arrays, everything, label, 0)
    along = np.concatenate([[0.0], np.cumsum(terrain.graph.cost[edges])])
    plain = (along[indptr[1:]] - along[indptr[:-1]]) * demand.weight
    chosen = random.permutation(everything)[:examined]
    floored = chosen if len(chosen) == len(everything) else chosen[: max(len(chosen) // 3, 1)]
    ends = {document: terminals_of(demand, label, document) for document in chosen.tolist()}
    cost = sum(demand.weight[one] * terrain.cost_of(terrain.steiner(ends[one])) for one in chosen.tolist())
    floor = sum(demand.weight[one] * terrain.steiner_floor(ends[one]) for one in floored.tolist())
    return Optimum(
        float(cost * _scale(plain, chosen)),
        float(floor * _scale(plain, floored)),
        len(chosen) / max(len(everything), 1),
    )


def _scale(plain: NDArray[np.float64], chosen: Index) -> float:
    """From what these documents cost to what all do."""
    part = float(plain[chosen].sum())
    return float(plain.sum()) / part if part else 0.0


def terminals_of(demand: Demand, label: Index, document: int) -> Index:
    """Publisher and matching hosts, distinct."""
    ends = [demand.targets(label, 0, document)]
    if demand.publisher[document] >= 0:
        ends.append(demand.publisher[document : document + 1])
    return np.unique(np.concatenate(ends)).astype(np.int32)


def spt_costs(terrain: Terrain, demand: Demand, root: int) -> tuple[float, float]:
    """SPT: the shortest-path tree from one root, with filtering inside it and without (flooded)."""
    tree = shortest_path_tree(terrain.links, terrain.is_uniform, root)
    filtered = route_cost(terrain, tree, demand, one_group(demand), 0, every_document(demand))
    span = terrain.cost_of(tree.parent_edge[tree.parent_edge >= 0])
    return filtered, span * float(demand.weight[demand.matches.lengths > 0].sum())


class SemCast:
    """Channels and their trees, as the paper describes SemCast: a document goes to every broker of its channels.

    Each keyword starts with a channel of its own. A step takes two channels that share documents and either joins them
    (section I: groups whose descriptor is the disjunction of their subscriptions) or splits them into three with
    exclusive content (section II: what only one, only the other, and both carry), whichever saves most on the sample.
    Without `is_splitting` they only join. There are never more channels than at the start. Documents are sets of bits:
    `learned` of the sample, `all` of everything that will be published.
    """

    def __init__(self, terrain: Terrain, sample: Demand, demand: Demand, is_splitting: bool = True) -> None:
        self._is_splitting = is_splitting
        self._terrain = terrain
        self._sample = sample
        self._demand = demand
        self._shapes: dict[tuple[int, ...], TreeShape] = {}
        self.channels: dict[int, tuple[int, int, tuple[int, ...]]] = {}  # number -> (learned, all, members)
        for one in np.flatnonzero(demand.hosts.lengths).tolist():
            members = tuple(demand.hosts.row(one).tolist())
            self.channels[one] = _bits(sample.documents_of.row(one)), _bits(demand.documents_of.row(one)), members
        self._limit = len(self.channels)
        self._costs: dict[tuple[int, tuple[int, ...]], float] = {}

    def build(self) -> SemCast:
        queue = sorted(self._pairs(list(self.channels)), reverse=True)
        while queue:
            queue.sort()
            _, one, other = queue.pop()
            if one in self.channels and other in self.channels:
                made = self._improve(one, other)
                queue += self._pairs(made)
        return self

    def _pairs(self, fresh: list[int]) -> list[tuple[float, int, int]]:
        """(similarity, one, other) of the new channels with all they share documents with."""
        pairs = []
        for one in fresh:
            mine = self.channels[one][0]
            for other, (theirs, _, _) in self.channels.items():
                both = (mine & theirs).bit_count()
                if both and other != one:
                    pairs.append((both / (mine | theirs).bit_count(), min(one, other), max(one, other)))
        return pairs

    def _improve(self, one: int, other: int) -> list[int]:
        (mine, my_all, my_members), (theirs, their_all, their_members) = self.channels[one], self.channels[other]
        together = tuple(sorted({*my_members, *their_members}))
        joined = [(mine | theirs, my_all | their_all, together)]
        split = [
            (mine & ~theirs, my_all & ~their_all, my_members),
            (theirs & ~mine, their_all & ~my_all, their_members),
            (mine & theirs, my_all & their_all, together),
        ]
        split = [part for part in split if part[1]]
        apart = self._estimate(mine, my_members) + self._estimate(theirs, their_members)
        is_full = len(self.channels) + len(split) - 2 > self._limit
        options = [joined] if is_full or not self._is_splitting else [joined, split]
        costs = [sum(self._estimate(bits, members) for bits, _, members in option) for option in options]
        best = int(np.argmin(costs))
        if costs[best] >= apart:
            return []
        del self.channels[one], self.channels[other]
        made: list[int] = []
        for part in options[best]:
            number = max(self.channels, default=-1) + 1 + len(made)
            self.channels[number] = part
            made.append(number)
        return made

    def _estimate(self, learned: int, members: tuple[int, ...]) -> float:
        """What the sampled documents cost: the whole channel's tree and the way to it."""
        if (learned, members) not in self._costs:
            self._costs[learned, members] = self.shape(members).flood_cost(self._sample, _numbers(learned))
        return self._costs[learned, members]

    def shape(self, members: tuple[int, ...]) -> TreeShape:
        if members not in self._shapes:
            self._shapes[members] = TreeShape(self._terrain, members)
        return self._shapes[members]

    def costs(self) -> tuple[float, float]:
        """Of all documents: as SemCast routes them, and with filtering inside its trees."""
        flooded, filtered = 0.0, 0.0
        for _, every, members in self.channels.values():
            documents = _numbers(every)
            shape = self.shape(members)
            flooded += shape.flood_cost(self._demand, documents)
            filtered += shape.filtered_cost(self._demand, documents)
        return flooded, filtered


@dataclass(frozen=True, eq=False)
class TreeShape:
    """A channel's tree; publishers reach it by shortest paths."""

    terrain: Terrain
    members: tuple[int, ...]

    @cached_property
    def edges(self) -> Index:
        return self.terrain.steiner(np.array(self.members, np.int32), extra_points=0)

    @cached_property
    def nodes(self) -> Index:
        graph = self.terrain.graph
        ends = [graph.source[self.edges], graph.target[self.edges], np.array(self.members, np.int32)]
        return np.unique(np.concatenate(ends)).astype(np.int32)

    def flood_cost(self, demand: Demand, documents: Index) -> float:
        if len(documents) == 0:
            return 0.0
        publisher, weight = demand.publisher[documents], demand.weight[documents]
        ways = self.terrain.routes.distance[np.ix_(self.nodes, publisher)].min(axis=0)
        return float((weight * (self.terrain.cost_of(self.edges) + ways)).sum())

    @cached_property
    def _tree(self) -> RootedTree:
        links = self.terrain.links
        in_tree = np.zeros(len(links.cost), np.bool_)
        in_tree[self.edges] = True
        is_core = np.zeros(self.terrain.graph.node_count, np.bool_)
        is_core[self.nodes] = True
        graphs.span_forest(links, in_tree, is_core, self.terrain.is_uniform)
        return hang(links, in_tree, int(self.nodes[0]))

    def filtered_cost(self, demand: Demand, documents: Index) -> float:
        """Only towards members that want the document."""
        tree = self._tree
        is_member = np.zeros(self.terrain.graph.node_count, np.bool_)
        is_member[list(self.members)] = True
        return content.member_cost(
            self.terrain.links, tree.parent, tree.parent_edge, tree.depth, demand.arrays, documents,
            one_group(demand), 0, is_member,
        )  # fmt: skip


def _bits(numbers: Index) -> int:
    bits = 0
    for number in numbers.tolist():
        bits |= 1 << number
    return bits


def _numbers(bits: int) -> Index:
    raw = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little")).astype(np.int32)
