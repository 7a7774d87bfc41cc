"""A workload: who wants what, who publishes what how often, and how both change with time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index, Relation

PAYLOAD_BYTES = 200.0  # of a message whose size nobody told
TOPIC_BYTES = 16.0  # of a topic's name where topics have none


@dataclass(frozen=True, eq=False)
class Publications:
    """Row j says: client `publisher[j]` publishes `rate[j]` events per second of `size[j]` bytes on `topic[j]`.

    A pure publisher is a client with an empty interest: it enters the network where it is attached, like anybody.
    """

    publisher: Index
    topic: Index
    rate: NDArray[np.float64]
    size: NDArray[np.float64]  # mean payload

    @property
    def count(self) -> int:
        return len(self.publisher)

    @classmethod
    def of(cls, publisher: object, topic: object, rate: object, size: object = PAYLOAD_BYTES) -> Publications:
        rates = np.asarray(rate, np.float64)
        sizes = np.broadcast_to(np.asarray(size, np.float64), rates.shape).copy()
        return cls(np.asarray(publisher, np.int32), np.asarray(topic, np.int32), rates, sizes)

    def among(self, rows: NDArray[np.bool_]) -> Publications:
        """Some of the rows."""
        return Publications(self.publisher[rows], self.topic[rows], self.rate[rows], self.size[rows])


@dataclass(frozen=True, eq=False)
class Content:
    """What content-based workloads add: topics are documents, and interests follow from keyword subscriptions."""

    documents: Relation  # document -> keywords
    subscriptions: Relation  # subscriber -> keywords


@dataclass(frozen=True, eq=False)
class Wishes:
    """What clients asked for in MQTT's words, where that was more than topics: filters with wildcards, shared ones."""

    of: Relation  # client -> filters
    matches: Relation  # filter -> topics


@dataclass(frozen=True, eq=False)
class Stays:
    """The wishes that do not hold for the whole window of `span_s` seconds.

    Times count from the window's start; -inf and inf where a wish began before or ended after it. `filter` numbers the
    filters of `Wishes`, or the topics where there are none. A wish that came and went twice has two rows.
    """

    client: Index
    filter: Index
    begin_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    span_s: float


@dataclass(frozen=True, eq=False)
class Workload:
    """A window of demand, in rates. `attachment[c]` is the node client `c` sits at before anybody places it better."""

    name: str
    interests: Relation  # subscriber -> topics
    publications: Publications
    attachment: Index
    node_count: int
    coordinates: NDArray[np.float64] | None = None  # nodes in the plane (or longitude, latitude), where known
    graph: BrokerGraph | None = None  # the broker network, where it is given
    content: Content | None = None
    modes: Index | None = (
        None  # the generator's hidden interest group of each subscriber, for judging, not for planning
    )
    topic_bytes: NDArray[np.float64] | None = None  # length of each topic's name
    weights: NDArray[np.float64] | None = None  # of each pair of `interests`: deliveries per event, below 1 if shared
    wishes: Wishes | None = None
    stays: Stays | None = None
    zone_of: Index | None = None  # of each node
    zones: tuple[str, ...] = ()
    is_anywhere: bool = False  # clients may be attached in any zone: nobody said where they are

    def __post_init__(self) -> None:
        if len(self.attachment) != self.interests.row_count:
            raise ConfigError(
                "attachment", len(self.attachment), f"one node for each of {self.interests.row_count} subscribers"
            )
        if self.node_count < 1:
            raise ConfigError("nodes", self.node_count, "at least 1")

    @property
    def subscriber_count(self) -> int:
        return self.interests.row_count

    @property
    def topic_count(self) -> int:
        return self.interests.column_count

    @cached_property
    def rates(self) -> NDArray[np.float64]:
        """Events per second of each topic."""
        return np.bincount(self.publications.topic, self.publications.rate, self.topic_count).astype(np.float64)

    def node_interests(self, node_of: Index | None = None) -> Relation:
        """Node -> topics wanted by at least one subscriber placed there (by default: where it is attached)."""
        placed = self.attachment if node_of is None else node_of
        if node_of is None and self.is_peer_network:
            return self.interests
        return Relation.from_pairs(
            placed[self.interests.rows], self.interests.columns, self.node_count, self.topic_count
        )

    @property
    def is_peer_network(self) -> bool:
        """Every node is one subscriber."""
        return self.node_count == self.subscriber_count and bool(
            np.array_equal(self.attachment, np.arange(self.node_count, dtype=np.int32))
        )

    @cached_property
    def name_bytes(self) -> NDArray[np.float64]:
        """Length of each topic's name on the wire."""
        return np.full(self.topic_count, TOPIC_BYTES) if self.topic_bytes is None else self.topic_bytes

    def with_whole_events(self, seed: int, span_s: float) -> Workload:
        """The same workload with rates drawn so that `span_s` seconds hold whole numbers of events."""
        events = events_in(self.publications.rate, span_s)
        floor = np.floor(events)
        if np.array_equal(events, floor):
            return self
        draw = np.random.default_rng(seed)
        whole = floor + (draw.random(len(events)) < events - floor)
        return replace(self, publications=replace(self.publications, rate=whole / span_s))


