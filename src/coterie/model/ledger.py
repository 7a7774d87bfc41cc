"""What a design costs: every column of every paper, whether priced, simulated or measured live."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

INTERVAL_S = 60.0  # what "per interval" means wherever time is virtual or real


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A group of ledger columns."""


class Maintenance(Record, frozen=True, kw_only=True):
    """Messages per interval that only keep structures alive (Tamara's MC; SpiderCast's degree x heartbeat)."""

    tree_keepalives: float = 0.0  # one per tree edge and heartbeat
    link_keepalives: float = 0.0  # one per overlay link end and heartbeat
    associations: float = 0.0  # between a topic's channel and the clusters it belongs to


class Dissemination(Record, frozen=True, kw_only=True):
    """Copies of events sent between nodes per interval, by what became of them on arrival."""

    inbound: float = 0.0  # on the way from the publisher to where the channel takes over
    wanted: float = 0.0  # first arrival at a node with an interested subscriber
    relayed: float = 0.0  # arrival at a node that only passes it on (Magnet, DYNATOPS)
    filtered: float = 0.0  # arrival at a member of the channel that does not want this topic (Tamara)
    duplicate: float = 0.0  # arrival of what the node already had (content trees, floods)
    link_cost: float = 0.0  # sum of the costs of the links traversed, where the network is given

    @property
    def copies(self) -> float:
        return self.inbound + self.wanted + self.relayed + self.filtered + self.duplicate


class Distribution(Record, frozen=True, kw_only=True):
    """A distribution in four numbers."""

    mean: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, values: NDArray[np.integer], weights: NDArray[np.floating] | None = None) -> Distribution:
        """Of whole numbers, so that the order in which they were counted cannot show in the result."""
        if len(values) == 0:
            return cls()
        order = np.argsort(values, kind="stable")
        ascending = values[order].astype(np.float64)
        share = np.ones(len(values)) if weights is None else weights[order].astype(np.float64)
        total = share.sum()
        if total <= 0:
            return cls()
        upto = np.cumsum(share)
        at = np.minimum(np.searchsorted(upto, np.array([0.5, 0.99]) * total * (1 - 1e-12)), len(values) - 1)
        positive = np.flatnonzero(share > 0)
        mean = float((ascending * share).sum() / total)
        return cls(
            mean=mean, p50=float(ascending[at[0]]), p99=float(ascending[at[1]]), max=float(ascending[positive[-1]])
        )


class Delay(Record, frozen=True, kw_only=True):
    """From publication to delivery, over deliveries to subscribers."""

    hops: Distribution = Distribution()
    milliseconds: Distribution = Distribution()


class State(Record, frozen=True, kw_only=True):
    """What nodes have to remember."""

    degree: Distribution = Distribution()
    links: float = 0.0
    channels: float = 0.0
    trees: float = 0.0  # channels with at least one member
    entries: Distribution = Distribution()  # routing entries per node
    tree_entries: Distribution = Distribution()  # (channel, neighbour) pairs per node


class Topics(Record, frozen=True, kw_only=True):
    """How links lie over interests where events flood inside topics (SpiderCast, sections 3.2 and 3.4); else 0."""

    links: float = 0.0  # of the overlay; its bound holds for overlays in which members alone connect every topic
    diameter: float = 0.0  # longest shortest path between two members inside any topic
    partitioned: float = 0.0  # topics whose members the links among them leave in pieces
    top_intersection: float = 0.0  # tdi(20): what a node's interest shares with the 20 nearest ones, in %


class Control(Record, frozen=True, kw_only=True):
    """Messages sent once per change rather than per interval or event."""

    subscription: float = 0.0
    overlay: float = 0.0  # joining, leaving, repairing
    membership: float = 0.0
    acknowledgement: float = 0.0  # of events, and offers to send them again; follows the events, not the changes
    clustering: float = 0.0  # Tamara+
    reconfiguration: float = 0.0


class Loss(Record, frozen=True, kw_only=True):
    """Deliveries owed to subscribers and what became of them."""

    owed: float = 0.0
    delivered: float = 0.0

    @property
    def lost(self) -> float:
        return round(self.owed - self.delivered, 6) + 0.0  # sums of fractional rates leave dust


class Ledger(Record, frozen=True, kw_only=True):
    """The bill of one design under one workload."""

    maintenance: Maintenance = Maintenance()
    dissemination: Dissemination = Dissemination()
    delay: Delay = Delay()
    state: State = State()
    topics: Topics = Topics()
    control: Control = Control()
    loss: Loss = Loss()

    @property
    def overall(self) -> float:
        """Messages per interval: maintenance plus dissemination (Tamara's OC)."""
        upkeep = self.maintenance
        return upkeep.tree_keepalives + upkeep.link_keepalives + upkeep.associations + self.dissemination.copies

    def columns(self) -> dict[str, float]:
        """Every number by its dotted name, derived ones included, in a fixed order."""
        table = _flatten("", msgspec.to_builtins(self))
        table["dissemination.copies"] = self.dissemination.copies
        table["loss.lost"] = self.loss.lost
        table["overall"] = self.overall
        return table


def _flatten(prefix: str, value: dict[str, object]) -> dict[str, float]:
    table: dict[str, float] = {}
    for name, entry in value.items():
        if isinstance(entry, dict):
            table |= _flatten(f"{prefix}{name}.", entry)
        else:
            assert isinstance(entry, int | float)
            table[f"{prefix}{name}"] = float(entry)
    return table
