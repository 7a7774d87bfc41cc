"""Coterie: the best of each column. Who likes the same sits together, nodes with a topic in common hang together.

Clients are placed by balanced hypergraph partitioning (after DYNATOPS), publishers counted; links are the fewest that
greedy merging finds to connect the interested nodes of every topic (after SpiderCast), and events follow content trees
over these links, which then pass through nobody who does not want them. Left out: nothing is invented here, the
columns are the papers'; as long as nobody has subscribed, or where a network is given, this is content trees on that
network.
"""

from __future__ import annotations

from dataclasses import replace

from coterie.errors import ConfigError
from coterie.kernels.placement.search import MOVES
from coterie.kernels.placement.solve import SMALL_PINS, Start
from coterie.model import Channels, Entries, Overlay, Placement, Trees, Workload
from coterie.model.design import Upkeep
from coterie.model.graph import BrokerGraph
from coterie.protocol.system import Stages, System
from coterie.substrate.placing import Balance, Placed, placed
from coterie.systems import content
from coterie.systems.content.messages import MESSAGES
from coterie.systems.content.node import ContentNode
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.plan import group_subscriptions, network_of, route_documents
from coterie.systems.dynatops.placement import place_by_similarity
from coterie.systems.spidercast.greedy import greedy_merge, lean
from coterie.systems.spidercast.system import with_contacts

PLACEMENTS = ("hypergraph", "given")


class CoterieParameters(ContentParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those of content trees, and how users are placed and nodes linked."""

    placement: str = "hypergraph"  # or as given
    imbalance: float = 0.1  # how far above the mean number of clients a node may be
    message_imbalance: float = 0.3  # and above the mean of messages handled for clients
    coverage: int = 0  # neighbours that each interest of a node should have at least; 0: what connects is enough

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.placement not in PLACEMENTS:
            raise ConfigError("placement", self.placement, f"one of {', '.join(PLACEMENTS)}")
        for key in ("imbalance", "message_imbalance"):
            if getattr(self, key) < 0:
                raise ConfigError(key, getattr(self, key), "at least 0")
        if self.coverage < 0:
            raise ConfigError("coverage", self.coverage, "at least 0")


def place_together(workload: Workload, parameters: CoterieParameters, seed: int) -> Placement:
    """Clients by what they want and publish; a peer is its node and stays."""
    if parameters.placement == "given" or not workload.interests.pair_count or workload.is_peer_network:
        return Placement(workload.attachment, workload.node_count)
    return Placement(placing(workload, parameters, seed).node_of, workload.node_count)


def placing(workload: Workload, parameters: CoterieParameters, seed: int) -> Placed:
    """The placement with what it saves, who moves, and who makes the stated balance impossible."""
    balance = Balance(parameters.imbalance, parameters.message_imbalance)
    starts = list[Start]()
    if workload.interests.pair_count <= SMALL_PINS:  # of use where interests have no groups
        starts.append((place_by_similarity(workload, workload.node_count, load_weight=1.0, rounds=2), MOVES[2:]))
    return placed(workload, balance, seed, starts=starts)


def interest_graph(workload: Workload, placement: Placement, parameters: CoterieParameters, seed: int) -> BrokerGraph:
    """Links that keep the interested nodes of every topic in one piece, and a few more so that all nodes are."""
    interests = workload.node_interests(placement.node_of)
    if workload.graph is not None or not interests.pair_count:
        return network_of(workload, parameters, seed)
    links = lean(interests, parameters.coverage, seed) if parameters.coverage else greedy_merge(interests, seed)
    whole = with_contacts(links, seed)
    return BrokerGraph.of(workload.node_count, whole.rows, whole.columns)


def group_on_graph(workload: Workload, placement: Placement, parameters: CoterieParameters, seed: int) -> Channels:
    on_graph = replace(workload, graph=interest_graph(workload, placement, parameters, seed))
    return group_subscriptions(on_graph, placement, parameters, seed)


def link_by_interest(
    workload: Workload, placement: Placement, channels: Channels, parameters: CoterieParameters, seed: int
) -> Overlay:
    return Overlay(interest_graph(workload, placement, parameters, seed).neighbours)


def trees_on_links(
    workload: Workload, placement: Placement, channels: Channels, overlay: Overlay, parameters: CoterieParameters,
    seed: int,
) -> tuple[Trees, Entries]:  # fmt: skip
    graph = workload.graph or BrokerGraph.of(workload.node_count, overlay.links.rows, overlay.links.columns)
    return route_documents(replace(workload, graph=graph), placement, channels, overlay, parameters, seed)


SYSTEM = System(
    name="coterie",
    title="Coterie: placed by interest, linked by interest, content trees on top",
    paper="(ours, from DYNATOPS, SpiderCast and content trees)",
    parameters=CoterieParameters,
    stages=Stages(
        placement=place_together,
        channels=group_on_graph,
        overlay=link_by_interest,
        trees=trees_on_links,
        imbalance=lambda parameters: parameters.imbalance if parameters.placement == "hypergraph" else None,
        upkeep=lambda parameters: Upkeep(tree=0.0, link=1 / parameters.link_heartbeat_s),
    ),
    node=ContentNode,
    messages=MESSAGES,
    fits=content.fits,
)
