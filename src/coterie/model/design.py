"""A design: placement, channels, overlay and trees for one workload, built from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.model.ledger import HEARTBEAT_S
from coterie.model.relation import Index, Offset, Relation


@dataclass(frozen=True, eq=False)
class Placement:
    """Subscriber -> node."""

    node_of: Index
    node_count: int

    @cached_property
    def load(self) -> NDArray[np.int64]:
        return np.bincount(self.node_of, minlength=self.node_count)


@dataclass(frozen=True, eq=False)
class Channels:
    """Channel -> the topics it carries. A topic may be carried by several channels."""

    topics: Relation

    @property
    def count(self) -> int:
        return self.topics.row_count

    @classmethod
    def one_per_topic(cls, topic_count: int) -> Channels:
        return cls(Relation.identity(topic_count))

    @classmethod
    def one_for_all(cls, topic_count: int) -> Channels:
        return cls(Relation.from_rows([range(topic_count)], topic_count))


@dataclass(frozen=True, eq=False)
class Overlay:
    """Who keeps a link to whom. `links` are routing entries (directed); a complete overlay keeps them implicit."""

    links: Relation
    positions: NDArray[np.uint64] | None = None  # identifiers on the ring, where there is one
    is_complete: bool = False
    costs: NDArray[np.float64] | None = None  # of every pair of `links`, where the network is given and they differ
    zone_of: Index | None = None  # of each node, where nodes are to know it
    beside: Relation | None = None  # those of `links` that lead to nodes of the own zone, besides the system's own ones

    @property
    def node_count(self) -> int:
        return self.links.row_count

    @classmethod
    def complete(cls, node_count: int) -> Overlay:
        return cls(Relation.empty(node_count, node_count), is_complete=True)

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Distinct neighbours of each node, links taken as undirected."""
        if self.is_complete:
            return np.full(self.node_count, self.node_count - 1, np.int64)
        return self.undirected.lengths

    @cached_property
    def undirected(self) -> Relation:
        """Node -> neighbours, each link in both directions."""
        one_way = self.links
        rows = np.concatenate([one_way.rows, one_way.columns])
        columns = np.concatenate([one_way.columns, one_way.rows])
        apart = rows != columns
        return Relation.from_pairs(rows[apart], columns[apart], self.node_count, self.node_count)

    @property
    def entry_counts(self) -> NDArray[np.int64]:
        """Routing entries each node keeps."""
        return self.degrees if self.is_complete else self.links.lengths

    @property
    def link_count(self) -> int:
        return int(self.degrees.sum()) // 2


class Spread(Enum):
    """How an event spreads once it has entered a channel."""

    DIRECT = "direct"  # the entry node sends a copy to every other member
    ROOTED = "rooted"  # down the tree from its root
    FLOOD = "flood"  # along every overlay link between two members, except back
    FILTERED = "filtered"  # along the tree in all directions, cut where nobody interested lies beyond
    THROUGH = "through"  # to the root, and from there a copy to every other member but the one it came from


@dataclass(frozen=True, eq=False)
class Trees:
    """The structure of every channel.

    Channel c's edges are `node[i] -> parent[i]` for i in `indptr[c]:indptr[c + 1]`, parents before children; the root
    has no edge. `members` are the nodes subscribed to the channel; nodes on the tree that are no members only relay.
    DIRECT and FLOOD channels have no edges: their paths follow from the members and the overlay. Edges of THROUGH
    channels say whom the root must know; the paths follow from the members.
    """

    spread: Spread
    members: Relation  # channel -> nodes
    root: Index  # -1 where a channel has none
    indptr: Offset
    node: Index
    parent: Index
    is_announced: bool = False  # every membership is told to all nodes, and all keep it in mind
    has_homes: bool = False  # roots are chosen by the plan, topic by topic, and told to all nodes
    has_relays: bool = False  # what goes to several nodes of another zone goes there once, and is passed on inside

    @property
    def edge_counts(self) -> Offset:
        return np.diff(self.indptr)

    @classmethod
    def without_edges(cls, spread: Spread, members: Relation, is_announced: bool = False) -> Trees:
        nothing, channels = np.zeros(0, np.int32), members.row_count
        no_root, indptr = np.full(channels, -1, np.int32), np.zeros(channels + 1, np.int64)
        return cls(spread, members, no_root, indptr, nothing, nothing, is_announced=is_announced)


@dataclass(frozen=True, eq=False)
class Entries:
    """How the workload's publications enter channels.

    Row i: publication `publication[i]` enters `channel[i]` by the path `hops[indptr[i]:indptr[i + 1]]`, whose first
    node is where the path starts and whose last node is where the channel takes over. A path that starts at the end of
    another one (a topic's root notifying a cluster's root) names that row in `after`, which must be an earlier row; -1
    starts at the publisher's node. For FILTERED channels `targets` holds, per row, the nodes the event must reach.
    """

    publication: Index
    channel: Index
    after: Index
    indptr: Offset
    hops: Index
    targets: Relation | None = None

    @property
    def count(self) -> int:
        return len(self.publication)

    @property
    def hop_counts(self) -> Offset:
        return np.diff(self.indptr) - 1

    @classmethod
    def at_publisher(cls, publisher_node: Index, channel: Index) -> Entries:
        """Each publication enters one channel right where it is published."""
        count = len(channel)
        rows = np.arange(count, dtype=np.int32)
        first = np.full(count, -1, np.int32)
        return cls(rows, channel, first, np.arange(count + 1, dtype=np.int64), publisher_node.astype(np.int32))


@dataclass(frozen=True)
class Upkeep:
    """Per second: heartbeats on a tree edge, on a routing entry, and messages that keep associations alive."""

    tree: float = 1 / HEARTBEAT_S
    link: float = 1 / HEARTBEAT_S
    associations: float = 0.0


@dataclass(frozen=True, eq=False)
class Bundles:
    """Sets of topics laid over the channels of any system, each a topic of its own to the nodes below.

    Whoever publishes sends an event into its topic and into every bundle with it, so every node is told all bundles.
    """

    topics: Relation  # bundle -> topics
    members: Relation  # bundle -> nodes


@dataclass(frozen=True, eq=False)
class Design:
    """All columns for one workload. `system` made it; `settings` are its parameters and seed, as plain values."""

    system: str
    placement: Placement
    channels: Channels
    overlay: Overlay
    trees: Trees
    entries: Entries
    settings: dict[str, object]
    upkeep: Upkeep = Upkeep()
    bundles: Bundles | None = None
    announcements: float | None = None  # messages that tell everybody's wishes at first; None: one per tree edge

    @property
    def node_count(self) -> int:
        return self.placement.node_count
