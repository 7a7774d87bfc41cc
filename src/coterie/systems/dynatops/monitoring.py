"""When to reconfigure: estimated rates, the reconfigurability test, and benefit against the cost of change."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.rings import slotcost
from coterie.kernels.rings.slotcost import Instance
from coterie.model.relation import Index
from coterie.systems.dynatops.positions import Slots, annealed, ssbr_greedy

Floats = NDArray[np.float64]


def reconfiguration_cost(broker_count: int, topic_count: int, moved: NDArray[np.integer] | int) -> Floats:
    """Cst of section 5.1.2 for Gamma moved brokers: |V| + (log2^2 |V| + |P| log2 |V|) x Gamma; 0 if none moves.

    Eq. 7 multiplies |V| with Gamma too; the derivation in 5.1.2 does not. It is an upper bound, several times what the
    protocol sends.
    """
    gamma = np.asarray(moved, np.float64)
    hops = log2(max(broker_count, 2))
    return np.where(gamma > 0, broker_count + (hops * hops + topic_count * hops) * gamma, 0.0)


@dataclass(frozen=True, eq=False)
class RoundDecision:
    """What a round of the reconfiguration process came to. `slot_of` is the old configuration if nothing pays."""

    slot_of: Index
    cost_before: float  # C over the free period
    cost_after: float
    price: float  # Cst
    moved: int  # Gamma

    @property
    def is_reconfigured(self) -> bool:
        return self.moved > 0


def decide(slots: Slots, per_period: Instance, slot_of: Index, beta: float, method: str = "paper") -> RoundDecision:
    """Algorithm 2, steps 2 and 3. Rates of `per_period` are events in one free period."""
    brokers, topics = per_period.wants.shape
    before = slotcost.total_cost(slotcost.stand(per_period, slot_of))
    best = RoundDecision(slot_of, before, before, 0.0, 0)
    if before <= beta * float(reconfiguration_cost(brokers, topics, brokers)):
        return best
    for candidate, cost, price, moved in _candidates(slots, per_period, slot_of, method):
        if before - cost - price > best.cost_before - best.cost_after - best.price:
            best = RoundDecision(candidate, before, cost, price, moved)
    return best


def _candidates(slots: Slots, instance: Instance, slot_of: Index, method: str) -> list[tuple[Index, float, float, int]]:
    """Algorithm 4, step two: the most useful configuration of the improvement path; annealing offers its own too."""
    brokers, topics = instance.wants.shape
    path = ssbr_greedy(instance, slot_of, is_fall_through=method != "paper")
    found: list[tuple[Index, float, float, int]] = []
    if len(path.costs):
        moved = path.moved()
        prices = reconfiguration_cost(brokers, topics, moved)
        at = int(np.argmax(path.start_cost - path.costs - prices))
        found.append((path.configuration(at + 1), float(path.costs[at]), float(prices[at]), int(moved[at])))
    if method == "annealed":
        candidate = annealed(slots, instance, slot_of, seed=0)
        gamma = int(np.count_nonzero(candidate != slot_of))
        cost = slotcost.total_cost(slotcost.stand(instance, candidate))
        found.append((candidate, cost, float(reconfiguration_cost(brokers, topics, gamma)), gamma))
    return found
