"""The kinds of links there are to choose from, each with the trees on it: other systems' columns, under one roof.

`lean` are the fewest links that greedy merging finds to keep the interested nodes of every topic in one piece, or, with
a coverage, to have several neighbours for every interest (after SpiderCast); events follow content trees over them.
`sparse` are rings in random order, one for every two links that a node may have: no crash of a node cuts them, and no
node has more; content trees again. Where the network is given, lean means low-stretch trees on it. The others are the
systems of these names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coterie.model import Channels, Entries, Overlay, Placement, Trees, Workload
from coterie.model.graph import BrokerGraph
from coterie.protocol.system import Parameters, System
from coterie.systems import content, homes, mesh, star
from coterie.systems.content.stages import Groups, given_network, group_subscriptions, network_of, route_documents
from coterie.systems.coterie.parameters import LEAN, LINKS, SPARSE, CoterieParameters
from coterie.systems.spidercast.greedy import greedy_merge, lean, uncut
from coterie.systems.spidercast.system import with_contacts
from coterie.systems.zones import ZONED, has_zones, zoned

_PLAIN = {system.name: system for system in (mesh.SYSTEM, homes.SYSTEM, star.SYSTEM)}
KINDS: dict[str, System] = _PLAIN | {name + ZONED: zoned(system) for name, system in _PLAIN.items()}
MESH_NODES_MAX = 64  # as long as nobody knows who wants what, so many nodes are all linked to each other


def kinds_for(workload: Workload) -> list[str]:
    """What can be had on this network: a given one is kept, no peer serves all others, relays need zones."""
    fits_lean = [LEAN, SPARSE] if content.fits(workload) else []
    if workload.graph is not None or workload.content is not None:
        return fits_lean[:1]
    if workload.is_peer_network:
        return [*(["mesh", "homes"] if workload.node_count <= MESH_NODES_MAX else []), *fits_lean]
    with_relays = has_zones(workload)
    return [name for name in LINKS if name in KINDS and (with_relays or ZONED not in name)] + fits_lean


def first_links(workload: Workload, parameters: CoterieParameters) -> str:
    """As long as nobody has subscribed: a small network may still become anything, a large one should not be a mesh."""
    allowed = parameters.links_max or MESH_NODES_MAX
    if "mesh" not in kinds_for(workload) or workload.node_count - 1 > min(allowed, MESH_NODES_MAX - 1):
        return LEAN
    return "mesh" + ZONED if has_zones(workload) else "mesh"


def below(parameters: CoterieParameters, kind: str) -> Parameters:
    """The parameters of the system that these links are of."""
    shared = {"link_heartbeat_s": parameters.link_heartbeat_s, "seen_capacity": parameters.seen_capacity}
    special = {"hub": star.FEWEST_COPIES, "crossing": "wanted"} if kind.startswith("star") else {}
    return KINDS[kind].configure(shared | special)


def interest_graph(workload: Workload, placement: Placement, parameters: CoterieParameters, seed: int) -> BrokerGraph:
    """Links that keep the interested nodes of every topic in one piece, and a few more so that all nodes are."""
    interests = workload.node_interests(placement.node_of)
    if workload.graph is not None or not interests.pair_count:
        return network_of(workload, parameters, seed)
    if parameters.links == SPARSE:
        return sparse_graph(workload.node_count, parameters.links_max or parameters.degree, seed)
    links = lean(interests, parameters.coverage, seed) if parameters.coverage else greedy_merge(interests, seed)
    if parameters.coverage > 1:
        links = uncut(interests, links, seed)
    whole = with_contacts(links, seed)
    return BrokerGraph.of(workload.node_count, whole.rows, whole.columns)


def sparse_graph(count: int, degree: int, seed: int) -> BrokerGraph:
    """Rings in random order; one at least."""
    draw = np.random.default_rng([seed, count, degree])
    rings = [draw.permutation(count) for _ in range(max(degree // 2, 1))]
    return BrokerGraph.of(count, np.concatenate(rings), np.concatenate([np.roll(ring, 1) for ring in rings]))


@dataclass(frozen=True, eq=False)
class OnLinks(Groups):
    """Groups with the links that their trees were learned on, which take long to find."""

    graph: BrokerGraph


def channels_on(workload: Workload, placement: Placement, parameters: CoterieParameters, seed: int) -> Channels:
    kind = parameters.known_links
    if kind in KINDS:
        return KINDS[kind].stages.channels(workload, placement, below(parameters, kind), seed)
    graph = interest_graph(workload, placement, parameters, seed)
    found = group_subscriptions(replace(workload, graph=graph), placement, parameters, seed)
    return OnLinks(found.topics, found.strategy, graph) if isinstance(found, Groups) else found


def links_between(
    workload: Workload, placement: Placement, channels: Channels, parameters: CoterieParameters, seed: int
) -> Overlay:
    kind = parameters.known_links
    if kind in KINDS:
        return KINDS[kind].stages.overlay(workload, placement, channels, below(parameters, kind), seed)
    known = channels.graph if isinstance(channels, OnLinks) else None
    graph = known or interest_graph(workload, placement, parameters, seed)
    return given_network(replace(workload, graph=graph), placement, channels, parameters, seed)


def trees_on(
    workload: Workload, placement: Placement, channels: Channels, overlay: Overlay, parameters: CoterieParameters,
    seed: int,
) -> tuple[Trees, Entries]:  # fmt: skip
    kind = parameters.known_links
    if kind in KINDS:
        stages = KINDS[kind].stages
        return stages.trees(workload, placement, channels, overlay, below(parameters, kind), seed)
    graph = workload.graph or BrokerGraph.of(workload.node_count, overlay.links.rows, overlay.links.columns)
    return route_documents(replace(workload, graph=graph), placement, channels, overlay, parameters, seed)


def coordinator_of(trees: Trees, node_count: int, asked: int) -> int:
    """Who may be away without cutting a tree: the one asked for if it is at the end of every tree, else who is.

    While a coordinator is away, nobody else mends what passes through it.
    """
    channel = np.repeat(np.arange(len(trees.indptr) - 1), np.diff(trees.indptr))
    ends = np.concatenate([trees.node, trees.parent]).astype(np.int64)
    key = np.concatenate([channel, channel]) * node_count + ends
    found, count = np.unique(key, return_counts=True)
    inner = np.zeros(node_count, bool)
    inner[found[count > 1] % node_count] = True
    return asked if not inner[asked] or inner.all() else int(np.argmin(inner))


def announced_on(
    workload: Workload, placement: Placement, overlay: Overlay, parameters: CoterieParameters
) -> float | None:
    """None: one message per tree edge."""
    kind = parameters.known_links
    told = KINDS[kind].stages.announcements if kind in KINDS else None
    return None if told is None else told(workload, placement, overlay, below(parameters, kind))
