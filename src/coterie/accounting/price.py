"""Price a design under a workload: the ledger it would show if it ran for one interval without faults."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.accounting.tally import Tally, structure_state
from coterie.kernels import pricing, spidercast_measures
from coterie.model import Design, Entries, Ledger, Relation, Spread, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import Control, Maintenance, State, Topics
from coterie.model.relation import Index

TOPIC_STEPS_MAX = 3e9
NEAREST = 20  # d of tdi(d)

SPREAD_CODES = {
    Spread.DIRECT: pricing.DIRECT,
    Spread.ROOTED: pricing.ROOTED,
    Spread.FLOOD: pricing.FLOOD,
    Spread.FILTERED: pricing.FILTERED,
}


def price(design: Design, workload: Workload, latency: Latency | None = None, control: Control | None = None) -> Ledger:
    """The whole bill. `control` is what it took to set the design up, where the system knows it in advance."""
    tally = count_dissemination(design, workload, latency or Latency.constant())
    flooded = topics(design.trees.spread, design.trees.members, design.overlay.undirected)
    return tally.ledger(maintenance(design), state(design), control or set_up_control(design), flooded)


def maintenance(design: Design) -> Maintenance:
    upkeep = design.upkeep
    return Maintenance(
        tree_keepalives=upkeep.tree * float(len(design.trees.node)),
        link_keepalives=upkeep.link * float(design.overlay.entry_counts.sum()),
        associations=upkeep.associations,
    )


def set_up_control(design: Design) -> Control:
    """Growing a tree costs one join message per edge: each node on it asks its parent once."""
    return Control(subscription=float(len(design.trees.node)))


def state(design: Design) -> State:
    trees = design.trees
    ends = np.concatenate([trees.node, trees.parent])
    tree_entries = np.bincount(ends, minlength=design.node_count)
    used = int(np.count_nonzero(trees.members.lengths))
    overlay = design.overlay
    return structure_state(overlay.degrees, overlay.entry_counts, tree_entries, design.channels.count, used)


def topics(spread: Spread, members: Relation, links: Relation) -> Topics:
    """What floods find: nothing for trees.

    The diameter is exact, so it costs a search from every member, and tdi(d) a look at every pair; networks for which
    that takes minutes go without (0).
    """
    if spread is not Spread.FLOOD or members.pair_count == 0:
        return Topics()
    csr = (members.indptr, members.columns, links.indptr, links.columns)
    counts = spidercast_measures.component_counts(*csr, np.zeros(members.row_count, np.int64))
    total, pieces = links.pair_count / 2, float(np.count_nonzero(counts > 1))
    if float((members.lengths**2).sum()) * links.lengths.mean() > TOPIC_STEPS_MAX:
        return Topics(links=total, partitioned=pieces)
    longest = spidercast_measures.diameters(*csr, np.zeros(members.row_count))
    interests = members.transposed
    nearest = spidercast_measures.top_intersections(
        interests.indptr, interests.columns, members.indptr, members.columns, NEAREST
    )
    return Topics(
        links=total, diameter=float(longest.max()), partitioned=pieces, top_intersection=float(nearest.mean())
    )


def count_dissemination(design: Design, workload: Workload, latency: Latency) -> Tally:
    """Follow every publication; see kernels.pricing."""
    publications = workload.publications
    entries = _grouped(design.entries)
    audience, local_subscribers = local_audience(workload, design.placement.node_of)
    counters = np.zeros(pricing.COUNTER_COUNT)
    tally = Tally()
    hop_weights = np.zeros(design.node_count + int(entries.hop_counts.sum(initial=0)) + 2)
    pricing.price_publications(
        SPREAD_CODES[design.trees.spread],
        publications.topic,
        publications.rate,
        pricing.Csr(audience.indptr, audience.columns),
        local_subscribers,
        _structure(design, workload),
        _paths(entries, publications.count),
        pricing.Delays(
            latency.kind, latency.base_us, latency.matrix_us, latency.coordinates, float(latency.us_per_unit)
        ),
        _scratch(design.node_count, design.overlay.undirected.pair_count),
        _arrivals(design, entries, publications.count),
        counters,
        hop_weights,
        tally.us_weights,
    )
    tally.hop_weights = hop_weights
    names = (
        "inbound",
        "wanted",
        "relayed",
        "filtered",
        "duplicate",
        "link_cost",
        "owed",
        "delivered",
        "us_sum",
        "us_max",
    )
    for name, value in zip(names, counters, strict=True):
        setattr(tally, name, float(value))
    return tally


def local_audience(workload: Workload, node_of: Index) -> tuple[Relation, NDArray[np.int64]]:
    """Topic -> nodes with an interested subscriber, and beside each pair how many subscribers that are."""
    interests = workload.interests
    key = interests.columns.astype(np.int64) * workload.node_count + node_of[interests.rows]
    key.sort()
    first = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, bool)
    starts = np.flatnonzero(first)
    counts = np.diff(np.concatenate([starts, [len(key)]]))
    topic, node = np.divmod(key[starts], workload.node_count)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(topic, minlength=workload.topic_count))])
    return Relation(indptr.astype(np.int64), node.astype(np.int32), workload.node_count), counts


def _grouped(entries: Entries) -> Entries:
    """Rows ordered by publication, `after` still pointing at the right rows."""
    if np.all(np.diff(entries.publication) >= 0):
        return entries
    order = np.argsort(entries.publication, kind="stable")
    place = np.empty(entries.count + 1, np.int32)
    place[order] = np.arange(entries.count, dtype=np.int32)
    place[-1] = -1
    lengths = np.diff(entries.indptr)[order]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = np.repeat(entries.indptr[:-1][order] - indptr[:-1], lengths) + np.arange(indptr[-1])
    targets = None
    if entries.targets is not None:
        rows = [entries.targets.row(int(row)) for row in order]
        targets = Relation.from_rows(rows, entries.targets.column_count)
    return Entries(
        entries.publication[order],
        entries.channel[order],
        place[entries.after[order]],
        indptr,
        entries.hops[source],
        targets,
    )


def _structure(design: Design, workload: Workload) -> pricing.Structure:
    trees = design.trees
    links = design.overlay.undirected
    graph = workload.graph
    costs = Relation.empty(design.node_count, design.node_count) if graph is None else graph.neighbours
    return pricing.Structure(
        pricing.Csr(trees.members.indptr, trees.members.columns),
        trees.root,
        trees.indptr,
        trees.node,
        trees.parent,
        pricing.Csr(links.indptr, links.columns),
        pricing.Csr(costs.indptr, costs.columns),
        np.zeros(0) if graph is None else graph.neighbour_costs,
    )


def _paths(entries: Entries, publication_count: int) -> pricing.Paths:
    per_publication = np.bincount(entries.publication, minlength=publication_count)
    targets = entries.targets or Relation.empty(entries.count, 1)
    return pricing.Paths(
        np.concatenate([[0], np.cumsum(per_publication)]).astype(np.int64),
        entries.channel,
        entries.after,
        pricing.Csr(entries.indptr, entries.hops),
        pricing.Csr(targets.indptr, targets.columns),
    )


def _scratch(node_count: int, link_ends: int) -> pricing.Scratch:
    def per_node() -> NDArray[np.int64]:
        return np.zeros(node_count, np.int64)

    heap_size = link_ends + 2  # every link end pushes at most once
    return pricing.Scratch(
        wants=per_node(),
        wants_stamp=per_node(),
        member_stamp=per_node(),
        reached_stamp=per_node(),
        us=per_node(),
        hops=per_node(),
        beyond=per_node(),
        heap_us=np.zeros(heap_size, np.int64),
        heap_node=np.zeros(heap_size, np.int32),
        had_stamp=per_node(),
    )


def _arrivals(design: Design, entries: Entries, publication_count: int) -> pricing.Arrivals:
    """Room for the publication that arrives at most places."""
    per_channel = np.maximum(design.trees.edge_counts, design.trees.members.lengths) + 2
    needed = np.bincount(entries.publication, per_channel[entries.channel], publication_count)
    room = int(needed.max(initial=1))
    return pricing.Arrivals(
        np.zeros(1, np.int64),
        np.zeros(room, np.int32),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.bool_),
        np.zeros(room, np.bool_),
    )
