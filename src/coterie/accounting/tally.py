"""The raw counts behind a ledger: the same for a priced design, a simulation and a live run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.pricing.publications import US_BINS, US_PER_BIN
from coterie.model.ledger import (
    Control,
    Crossing,
    Delay,
    Dissemination,
    Distribution,
    Ledger,
    Load,
    Loss,
    Maintenance,
    SetupCost,
    State,
    Topics,
    Volume,
)
from coterie.model.wires import Wire

COPIES = ("inbound", "wanted", "relayed", "filtered", "duplicate")


@dataclass(frozen=True)
class Standing:
    """What a ledger says that is no count of events: read off a design, the nodes of a simulation, or a live node."""

    maintenance: Maintenance = field(default_factory=Maintenance)
    control: Control = field(default_factory=Control)
    state: State = field(default_factory=State)
    topics: Topics = field(default_factory=Topics)
    setup: SetupCost = field(default_factory=SetupCost)
    wish_bytes: float = 0.0  # length of what an announcement names
    crossing_links: float = 0.0  # share of the routing entries that lead to another zone
    clients: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # of each node


@dataclass
class Tally:
    """Events counted: as rates where a design is priced, else in a span of seconds that `ledger` divides by.

    Delays are kept as weights per hop count and per bin of 0.1 ms; `volume` are the bytes of the columns of the same
    names, `load` what each node handled.
    """

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
    us_weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))  # grows with the delays that come
    volume: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*COPIES, "delivered"), 0.0))
    load: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    crossing: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))  # copies and bytes

    def add_copy(self, column: str, size: float) -> None:
        """A copy that arrived, in the column that says what became of it."""
        setattr(self, column, getattr(self, column) + 1)
        self.volume[column] += size

    def add_delivery(self, hops: int, delay_us: int, weight: float) -> None:
        self.delivered += weight
        self.us_sum += weight * delay_us
        self.us_max = max(self.us_max, delay_us)
        if hops >= len(self.hop_weights):
            self.hop_weights = np.concatenate([self.hop_weights, np.zeros(hops + 1)])
        self.hop_weights[hops] += weight
        place = min(delay_us // US_PER_BIN, US_BINS - 1)
        if place >= len(self.us_weights):
            self.us_weights = np.concatenate([self.us_weights, np.zeros(place + 1)])
        self.us_weights[place] += weight

    def ledger(self, structure: Standing, wire: Wire, span_s: float = 1.0) -> Ledger:
        """The whole bill; heartbeats and control come in as rates already."""
        upkeep, control = structure.maintenance, structure.control
        copies = {name: getattr(self, name) / span_s for name in COPIES}
        return Ledger(
            maintenance=upkeep,
            dissemination=Dissemination(**copies, link_cost=self.link_cost / span_s),
            delay=Delay(hops=self._hops(), milliseconds=self._milliseconds()),
            state=structure.state,
            topics=structure.topics,
            control=control,
            volume=Volume(
                **{name: value / span_s for name, value in self.volume.items()},
                upkeep=upkeep_bytes(upkeep, wire),
                control=control_bytes(control, wire, structure.wish_bytes),
            ),
            crossing=Crossing(
                copies=float(self.crossing[0]) / span_s,
                bytes=float(self.crossing[1]) / span_s,
                links=structure.crossing_links,
            ),
            load=Load(messages=Distribution.of(self.load / span_s), clients=Distribution.of(structure.clients)),
            setup=structure.setup,
            loss=Loss(owed=self.owed / span_s, delivered=self.delivered / span_s),
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


def upkeep_bytes(upkeep: Maintenance, wire: Wire) -> float:
    return (
        upkeep.tree_keepalives * wire.tree_heartbeat
        + upkeep.link_keepalives * wire.link_heartbeat
        + upkeep.associations * wire.control
    )


def control_bytes(control: Control, wire: Wire, wish_bytes: float) -> float:
    announced = control.subscription
    return announced * (wire.announcement + wish_bytes) + (control.messages - announced) * wire.control


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
