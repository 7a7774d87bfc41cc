"""What no design can beat on a workload, column by column, so that every bill reads as a distance to the possible.

The ledger of bounds uses the ledger's own shape; a column for which we know no bound but zero stays 0.
"""

from __future__ import annotations

import numpy as np

from coterie.accounting import topic_links
from coterie.accounting.price import local_audience
from coterie.model import Ledger, Relation, Workload
from coterie.model.ledger import Delay, Dissemination, Distribution, Loss, Maintenance, State, Topics
from coterie.model.relation import Index

LINK_STEPS_MAX = 2e8
LINK_CLIMB, CLIMB_STEPS_MAX = 10, 1e7  # steps; a few seconds at most


def lower_bounds(workload: Workload, node_of: Index | None = None) -> Ledger:
    """Bounds for the placement given (by default the workload's own); see `free_placement_copies` for a free one."""
    placed = workload.attachment if node_of is None else node_of
    audience, local_subscribers = local_audience(workload, placed)
    publications = workload.publications
    publisher_node = placed[publications.publisher]
    pairs = publications.topic.astype(np.int64) * workload.node_count + publisher_node
    wanting = audience.rows.astype(np.int64) * workload.node_count + audience.columns
    at_home = np.isin(pairs, wanting)
    # Every interested node but the publisher's must receive one copy of each event.
    copies = float(((audience.lengths[publications.topic] - at_home) * publications.rate).sum())
    subscribers = np.bincount(audience.rows, local_subscribers, workload.topic_count)
    owed = float((subscribers[publications.topic] * publications.rate).sum())
    at = np.minimum(np.searchsorted(wanting, pairs), max(len(wanting) - 1, 0))
    own = float((local_subscribers[at[at_home]] * publications.rate[at_home]).sum()) if len(wanting) else 0.0
    # A node that wants what another node wants too is on at least one edge, and an edge has two ends.
    shared = audience.columns[audience.lengths[audience.rows] > 1]
    edges = float(-(-int(np.count_nonzero(np.bincount(shared, minlength=workload.node_count))) // 2))
    return Ledger(
        maintenance=Maintenance(tree_keepalives=edges),
        dissemination=Dissemination(wanted=copies),
        # A delivery away from the publisher's node crosses at least one link.
        delay=Delay(hops=Distribution(mean=(owed - own) / owed if owed else 0.0, max=float(copies > 0))),
        state=State(links=edges, degree=Distribution(mean=2 * edges / workload.node_count)),
        topics=Topics(links=_connecting_links(audience)),
        loss=Loss(owed=owed, delivered=owed),
    )


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
