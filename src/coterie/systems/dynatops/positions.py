"""Brokers to places on the ring: SSBR-Greedy as printed, falling through to the next-worst broker, and annealing.

The places (slots) are fixed; a configuration is who sits where. Delay is counted in hops from the rendezvous point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.rings import slotassignment, slotcost
from coterie.kernels.rings.chord import chord_fingers
from coterie.kernels.rings.slotcost import Instance
from coterie.model import Relation
from coterie.model.relation import Index
from coterie.substrate.identifiers import even_positions, node_positions, topic_keys

SPACINGS = ("random", "even")
METHODS = ("hash", "paper", "fall-through", "annealed")
WALKS_MAX = 2e7  # topics looked at while annealing, which bounds its time to seconds
BROKER_MAX = 8192  # the tables of all paths take 8 bytes per pair of slots: half a gigabyte
PAIR_MAX = 1 << 28  # the tables of brokers by topics take 5 bytes per pair: 1.3 gigabytes


@dataclass(frozen=True, eq=False)
class Slots:
    """The places of a ring in clockwise order, with the greedy paths between all of them."""

    positions: NDArray[np.uint64]  # ascending
    parent: Index
    depth: Index

    @classmethod
    def at(cls, positions: NDArray[np.uint64]) -> Slots:
        if len(positions) > BROKER_MAX:
            raise ConfigError("nodes", len(positions), f"at most {BROKER_MAX} brokers where positions are optimised")
        ascending = np.sort(positions)
        order = np.arange(len(ascending), dtype=np.int32)
        return cls(ascending, *slotcost.path_tables(*chord_fingers(ascending, order, 1)))

    @property
    def count(self) -> int:
        return len(self.positions)

    @cached_property
    def sizes(self) -> Index:
        return slotassignment.subtree_sizes(self.parent)

    def roots(self, topic_count: int) -> Index:
        """The slot each topic's rendezvous point is at: the first at or after its key."""
        return (np.searchsorted(self.positions, topic_keys(topic_count)) % self.count).astype(np.int32)

    def instance(self, interests: Relation, rates: NDArray[np.float64], delay_weight: float) -> Instance:
        """The problem for brokers with these subscriptions and topics with these rates."""
        wants = np.zeros((interests.row_count, interests.column_count), np.uint8)
        wants[interests.rows, interests.columns] = 1
        roots = self.roots(interests.column_count)
        whole = rates.astype(np.float64)
        weight = float(delay_weight)
        return Instance(self.parent, self.depth, wants, interests.indptr, interests.columns, roots, whole, weight)


def can_optimise(broker_count: int, topic_count: int) -> bool:
    """Whether the tables that optimising positions needs fit in memory."""
    return broker_count <= BROKER_MAX and broker_count * topic_count <= PAIR_MAX


def slot_positions(count: int, spacing: str, seed: int) -> NDArray[np.uint64]:
    """Where the slots are, ascending."""
    return even_positions(count) if spacing == "even" else np.sort(node_positions(count, seed))


def hashed_slots(count: int, seed: int) -> Index:
    """Consistent hashing: each broker's slot follows from its address alone."""
    ranks = np.empty(count, np.int32)
    ranks[np.argsort(node_positions(count, seed), kind="stable")] = np.arange(count, dtype=np.int32)
    return ranks


@dataclass(frozen=True, eq=False)
class ImprovementPath:
    """Swaps one after the other, each better than before; `configuration(i)` is the mapping after the first i."""

    start: Index
    one: Index
    other: Index
    start_cost: float
    costs: NDArray[np.float64]  # after each swap

    def configuration(self, swaps: int) -> Index:
        slot_of = self.start.copy()
        for one, other in zip(self.one[:swaps], self.other[:swaps], strict=True):
            slot_of[one], slot_of[other] = slot_of[other], slot_of[one]
        return slot_of

    @property
    def final(self) -> Index:
        return self.configuration(len(self.one))

    @property
    def final_cost(self) -> float:
        return float(self.costs[-1]) if len(self.costs) else self.start_cost

    def moved(self) -> NDArray[np.int64]:
        """Gamma(X, X') after each swap: how many brokers are not where they started."""
        slot_of = self.start.copy()
        moved = np.empty(len(self.one), np.int64)
        away = 0
        for index, (one, other) in enumerate(zip(self.one.tolist(), self.other.tolist(), strict=True)):
            away -= int(slot_of[one] != self.start[one]) + int(slot_of[other] != self.start[other])
            slot_of[one], slot_of[other] = slot_of[other], slot_of[one]
            away += int(slot_of[one] != self.start[one]) + int(slot_of[other] != self.start[other])
            moved[index] = away
        return moved


def ssbr_greedy(instance: Instance, slot_of: Index, *, is_fall_through: bool = False) -> ImprovementPath:
    """Algorithm 3; as printed only the costliest broker is tried, falling through tries the next ones too."""
    standing = slotcost.stand(instance, slot_of)
    start_cost = slotcost.total_cost(standing)
    one, other, costs = slotcost.descend(instance, standing, is_fall_through, 100 * len(slot_of) + 100)
    return ImprovementPath(slot_of.copy(), one, other, start_cost, costs)


def annealed(slots: Slots, instance: Instance, slot_of: Index, seed: int, moves_per_broker: int = 1000) -> Index:
    """Descent and annealing from a linear assignment under expected relays and from here; the best of all found."""
    draw = np.random.default_rng(seed)
    each = max(len(instance.topics) / len(slot_of), 1)
    moves = int(min(moves_per_broker * len(slot_of), WALKS_MAX / each))
    found = [(slotcost.total_cost(slotcost.stand(instance, slot_of)), slot_of)]
    # The assignment is close to the best already: a warmer start than this would only spoil it.
    for start, warmth in ((assignment_start(slots, instance), 0.06), (slot_of, 0.3)):
        standing = slotcost.stand(instance, start)
        size = slotcost.typical_delta(instance, standing, draw, 200)
        if size > 0:
            slotcost.anneal(instance, standing, draw, moves, warmth * size, 0.003 * size)
        path = ssbr_greedy(instance, standing.slot_of, is_fall_through=True)
        found.append((path.final_cost, path.final))
    return min(found, key=lambda candidate: candidate[0])[1]


def assignment_start(slots: Slots, instance: Instance) -> Index:
    """The assignment that would be best if each broker met all others at random places."""
    return _assigned(slotassignment.expected_matrix(instance, slots.sizes))[0]


def cost_bound(instance: Instance) -> float:
    """No configuration costs less: relays cannot be fewer than none, and delays alone are a linear assignment."""
    return _assigned(slotassignment.delay_matrix(instance))[1]


def _assigned(matrix: NDArray[np.float64]) -> tuple[Index, float]:
    # Imported where it is needed: it takes most of a second, which every broker would pay when it starts.
    from scipy.optimize import linear_sum_assignment

    broker, slot = linear_sum_assignment(matrix)
    return slot[np.argsort(broker)].astype(np.int32), float(matrix[broker, slot].sum())


def optimise(slots: Slots, instance: Instance, slot_of: Index, method: str, seed: int) -> Index:
    """The configuration that a method ends with, cost of change left out."""
    if method == "hash":
        return slot_of
    if method == "annealed":
        return annealed(slots, instance, slot_of, seed)
    if method not in METHODS:
        raise ConfigError("positions", method, f"one of {', '.join(METHODS)}")
    return ssbr_greedy(instance, slot_of, is_fall_through=method == "fall-through").final
