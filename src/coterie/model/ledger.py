"""What a design costs: every column of every paper, whether priced, simulated or measured live.

There is one clock: every rate is per second, in messages and in bytes. How a rate is shown (per hour, per month) is
chosen where it is printed and changes no ratio.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

HEARTBEAT_S = 60.0  # between two heartbeats on a link or tree edge, unless told otherwise: what mosquitto's bridges do


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A group of ledger columns."""


class Maintenance(Record, frozen=True, kw_only=True):
    """Messages per second that only keep structures alive (Tamara's MC; SpiderCast's degree x heartbeat)."""

    tree_keepalives: float = 0.0  # one per tree edge and heartbeat
    link_keepalives: float = 0.0  # one per overlay link end and heartbeat
    associations: float = 0.0  # between a topic's channel and the clusters it belongs to

    @property
    def upkeep(self) -> float:
        return self.tree_keepalives + self.link_keepalives + self.associations


class Dissemination(Record, frozen=True, kw_only=True):
    """Copies of events sent between nodes per second, by what became of them on arrival."""

    inbound: float = 0.0  # on the way from the publisher to where the channel takes over
    wanted: float = 0.0  # first arrival at a node with an interested subscriber
    relayed: float = 0.0  # arrival at a node that only passes it on (Magnet, DYNATOPS)
    filtered: float = 0.0  # arrival at a member of the channel that does not want this topic (Tamara)
    duplicate: float = 0.0  # arrival of what the node already had (content trees, floods)
    link_cost: float = 0.0  # sum of the costs of the links traversed, where the network is given

    @property
    def copies(self) -> float:
        return self.inbound + self.wanted + self.relayed + self.filtered + self.duplicate


class Volume(Record, frozen=True, kw_only=True):
    """Bytes per second between nodes, headers included (see `wires`), column by column; and to clients."""

    inbound: float = 0.0
    wanted: float = 0.0
    relayed: float = 0.0
    filtered: float = 0.0
    duplicate: float = 0.0
    upkeep: float = 0.0
    control: float = 0.0
    delivered: float = 0.0  # to clients: the same whatever carries it, so no part of the total

    @property
    def copies(self) -> float:
        return self.inbound + self.wanted + self.relayed + self.filtered + self.duplicate

    @property
    def total(self) -> float:
        return self.copies + self.upkeep + self.control


class Crossing(Record, frozen=True, kw_only=True):
    """What goes from one zone to another, per second."""

    copies: float = 0.0
    bytes: float = 0.0  # of these copies
    links: float = 0.0  # share of the routing entries that lead to another zone: so much of upkeep and control crosses


class Distribution(Record, frozen=True, kw_only=True):
    """A distribution in four numbers."""

    mean: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0

    @classmethod
    def of(
        cls, values: NDArray[np.integer] | NDArray[np.floating], weights: NDArray[np.floating] | None = None
    ) -> Distribution:
        """Each value as often as its weight says."""
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
    """Messages per second that the changes in the log cause: each change costs what one cost when all was set up."""

    subscription: float = 0.0
    overlay: float = 0.0  # joining, leaving, repairing
    membership: float = 0.0
    acknowledgement: float = 0.0  # of events, and offers to send them again; follows the events, not the changes
    clustering: float = 0.0  # Tamara+
    reconfiguration: float = 0.0

    @property
    def messages(self) -> float:
        return (
            self.subscription + self.overlay + self.membership + self.acknowledgement
            + self.clustering + self.reconfiguration
        )  # fmt: skip


class SetupCost(Record, frozen=True, kw_only=True):
    """What it takes to get there, once: messages and bytes that build the structures, and clients that move."""

    messages: float = 0.0
    bytes: float = 0.0
    moves: float = 0.0


class Load(Record, frozen=True, kw_only=True):
    """Messages per second that a node handles: taken from clients, handed to clients, sent and received copies."""

    messages: Distribution = Distribution()
    clients: Distribution = Distribution()  # attached to a node

    @property
    def hottest(self) -> float:
        """What the busiest node handles, as a multiple of the mean."""
        return self.messages.max / self.messages.mean if self.messages.mean else 0.0


class Loss(Record, frozen=True, kw_only=True):
    """Deliveries owed to subscribers per second and what became of them."""

    owed: float = 0.0
    delivered: float = 0.0

    @property
    def lost(self) -> float:
        missing = self.owed - self.delivered
        return missing if abs(missing) > 1e-9 * self.owed else 0.0  # sums of fractional rates leave dust


class Ledger(Record, frozen=True, kw_only=True):
    """The bill of one design under one workload."""

    maintenance: Maintenance = Maintenance()
    dissemination: Dissemination = Dissemination()
    delay: Delay = Delay()
    state: State = State()
    topics: Topics = Topics()
    control: Control = Control()
    volume: Volume = Volume()
    crossing: Crossing = Crossing()
    load: Load = Load()
    setup: SetupCost = SetupCost()
    loss: Loss = Loss()

    @property
    def overall(self) -> float:
        """Messages per second: maintenance plus dissemination (Tamara's OC). Money and choices go by `volume`."""
        return self.maintenance.upkeep + self.dissemination.copies

    def columns(self) -> dict[str, float]:
        """Every number by its dotted name, derived ones included, in a fixed order."""
        table = _flatten("", msgspec.to_builtins(self))
        table["dissemination.copies"] = self.dissemination.copies
        table["maintenance.upkeep"] = self.maintenance.upkeep
        table["control.messages"] = self.control.messages
        table["volume.copies"] = self.volume.copies
        table["volume.total"] = self.volume.total
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
