"""Price a design under a workload: the ledger it would show if it ran for one interval without faults."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.accounting.changes import interest_changes, node_wishes
from coterie.accounting.tally import Standing, Tally, structure_state
from coterie.errors import ConfigError
from coterie.kernels.links import measures as spidercast_measures
from coterie.kernels.pricing import arriving
from coterie.kernels.pricing import publications as pricing
from coterie.model import Design, Entries, Ledger, Overlay, Relation, Spread, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import Control, Maintenance, SetupCost, State, Topics
from coterie.model.relation import Index
from coterie.model.wires import COTERIE, MQTT, Wire

TOPIC_STEPS_MAX = 3e9
MOVE_COPIES = 30  # what a client that moves costs, in copies: a new connection, its subscriptions, its session
NEAREST = 20  # d of tdi(d)

SPREAD_CODES = {
    Spread.DIRECT: pricing.DIRECT,
    Spread.ROOTED: pricing.ROOTED,
    Spread.FLOOD: pricing.FLOOD,
    Spread.FILTERED: pricing.FILTERED,
    Spread.THROUGH: pricing.THROUGH,
}


def price(design: Design, workload: Workload, latency: Latency | None = None, wire: Wire = COTERIE) -> Ledger:
    """The whole bill, per second; `wire` says how many bytes a message takes."""
    tally = count_dissemination(design, workload, latency or Latency.constant(), wire)
    return tally.ledger(structure(design, workload, wire), wire)


def structure(design: Design, workload: Workload, wire: Wire) -> Standing:
    """All of the bill that is no count of events."""
    placement = design.placement
    messages = set_up_messages(design)
    names = float(workload.name_bytes.mean()) if workload.topic_count else 0.0
    moves = float(np.count_nonzero(placement.node_of != workload.attachment[: len(placement.node_of)]))
    return Standing(
        maintenance=maintenance(design),
        control=control(design, workload, messages),
        state=state(design),
        topics=topics(design.trees.spread, design.trees.members, design.overlay.undirected),
        setup=SetupCost(
            messages=messages,
            bytes=messages * (wire.announcement + names) + moves * MOVE_COPIES * mean_copy_bytes(workload, wire),
            moves=moves,
        ),
        wish_bytes=names,
        crossing_links=crossing_share(design.overlay, workload.zone_of),
        clients=placement.load,
    )


def mean_copy_bytes(workload: Workload, wire: Wire) -> float:
    publications = workload.publications
    events = float(publications.rate.sum())
    if not events:
        return 0.0
    size = wire.topics_in_event * workload.name_bytes[publications.topic] + publications.size
    return wire.event + float((publications.rate * size).sum()) / events


def maintenance(design: Design) -> Maintenance:
    upkeep = design.upkeep
    return Maintenance(
        tree_keepalives=upkeep.tree * float(len(design.trees.node)),
        link_keepalives=upkeep.link * float(design.overlay.entry_counts.sum()),
        associations=upkeep.associations,
    )


def set_up_messages(design: Design) -> float:
    """What building the structures takes: what the system says itself, else one join message per tree edge."""
    return float(len(design.trees.node)) if design.announcements is None else design.announcements


def control(design: Design, workload: Workload, set_up: float) -> Control:
    """Each change of what a node wants costs what one wish cost on average when all was set up."""
    changes = interest_changes(workload, design.placement.node_of)
    wishes = (
        design.trees.members.pair_count
        if workload.wishes is None
        else node_wishes(workload, design.placement.node_of).pair_count
    )
    return Control(subscription=changes * set_up / wishes if wishes else 0.0)


def crossing_share(overlay: Overlay, zone_of: Index | None) -> float:
    """Of the links, implicit ones included."""
    if not overlay.is_complete or zone_of is None or overlay.node_count < 2:
        return crossing_links(overlay.undirected, zone_of)
    sizes = np.bincount(zone_of).astype(np.float64)
    pairs = overlay.node_count * (overlay.node_count - 1.0)
    return float(1 - (sizes * (sizes - 1)).sum() / pairs)


def crossing_links(links: Relation, zone_of: Index | None) -> float:
    if zone_of is None or not links.pair_count:
        return 0.0
    return float(np.mean(zone_of[links.rows] != zone_of[links.columns]))


def state(design: Design) -> State:
    trees = design.trees
    ends = np.concatenate([trees.node, trees.parent])
    tree_entries = np.bincount(ends, minlength=design.node_count)
    if trees.is_announced:  # each node keeps what all the others want
        tree_entries += trees.members.pair_count - np.bincount(trees.members.columns, minlength=design.node_count)
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


def count_dissemination(design: Design, workload: Workload, latency: Latency, wire: Wire) -> Tally:
    """Follow every publication; see kernels.pricing.publications."""
    publications = workload.publications
    names = workload.name_bytes[publications.topic]
    node_of = design.placement.node_of
    entries = _grouped(design.entries)
    audience, local_deliveries = local_audience(workload, node_of)
    counters = np.zeros((2, pricing.COUNTER_COUNT))
    tally = Tally(load=np.zeros(design.node_count), us_weights=np.zeros(pricing.US_BINS))
    np.add.at(tally.load, node_of[publications.publisher], publications.rate)
    zone_of = np.zeros(design.node_count, np.int32) if workload.zone_of is None else workload.zone_of
    relay_zones = zone_of if design.overlay.zone_of is None else design.overlay.zone_of
    hop_weights = np.zeros(design.node_count + int(entries.hop_counts.sum(initial=0)) + 2)
    pricing.price_publications(
        SPREAD_CODES[design.trees.spread],
        publications.topic,
        publications.rate,
        wire.event + wire.topics_in_event * names + publications.size,
        MQTT.event + names + publications.size,
        arriving.Csr(audience.indptr, audience.columns),
        local_deliveries,
        _structure(design, workload),
        arriving.Flows(tally.load, zone_of, tally.crossing),
        _paths(entries, publications.count),
        arriving.Delays(
            latency.kind, latency.base_us, latency.matrix_us, latency.coordinates, float(latency.us_per_unit)
        ),
        _scratch(design.node_count, design.overlay.undirected.pair_count, int(relay_zones.max(initial=0)) + 1),
        _arrivals(design, entries, publications.count),
        counters,
        hop_weights,
        tally.us_weights,
    )
    tally.hop_weights = hop_weights
    columns = (
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
    for name, value in zip(columns, counters[0], strict=True):
        setattr(tally, name, float(value))
    for name, value in zip(columns, counters[1], strict=True):
        if name in tally.volume:
            tally.volume[name] = float(value)
    return tally


def local_audience(workload: Workload, node_of: Index) -> tuple[Relation, NDArray[np.float64]]:
    """Topic -> nodes with an interested client, and beside each pair how many deliveries an event makes there."""
    interests = workload.interests
    key = interests.columns.astype(np.int64) * workload.node_count + node_of[interests.rows]
    weights = workload.weights
    if weights is None:
        key.sort()
    else:
        order = np.argsort(key, kind="stable")
        key, weights = key[order], weights[order]
    first = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, bool)
    starts = np.flatnonzero(first)
    if weights is None:
        counts = np.diff(np.concatenate([starts, [len(key)]])).astype(np.float64)
    else:
        counts = np.add.reduceat(weights, starts) if len(starts) else np.zeros(0)
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


def _structure(design: Design, workload: Workload) -> arriving.Structure:
    """Events follow trees edge by edge, so these must be in order: a wrong one would be a wrong price."""
    trees = design.trees
    links = design.overlay.undirected
    graph = workload.graph
    costs = Relation.empty(design.node_count, design.node_count) if graph is None else graph.neighbours
    found = arriving.Structure(
        arriving.Csr(trees.members.indptr, trees.members.columns),
        trees.root,
        trees.indptr,
        trees.node,
        trees.parent,
        arriving.Csr(links.indptr, links.columns),
        arriving.Csr(costs.indptr, costs.columns),
        np.zeros(0) if graph is None else graph.neighbour_costs,
        trees.has_relays and design.overlay.zone_of is not None,
        np.zeros(design.node_count, np.int32) if design.overlay.zone_of is None else design.overlay.zone_of,
    )
    edge = -1
    if trees.spread in (Spread.ROOTED, Spread.FILTERED):
        edge = arriving.hanging_edge(found, np.zeros(design.node_count, np.int64))
    if edge >= 0:
        channel = int(np.searchsorted(trees.indptr, edge, side="right")) - 1
        raise ConfigError(
            f"trees of system {design.system}, channel {channel}",
            f"node {trees.node[edge]} below node {trees.parent[edge]}, which no edge before it has reached",
            "edges from the root down, parents before children",
        )
    return found


def _paths(entries: Entries, publication_count: int) -> arriving.EntryPaths:
    per_publication = np.bincount(entries.publication, minlength=publication_count)
    targets = entries.targets or Relation.empty(entries.count, 1)
    return arriving.EntryPaths(
        np.concatenate([[0], np.cumsum(per_publication)]).astype(np.int64),
        entries.channel,
        entries.after,
        arriving.Csr(entries.indptr, entries.hops),
        arriving.Csr(targets.indptr, targets.columns),
    )


def _scratch(node_count: int, link_ends: int, zone_count: int) -> arriving.Scratch:
    def per_node() -> NDArray[np.int64]:
        return np.zeros(node_count, np.int64)

    heap_size = link_ends + 2  # every link end pushes at most once
    return arriving.Scratch(
        wants=np.zeros(node_count),
        wants_stamp=per_node(),
        member_stamp=per_node(),
        reached_stamp=per_node(),
        us=per_node(),
        hops=per_node(),
        beyond=per_node(),
        heap_us=np.zeros(heap_size, np.int64),
        heap_node=np.zeros(heap_size, np.int32),
        had_stamp=per_node(),
        relay=np.zeros(zone_count, np.int32),
        relay_score=np.zeros(zone_count, np.uint64),
    )


def _arrivals(design: Design, entries: Entries, publication_count: int) -> arriving.Arrivals:
    """Room for the publication that arrives at most places."""
    per_channel = np.maximum(design.trees.edge_counts, design.trees.members.lengths) + 2
    needed = np.bincount(entries.publication, per_channel[entries.channel], publication_count)
    room = int(needed.max(initial=1))
    return arriving.Arrivals(
        np.zeros(1, np.int64),
        np.zeros(room, np.int32),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.bool_),
        np.zeros(room, np.bool_),
    )
