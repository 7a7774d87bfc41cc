"""The accountant over time: what one placement costs in one window, and what a course of windows comes to.

An event is copied once to every broker that wants its topic, but the one where it enters (an interest-routed mesh, the
shape of NATS, EMQX and VerneMQ clusters). A broker announces to all others when it begins or ceases to want something.
A client that moves, or that is sent elsewhere as it comes, costs copies too. Everything is counted, nothing predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.accounting import placement_bound
from coterie.accounting.changes import interest_changes
from coterie.accounting.price import MOVE_COPIES, mean_copy_bytes
from coterie.model import Workload
from coterie.model.prices import GB, MONTH_S, Money, Prices
from coterie.model.relation import Index
from coterie.model.wires import COTERIE, Wire

REDIRECT_COPIES = 10  # what a client that is sent elsewhere as it comes costs, in copies: one more connection
DAY_S = 86400.0
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogWindow:
    """One window of a log: rates are per second, ids the same in all windows."""

    demand: Workload
    span_s: float

    @cached_property
    def is_present(self) -> NDArray[np.bool_]:
        """Clients that want or say something in it."""
        found = self.demand.interests.lengths > 0
        found[self.demand.publications.publisher] = True
        return np.asarray(found)


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """One window under one policy. Counts, not rates."""

    span_s: float
    events: float
    deliveries: float
    copies: float
    copy_bytes: float
    crossing_bytes: float  # of the copies
    announcements: float
    announcement_bytes: float
    moves: int
    redirects: int
    mean_bytes: float  # of a copy
    remote: float  # deliveries at another broker than the publisher's
    handled: tuple[float, ...]  # messages in and out, by broker
    connections: tuple[int, ...]  # by broker

    @property
    def upheaval(self) -> float:
        """Moves, redirects and announcements, in copies: by price the first two, by bytes the last."""
        return self.moved + self.announced

    @property
    def moved(self) -> float:
        return float(MOVE_COPIES * self.moves + REDIRECT_COPIES * self.redirects)

    @property
    def announced(self) -> float:
        return self.announcement_bytes / self.mean_bytes if self.mean_bytes else 0.0

    @property
    def bytes(self) -> float:
        """Everything between brokers."""
        return self.copy_bytes + self.upheaval * self.mean_bytes


class Course(msgspec.Struct, frozen=True):
    """A policy's windows, one after the other."""

    policy: str
    windows: tuple[Spent, ...]

    def total(self, name: str) -> float:
        return float(sum(getattr(one, name) for one in self.windows))

    @property
    def span_s(self) -> float:
        return self.total("span_s")

    @property
    def copies_per_delivery(self) -> float:
        return _share(self.total("copies"), self.total("deliveries"))

    def gross(self, before: Course) -> float:
        """Copies saved, as a share of what there were before."""
        return _share(before.total("copies") - self.total("copies"), before.total("copies"))

    def net(self, before: Course) -> float:
        """What is saved after paying for moves, redirects and what has to be announced more (or less) than before, as
        a share of all that went between brokers before: copies and announcements."""
        return _share(self.saved(before), before.total("copies") + before.total("upheaval"))

    def saved(self, before: Course) -> float:
        """The same in copies; below 0 where changes cost more than they save."""
        return before.total("copies") - self.total("copies") + before.total("upheaval") - self.total("upheaval")

    def of_handling(self, before: Course) -> float:
        """What is saved net, sent and received, as a share of all messages that brokers handled before, announcements
        among them."""
        return 2 * _share(self.saved(before), float(before.handled.sum()) + 2 * before.total("upheaval"))

    @property
    def hops(self) -> float:
        return _share(self.total("remote"), self.total("deliveries"))

    @property
    def hottest_messages(self) -> float:
        """The broker that handles most, as a multiple of the mean, over the whole course."""
        return _above_mean(self.handled)

    @property
    def hottest_connections(self) -> float:
        """The same of connections, all windows together."""
        return _above_mean(np.sum([one.connections for one in self.windows], axis=0, dtype=np.float64))

    @property
    def moves_per_client_day(self) -> float:
        present = sum(sum(one.connections) * one.span_s for one in self.windows)
        return _share(self.total("moves") * DAY_S, present)

    def month(self, prices: Prices) -> Money:
        """What goes between brokers, in money; what every policy pays alike is left out."""
        per_s = 1 / self.span_s if self.span_s else 0.0
        across = self.total("crossing_bytes")
        whole = self.total("bytes")
        across *= whole / self.total("copy_bytes") if self.total("copy_bytes") else 0.0
        messages = self.total("copies") + self.total("announcements") + self.total("moved")
        gb = MONTH_S * per_s / GB
        return Money(
            currency=prices.currency,
            traffic=gb * ((whole - across) * prices.per_gb_inside_zone + across * prices.per_gb_across_zones),
            work=messages * per_s * MONTH_S / 1e6 * prices.per_million_messages,
            fixed=0.0,
        )

    @property
    def handled(self) -> F64:
        """Messages by broker."""
        return np.asarray(np.sum([one.handled for one in self.windows], axis=0, dtype=np.float64))


