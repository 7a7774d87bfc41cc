"""Coterie: placed by interest, and linked as the bill says: mesh, homes, star, zone relays, or lean links with trees.

Among tens of brokers the gain is in who sits where, and a mesh, topic homes or a star are the right links; among
thousands of peers lean links are (after SpiderCast), with content trees on them. Clients are placed by balanced
hypergraph partitioning (after DYNATOPS), publishers and zones counted. Limits say what the links must keep to: hops,
milliseconds, links at a node, what a crash may cut, moves. Left out: nothing is invented here, the columns are the
papers' and those of what people run; new are the choice and its limits.
"""

from __future__ import annotations

from coterie.protocol.system import System, beats_on_links
from coterie.systems.content.messages import MESSAGES
from coterie.systems.coterie.choosing import ChoosingStages
from coterie.systems.coterie.links import (
    KINDS,
    announced_on,
    channels_on,
    interest_graph,
    kinds_for,
    links_between,
    trees_on,
)
from coterie.systems.coterie.node import CoterieNode
from coterie.systems.coterie.parameters import CoterieParameters
from coterie.systems.coterie.placement import place_in_blocks, place_together, placing

__all__ = ["SYSTEM", "CoterieParameters", "interest_graph", "place_together", "placing"]

SYSTEM = System(
    name="coterie",
    title="Coterie: placed by interest, linked as the bill says",
    paper="(ours, from DYNATOPS, SpiderCast, content trees and what people run)",
    parameters=CoterieParameters,
    stages=ChoosingStages(
        placement=place_together,
        channels=channels_on,
        overlay=links_between,
        trees=trees_on,
        announcements=announced_on,
        imbalance=lambda parameters: parameters.imbalance if parameters.placement == "hypergraph" else None,
        in_blocks=place_in_blocks,
        upkeep=beats_on_links,
    ),
    node=CoterieNode,
    messages=tuple(dict.fromkeys((*MESSAGES, *(message for kind in KINDS.values() for message in kind.messages)))),
    fits=lambda workload: bool(kinds_for(workload)),
)
