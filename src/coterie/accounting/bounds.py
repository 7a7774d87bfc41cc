"""What no design can beat on a workload, column by column, so that every bill reads as a distance to the possible.

The ledger of bounds uses the ledger's own shape; a column for which we know no bound but zero stays 0. These bounds
belong to one placement; `placement_bound` has one over all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from coterie.accounting import topic_links
from coterie.accounting.price import local_audience
from coterie.accounting.tally import upkeep_bytes
from coterie.model import Ledger, Publications, Relation, Workload
from coterie.model.design import Upkeep
from coterie.model.ledger import (
    Crossing,
    Delay,
    Dissemination,
    Distribution,
    Load,
    Loss,
    Maintenance,
    State,
    Topics,
    Volume,
)
from coterie.model.relation import Index
from coterie.model.wires import COTERIE, MQTT, Wire

LINK_STEPS_MAX = 2e8
LINK_CLIMB, CLIMB_STEPS_MAX = 10, 1e7  # steps; a few seconds at most
HEARTBEATS = Upkeep()


def lower_bounds(
    workload: Workload, node_of: Index | None = None, wire: Wire = COTERIE, upkeep: Upkeep = HEARTBEATS
) -> Ledger:
    """Bounds for the placement given (by default the workload's own) and links that beat as often as `upkeep` says."""
    placed = workload.attachment if node_of is None else node_of
    audience, deliveries = local_audience(workload, placed)
    publications = workload.publications
    rate, source = publications.rate, placed[publications.publisher]
    at_home, at = _where_published(audience, publications, source, workload.node_count)
    # Every interested node but the publisher's must receive one copy of each event.
    copies = (audience.lengths[publications.topic] - at_home) * rate
    names = workload.name_bytes[publications.topic]
    copy_bytes = wire.event + wire.topics_in_event * names + publications.size
    per_event = np.bincount(audience.rows, deliveries, workload.topic_count)[publications.topic]
    owed = float((per_event * rate).sum())
    own = float((deliveries[at[at_home]] * rate[at_home]).sum()) if len(deliveries) else 0.0
    links = _needed_links(audience, publications, source, workload.node_count)
    beats = Maintenance(link_keepalives=links * upkeep.link)
    handled = (float(rate.sum()) + owed + 2 * float(copies.sum())) / workload.node_count
    crossing = _crossing(workload, audience, source)
    return Ledger(
        maintenance=beats,
        dissemination=Dissemination(wanted=float(copies.sum())),
        volume=Volume(
            wanted=float((copies * copy_bytes).sum()),
            upkeep=upkeep_bytes(beats, wire),
            delivered=float((per_event * rate * (MQTT.event + names + publications.size)).sum()),
        ),
        # A delivery away from the publisher's node crosses at least one link.
        delay=Delay(hops=Distribution(mean=(owed - own) / owed if owed else 0.0, max=float(copies.sum() > 0))),
        state=State(links=links, degree=Distribution(mean=2 * links / workload.node_count)),
        crossing=Crossing(copies=float((crossing * rate).sum()), bytes=float((crossing * rate * copy_bytes).sum())),
        load=Load(messages=Distribution(mean=handled, max=handled)),
        topics=Topics(links=_connecting_links(audience)),
        loss=Loss(owed=owed, delivered=owed),
    )


def _where_published(
    audience: Relation, publications: Publications, source: Index, node_count: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Per publication: whether the publisher's own node wants it, and at which pair of the audience that stands."""
    pairs = publications.topic.astype(np.int64) * node_count + source
    wanting = audience.rows.astype(np.int64) * node_count + audience.columns
    at = np.minimum(np.searchsorted(wanting, pairs), max(len(wanting) - 1, 0))
    return np.isin(pairs, wanting), at


def _needed_links(audience: Relation, publications: Publications, source: Index, node_count: int) -> float:
    """Who publishes and who wants must be connected, through whomever: a forest has nodes - pieces links."""
    heard = publications.rate > 0
    topic = np.concatenate([audience.rows, publications.topic[heard]]).astype(np.int64)
    node = np.concatenate([audience.columns, source[heard]]).astype(np.int64)
    published = np.bincount(publications.topic[heard], minlength=audience.row_count) > 0
    used = published[topic] & (audience.lengths[topic] > 0)
    topic, node = topic[used], node[used]
    if not len(topic):
        return 0.0
    size = node_count + audience.row_count
    ties = csr_array((np.ones(len(topic)), (node, node_count + topic)), shape=(size, size))
    _, piece = connected_components(ties, directed=False)
    taking_part = np.unique(node)
    return float(len(taking_part) - len(np.unique(piece[taking_part])))


def _crossing(workload: Workload, audience: Relation, source: Index) -> NDArray[np.int64]:
    """Zones besides its own that each publication must reach."""
    publications, zone_of = workload.publications, workload.zone_of
    if zone_of is None:
        return np.zeros(publications.count, np.int64)
    zones = int(zone_of.max(initial=0)) + 1
    wanted = np.unique(audience.rows.astype(np.int64) * zones + zone_of[audience.columns])
    per_topic = np.bincount(wanted // zones, minlength=workload.topic_count)
    at_home = np.isin(publications.topic.astype(np.int64) * zones + zone_of[source], wanted)
    return per_topic[publications.topic] - at_home


def _connecting_links(audience: Relation) -> float:
    """For overlays in which every topic's nodes are connected among themselves; 0 where it takes too long to tell."""
    step = float((audience.lengths**2).sum())
    if step > LINK_STEPS_MAX:
        return 0.0
    degree = topic_links.connected_degree(audience.transposed, LINK_CLIMB if step < CLIMB_STEPS_MAX else 0)
    return float(np.ceil(degree * audience.column_count / 2 - 1e-6))


def free_placement_copies(workload: Workload, capacity: int) -> float:
    """Copies between nodes if subscribers could sit anywhere, at most `capacity` a node: rate x (ceil(n / c) - 1)."""
    audience_sizes = np.bincount(workload.interests.columns, minlength=workload.topic_count)
    nodes_needed = np.maximum(-(-audience_sizes // capacity), 1)
    return float((workload.rates * (nodes_needed - 1)).sum())
