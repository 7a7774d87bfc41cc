"""What the crash of one node, or of one zone, cuts: deliveries among the living that no link is left for.

A network is given time to notice and to take other ways over the links it has; what is counted is what it cannot do
before somebody plans anew. Floods stay inside a topic, so there the links among its members count. Content trees are
rebuilt by their coordinator; while it is away itself, what passes through it waits.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from coterie.accounting.price import local_audience
from coterie.kernels.links import measures as spidercast_measures
from coterie.kernels.links.blocks import blocks_of
from coterie.model import Design, Relation, Spread, Workload

CRASHES_MAX = 256  # nodes that are tried, those with most links first: on larger networks the rest would take minutes


class Sturdiness(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the deliveries owed among those still up that are cut: by the worst node, by the worst zone."""

    node: float = 0.0
    zone: float = 0.0


def sturdiness(design: Design, workload: Workload) -> Sturdiness:
    zone_of = workload.zone_of
    zones = [] if zone_of is None else [np.flatnonzero(zone_of == zone) for zone in np.unique(zone_of)]
    cut = _Cuts(design, workload)
    return Sturdiness(
        node=max((cut.without(np.array([node])) for node in _suspects(design)), default=0.0),
        zone=max((cut.without(nodes) for nodes in zones), default=0.0) if len(zones) > 1 else 0.0,
    )


def _suspects(design: Design) -> NDArray[np.int64]:
    """Nodes whose crash may cut something."""
    overlay = design.overlay
    if overlay.is_complete:
        return np.zeros(0, np.int64)
    if design.trees.spread is Spread.FLOOD:
        suspects = np.arange(design.node_count)
    else:
        links = overlay.undirected
        _, _, memberships = blocks_of(links.indptr, links.columns)
        suspects = np.flatnonzero(memberships > 1)
        coordinator = _coordinator(design)
        if coordinator is not None:
            suspects = np.union1d(suspects, [coordinator])
        if design.trees.spread is Spread.THROUGH:
            suspects = np.union1d(suspects, design.trees.root)
    return suspects[np.argsort(-overlay.degrees[suspects], kind="stable")][:CRASHES_MAX]


def _coordinator(design: Design) -> int | None:
    found = design.settings.get("coordinator")
    return int(str(found)) if design.trees.spread is Spread.FILTERED and found is not None else None


class _Cuts:
    """Who publishes what where, who wants it where; asked about one crash after the other."""

    def __init__(self, design: Design, workload: Workload) -> None:
        self._design = design
        self._audience, self._deliveries = local_audience(workload, design.placement.node_of)
        publications = workload.publications
        self._topic, self._rate = publications.topic, publications.rate
        self._source = design.placement.node_of[publications.publisher]
        self._topics = workload.topic_count

    def without(self, crashed: NDArray[np.int64]) -> float:
        """The share of what is owed among the others that cannot be delivered."""
        overlay, is_up = self._design.overlay, np.ones(self._design.node_count, bool)
        is_up[crashed] = False
        if overlay.is_complete:
            return 0.0
        if self._design.trees.spread is Spread.FLOOD:
            return self._in_topics(is_up)
        if self._design.trees.spread is Spread.THROUGH and not is_up[self._design.trees.root].all():
            return self._between(np.arange(self._design.node_count), is_up)  # without its hub a star is nothing
        coordinator = _coordinator(self._design)
        if coordinator is not None and not is_up[coordinator]:
            return max(self._between(self._parts(is_up), is_up), self._on_trees(is_up))
        return self._between(self._parts(is_up), is_up)

    def _parts(self, is_up: NDArray[np.bool_]) -> NDArray[np.int64]:
        links, count = self._design.overlay.undirected, self._design.node_count
        kept = is_up[links.rows] & is_up[links.columns]
        ends = (links.rows[kept], links.columns[kept])
        _, part = connected_components(csr_array((np.ones(len(ends[0])), ends), shape=(count, count)), directed=False)
        return np.asarray(part, np.int64)

    def _between(self, part: NDArray[np.int64], is_up: NDArray[np.bool_]) -> float:
        """Owed from one part to another."""
        sent_in, sent = self._by_part(self._topic, self._source, self._rate, part, is_up)
        wanted_in, wanted = self._by_part(self._audience.rows, self._audience.columns, self._deliveries, part, is_up)
        width = self._design.node_count
        by_topic = [
            np.bincount(key // width, amount, self._topics) for key, amount in ((sent_in, sent), (wanted_in, wanted))
        ]
        owed = float((by_topic[0] * by_topic[1]).sum())
        _, one, other = np.intersect1d(sent_in, wanted_in, assume_unique=True, return_indices=True)
        return max(1 - float((sent[one] * wanted[other]).sum()) / owed, 0.0) if owed else 0.0

    def _by_part(
        self,
        topic: NDArray[np.int32],
        node: NDArray[np.int32],
        amount: NDArray[np.float64],
        part: NDArray[np.int64],
        is_up: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """What each topic amounts to in each part, by topic x nodes + part."""
        up = is_up[node]
        key = topic[up].astype(np.int64) * self._design.node_count + part[node[up]]
        found, at = np.unique(key, return_inverse=True)
        return found, np.bincount(at, amount[up], len(found)).astype(np.float64)

    def _in_topics(self, is_up: NDArray[np.bool_]) -> float:
        """Members outside of the largest piece of their topic; a publisher outside has a link to somebody inside."""
        kept = is_up[self._audience.columns]
        members = Relation.from_pairs(
            self._audience.rows[kept], self._audience.columns[kept], self._topics, self._design.node_count
        )
        links = self._design.overlay.undirected
        largest = np.zeros(self._topics, np.int64)
        csr = (members.indptr, members.columns, links.indptr, links.columns)
        spidercast_measures.component_counts(*csr, largest)
        rates = np.bincount(self._topic, self._rate, self._topics)
        owed = float((rates * members.lengths).sum())
        return float((rates * (members.lengths - largest)).sum()) / owed if owed else 0.0

    def _on_trees(self, is_up: NDArray[np.bool_]) -> float:
        """What the trees as they are would have carried through those that are gone."""
        trees, entries = self._design.trees, self._design.entries
        assert entries.targets is not None
        part = np.zeros((trees.members.row_count, self._design.node_count), np.int32)
        for channel in range(trees.members.row_count):
            part[channel] = np.arange(self._design.node_count)
            for at in range(int(trees.indptr[channel]), int(trees.indptr[channel + 1])):
                node, parent = trees.node[at], trees.parent[at]
                if is_up[node] and is_up[parent]:
                    part[channel, node] = part[channel, parent]
        row, target = entries.targets.rows, entries.targets.columns
        entry, channel_of = entries.hops[entries.indptr[1:] - 1][row], entries.channel[row]
        weight = self._rate[entries.publication[row]] * (is_up[entry] & is_up[target] & (entry != target))
        owed = float(weight.sum())
        cut = part[channel_of, entry] != part[channel_of, target]
        return float(weight[cut].sum()) / owed if owed else 0.0
