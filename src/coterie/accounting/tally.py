"""The raw counts behind a ledger: the same for a priced design, a simulation and a live run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.pricing import US_BINS, US_PER_BIN
from coterie.model.ledger import (
    Control,
    Delay,
    Dissemination,
    Distribution,
    Ledger,
    Loss,
    Maintenance,
    State,
    Topics,
)


@dataclass
class Tally:
    """Counts of one interval. Delays are kept as weights per hop count and per bin of 0.1 ms."""

    inbound: float = 0.0
    wanted: float = 0.0
    relayed: float = 0.0
    filtered: float = 0.0
    duplicate: float = 0.0
    link_cost: float = 0.0
    owed: float = 0.0
    delivered: float = 0.0
    us_sum: float = 0.0
    us_max: float = 0.0
    hop_weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    us_weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(US_BINS))

    def add_delivery(self, hops: int, delay_us: int, weight: float) -> None:
        self.delivered += weight
        self.us_sum += weight * delay_us
        self.us_max = max(self.us_max, delay_us)
        if hops >= len(self.hop_weights):
            self.hop_weights = np.concatenate([self.hop_weights, np.zeros(hops + 1)])
        self.hop_weights[hops] += weight
        self.us_weights[min(delay_us // US_PER_BIN, US_BINS - 1)] += weight

    def ledger(self, maintenance: Maintenance, state: State, control: Control, topics: Topics | None = None) -> Ledger:
        dissemination = Dissemination(
            inbound=self.inbound,
            wanted=self.wanted,
            relayed=self.relayed,
            filtered=self.filtered,
            duplicate=self.duplicate,
            link_cost=self.link_cost,
        )
        delay = Delay(hops=self._hops(), milliseconds=self._milliseconds())
        return Ledger(
            maintenance=maintenance,
            dissemination=dissemination,
            delay=delay,
            state=state,
            topics=topics or Topics(),
            control=control,
            loss=Loss(owed=self.owed, delivered=self.delivered),
        )

    def _hops(self) -> Distribution:
        counts = np.flatnonzero(self.hop_weights)
        return Distribution.of(counts, self.hop_weights[counts])

    def _milliseconds(self) -> Distribution:
        bins = np.flatnonzero(self.us_weights)
        if len(bins) == 0:
            return Distribution()
        binned = Distribution.of(bins, self.us_weights[bins])
        to_ms = US_PER_BIN / 1000
        return Distribution(
            mean=self.us_sum / self.delivered / 1000,
            p50=binned.p50 * to_ms,
            p99=binned.p99 * to_ms,
            max=self.us_max / 1000,
        )


def structure_state(
    degrees: NDArray[np.integer],
    entry_counts: NDArray[np.integer],
    tree_entry_counts: NDArray[np.integer],
    channel_count: int,
    tree_count: int,
) -> State:
    """The state columns from per-node counts."""
    return State(
        degree=Distribution.of(degrees),
        links=float(degrees.sum()) / 2,
        channels=float(channel_count),
        trees=float(tree_count),
        entries=Distribution.of(entry_counts),
        tree_entries=Distribution.of(tree_entry_counts),
    )
