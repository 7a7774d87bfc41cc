"""SpiderCast as a row of the table: its overlay and floods as columns of a design, and its node.

Left out of the paper's text: dissemination. Here an event floods its topic over the links between members; from outside
it walks to a member (`entry`). What nodes do beyond the paper is in `partitions` and `greedy`.
"""

from __future__ import annotations

import numpy as np

from coterie.accounting.changes import node_wishes
from coterie.model import Channels, Entries, Overlay, Placement, Relation, Spread, Trees, Workload
from coterie.protocol.system import Stages, System, beats_on_links
from coterie.systems.spidercast import baselines, coverage, greedy
from coterie.systems.spidercast.entries import entries_of
from coterie.systems.spidercast.messages import MESSAGES
from coterie.systems.spidercast.node import SpiderCastNode
from coterie.systems.spidercast.parameters import SpiderCastParameters

SETTLES_S = 3.0  # interest is told, neighbours are found by gossip and asked: no node knows when it is connected


def links_of(interests: Relation, parameters: SpiderCastParameters, seed: int) -> Relation:
    """The overlay by name, links in both directions."""
    if parameters.links == "lean":
        return greedy.lean(interests, parameters.k_greedy, seed, parameters.bare_share, parameters.search_rounds)
    if parameters.links == "two-connected":
        return greedy.two_connected(interests, seed)
    if parameters.links == "greedy-merge":
        return greedy.greedy_merge(interests, seed)
    if parameters.links == "ring-per-topic":
        return baselines.ring_per_topic(interests)
    links = coverage.build(interests, parameters, seed).links()
    # Coverage connects topics with high probability only; what nodes would find and heal is healed here as well.
    return links if parameters.links == "similarity" else greedy.joined(interests, links, seed)


def overlay(
    workload: Workload, placement: Placement, channels: Channels, parameters: SpiderCastParameters, seed: int
) -> Overlay:
    interests = workload.node_interests(placement.node_of)
    links = links_of(interests, parameters, seed)
    return Overlay(with_contacts(links, seed))


def with_contacts(links: Relation, seed: int) -> Relation:
    """One link more for every part of the overlay but the largest, so that gossip and publishers reach everybody."""
    count = links.row_count
    part = baselines.parts(links)
    sizes = np.bincount(part, minlength=count)
    largest = np.flatnonzero(part == int(np.argmax(sizes)))
    others = np.flatnonzero((sizes > 0) & (np.arange(count) != part[largest[0]]))
    if len(others) == 0:
        return links
    _, first = np.unique(part, return_index=True)
    lowest = np.sort(first[part[first] != part[largest[0]]])
    contact = largest[np.random.default_rng([seed, 7]).integers(len(largest), size=len(lowest))]
    rows = np.concatenate([links.rows, lowest, contact])
    columns = np.concatenate([links.columns, contact, lowest])
    return Relation.from_pairs(rows, columns, count, count)


def floods(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: SpiderCastParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    members = workload.node_interests(placement.node_of).transposed
    publisher_node = placement.node_of[workload.publications.publisher]
    entries = entries_of(members, overlay.undirected, publisher_node, workload.publications.topic)
    return Trees.without_edges(Spread.FLOOD, members), entries


def told_to_neighbours(
    workload: Workload, placement: Placement, overlay: Overlay, parameters: SpiderCastParameters
) -> float:
    """Neighbours are told of every change of interest (section 2.4); what links then come and go is left out."""
    return node_wishes(workload, placement.node_of).pair_count * float(overlay.degrees.mean())


SYSTEM = System(
    name="spidercast",
    title="SpiderCast: one topic-connected overlay",
    paper="Chockler, Melamed, Tock, Vitenberg: SpiderCast, DEBS 2007",
    parameters=SpiderCastParameters,
    stages=Stages(
        overlay=overlay,
        trees=floods,
        upkeep=beats_on_links,
        announcements=told_to_neighbours,
    ),
    node=SpiderCastNode,
    messages=MESSAGES,
    settles_s=SETTLES_S,
)