def spend(
    window: LogWindow, node_of: Index, earlier: Index, moves: int = 0, redirects: int = 0, wire: Wire = COTERIE
) -> Spent:
    """The window with clients at `node_of` (-1: not there), who were at `earlier` before it began (-1: nowhere).

    Who was moved and did not come has moved all the same: `moves` are told.
    A wish counts for the whole window; what brokers announce is counted by its times.
    """
    demand, span_s = window.demand, window.span_s
    publications, brokers = demand.publications, demand.node_count
    events = publications.rate * span_s
    source = node_of[publications.publisher].astype(np.int64)
    audience, heads = _audience(demand, node_of)
    wanting = np.bincount(audience // brokers, minlength=demand.topic_count)
    at_source = publications.topic.astype(np.int64) * brokers + source
    place = np.minimum(np.searchsorted(audience, at_source), max(len(audience) - 1, 0))
    is_home = audience[place] == at_source if len(audience) else np.zeros(len(source), bool)
    copies = events * (wanting[publications.topic] - is_home)
    each = wire.event + wire.topics_in_event * demand.name_bytes[publications.topic] + publications.size
    deliveries = np.bincount(audience // brokers, heads, demand.topic_count)[publications.topic] * events
    local = np.where(is_home, heads[place] if len(heads) else 0.0, 0.0) * events
    is_moved = (earlier >= 0) & (node_of >= 0) & (earlier != node_of)
    changes = reannounced(demand, node_of, earlier, is_moved)
    changes += round(interest_changes(demand, np.maximum(node_of, 0)) * span_s)
    names = float(demand.name_bytes.mean()) if demand.topic_count else 0.0
    return Spent(
        span_s=span_s,
        events=float(events.sum()),
        deliveries=float(deliveries.sum()),
        copies=float(copies.sum()),
        copy_bytes=float((copies * each).sum()),
        crossing_bytes=float((_crossing(demand, audience, source) * events * each).sum()),
        announcements=float(changes * (brokers - 1)),
        announcement_bytes=float(changes * (brokers - 1) * (wire.announcement + names)),
        moves=moves,
        redirects=redirects,
        mean_bytes=mean_copy_bytes(demand, wire),
        remote=float((deliveries - local).sum()),
        handled=tuple(_handled(demand, audience, heads, source, events, copies).tolist()),
        connections=tuple(np.bincount(node_of[node_of >= 0], minlength=brokers).tolist()),
    )


def announcement_copies(demands: Sequence[Workload], wire: Wire = COTERIE) -> float:
    """What one announcement to all other brokers comes to, in copies, by its bytes."""
    sizes = [size for size in (mean_copy_bytes(one, wire) for one in demands) if size]
    names = float(np.mean([one.name_bytes.mean() for one in demands])) if demands[0].topic_count else 0.0
    return (demands[0].node_count - 1) * (wire.announcement + names) / float(np.mean(sizes)) if sizes else 0.0


def least_copies(window: LogWindow, connections: float) -> float:
    """No placement has fewer while no broker has more than `connections` times the mean of the clients (at least the
    mean rounded up): the larger of what topics and what clients ask for (`placement_bound`)."""
    demand = window.demand
    mean = float(window.is_present.sum()) / demand.node_count
    room = max(np.floor(connections * mean), np.ceil(mean), 1.0)
    each, capacity = np.ones((demand.subscriber_count, 1)), np.full((demand.node_count, 1), room)
    return placement_bound.least_copies(demand, each, capacity) * window.span_s


def _audience(demand: Workload, node_of: Index) -> tuple[I64, F64]:
    """Pairs of topic and broker that wants it as one number each, ascending; and deliveries there per event."""
    interests = demand.interests
    key = interests.columns.astype(np.int64) * demand.node_count + node_of[interests.rows]
    found, inverse = np.unique(key, return_inverse=True)
    return found, np.bincount(inverse, demand.weights, len(found)).astype(np.float64)


def reannounced(demand: Workload, node_of: Index, earlier: Index, is_moved: NDArray[np.bool_]) -> int:
    """Pairs of broker and wish that differ because clients moved with what they wanted as the window began."""
    if not is_moved.any():
        return 0
    asked = demand.interests if demand.wishes is None else demand.wishes.of
    width = asked.column_count
    client, wish = asked.rows.astype(np.int64), asked.columns
    if demand.stays is not None:
        new = np.isfinite(demand.stays.begin_s)
        came = demand.stays.client[new].astype(np.int64) * width + demand.stays.filter[new]
        held = ~np.isin(client * width + wish, came) & (earlier[client] >= 0)
    else:
        held = earlier[client] >= 0
    client, wish = client[held], wish[held]
    then, now = (np.unique(seats[client].astype(np.int64) * width + wish) for seats in (earlier, node_of))
    return len(np.setxor1d(then, now, assume_unique=True))


def _crossing(demand: Workload, audience: I64, source: I64) -> F64:
    """Copies per event that leave the zone, by row of the publications."""
    topic = demand.publications.topic
    if demand.zone_of is None or not len(audience):
        return np.zeros(len(topic))
    zones = int(demand.zone_of.max()) + 1
    where = (audience // demand.node_count) * zones + demand.zone_of[audience % demand.node_count]
    by_zone = np.bincount(where, minlength=demand.topic_count * zones).reshape(-1, zones)
    away = by_zone.sum(axis=1)[topic] - by_zone[topic, demand.zone_of[source]]
    return np.asarray(away, np.float64)


def _handled(demand: Workload, audience: I64, heads: F64, source: I64, events: F64, copies: F64) -> F64:
    """Messages in and out by broker: publications in, copies out and in, deliveries out."""
    brokers, topic = demand.node_count, demand.publications.topic
    sent = np.bincount(source, events + copies, brokers)
    of_topic = np.bincount(topic, events, demand.topic_count)
    in_and_out = of_topic[audience // brokers] * (1.0 + heads)
    received = np.bincount(audience % brokers, in_and_out, brokers)
    at_home = np.isin(topic.astype(np.int64) * brokers + source, audience)
    return np.asarray(sent + received - np.bincount(source, events * at_home, brokers))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _above_mean(load: F64) -> float:
    return float(load.max() / load.mean()) if load.any() else 0.0
