"""Content trees (Majumder, Shrivastava, Rastogi and Srinivasan): groups of subscriptions on low-stretch trees.

Brokers form a given network. Subscriptions that match the same documents share a group, every group has a spanning
tree of low stretch over what its documents need, and brokers forward only where somebody interested lies beyond. A
coordinator samples documents and replaces the trees when that saves enough. Left out: nothing of the paper; added are
the choice of the number of groups on held-out documents, and repair when brokers fail.
"""

from __future__ import annotations

from coterie.model import Workload
from coterie.protocol.system import Stages, System, beats_on_links
from coterie.substrate.steiner import NODES_MAX
from coterie.systems.content.messages import MESSAGES
from coterie.systems.content.node import ContentNode
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.stages import given_network, group_subscriptions, route_documents

TOPICS_MAX = 200_000  # plain topics: beyond, placing each with the group most like it takes minutes


def fits(workload: Workload) -> bool:
    """Brokers whose shortest paths fit in memory; without content, topics up to a number."""
    return workload.node_count <= NODES_MAX and (workload.content is not None or workload.topic_count <= TOPICS_MAX)


SYSTEM = System(
    name="content",
    title="Content trees",
    paper="Majumder, Shrivastava, Rastogi, Srinivasan: Scalable Content-Based Routing in Pub/Sub Systems",
    parameters=ContentParameters,
    stages=Stages(
        channels=group_subscriptions,
        overlay=given_network,
        trees=route_documents,
        # Trees run on the links of the network, so one heartbeat per link serves all of them.
        upkeep=beats_on_links,
    ),
    node=ContentNode,
    messages=MESSAGES,
    fits=fits,
)