def events_in(rate: NDArray[np.float64], span_s: float) -> NDArray[np.float64]:
    """Events in so many seconds; what dividing and multiplying again leaves in the last digits is taken off."""
    events = rate * span_s
    whole = np.rint(events)
    return np.where(np.abs(events - whole) < 1e-9 * np.maximum(whole, 1.0), whole, events)


class Change(IntEnum):
    """What happens in a timeline."""

    SUBSCRIBE = 0
    UNSUBSCRIBE = 1
    JOIN = 2  # the node comes back or appears; topic is -1
    LEAVE = 3  # the node leaves in good order; topic is -1
    CRASH = 4  # the node disappears; topic is -1
    MOVE = 5  # the subscriber attaches to node `topic`


@dataclass(frozen=True, eq=False)
class Timeline:
    """A workload at time 0 and everything that changes afterwards, in time order."""

    start: Workload
    time_s: NDArray[np.float64]
    change: NDArray[np.uint8]
    who: Index  # the subscriber (for JOIN, LEAVE, CRASH: the node)
    what: Index  # the topic (for MOVE: the node)

    @property
    def change_count(self) -> int:
        return len(self.time_s)

    def at(self, time_s: float) -> Workload:
        """The workload after every change up to and including `time_s`. Nodes that left keep their row."""
        upto = int(np.searchsorted(self.time_s, time_s, side="right"))
        change, who, what = self.change[:upto], self.who[:upto], self.what[:upto]
        attachment = self.start.attachment.copy()
        moves = change == Change.MOVE
        attachment[who[moves]] = what[moves]  # numpy keeps the last write of a repeated index
        return replace(self.start, interests=self._interests(change, who, what), attachment=attachment)

    def _interests(self, change: NDArray[np.uint8], who: Index, what: Index) -> Relation:
        before = self.start.interests
        about_topics = change <= Change.UNSUBSCRIBE
        pairs = np.concatenate(
            [
                before.rows.astype(np.int64) * before.column_count + before.columns,
                who[about_topics].astype(np.int64) * before.column_count + what[about_topics],
            ]
        )
        wanted = np.concatenate([np.ones(before.pair_count, bool), change[about_topics] == Change.SUBSCRIBE])
        order = np.argsort(pairs, kind="stable")
        pairs, wanted = pairs[order], wanted[order]
        last = np.concatenate([pairs[1:] != pairs[:-1], [True]]) if len(pairs) else np.zeros(0, bool)
        kept = pairs[last & wanted]
        row, column = np.divmod(kept, max(before.column_count, 1))
        return Relation.from_pairs(row, column, before.row_count, before.column_count)

    def windows(self, length_s: float) -> Iterator[tuple[float, Workload]]:
        """The workload at the end of each window until the last change."""
        end_s = length_s
        last_s = float(self.time_s[-1]) if self.change_count else 0.0
        while end_s < last_s + length_s:
            yield end_s, self.at(end_s)
            end_s += length_s


def nobody_yet(nodes: int, zones: Sequence[str] = ()) -> Workload:
    """A workload without interest: nobody has subscribed yet. Where the nodes stand may be known."""
    empty = np.zeros(0, np.int32)
    named = tuple(dict.fromkeys(zone for zone in zones if zone))
    return Workload(
        name="nobody yet",
        interests=Relation.from_pairs(empty, empty, nodes, 1),
        attachment=np.arange(nodes, dtype=np.int32),
        node_count=nodes,
        publications=Publications.of(empty, empty, np.zeros(0)),
        zone_of=np.array([named.index(zone) for zone in zones], np.int32) if named else None,
        zones=named,
    )
