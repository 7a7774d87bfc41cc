"""DYNATOPS: users near their kind, brokers where the trees want them, changes only when they pay.

Zhao, Kim, Venkatasubramanian, DEBS 2013. Users are placed by the similarity of their subscriptions to those of a
broker; brokers take the positions on a Chord ring that make the topic routing trees cheap; a coordinator moves the
network to new positions when that saves more than it costs, with both control planes alive meanwhile. Left out: a
coordinator that is itself distributed.
"""

from __future__ import annotations

from coterie.protocol.system import Stages, System
from coterie.systems.dynatops.messages import MESSAGES
from coterie.systems.dynatops.node import DynatopsNode
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.dynatops.stages import hypergraph_imbalance, place_users, routing_trees, seat_brokers

SYSTEM = System(
    name="dynatops",
    title="DYNATOPS: similarity placement, chosen Chord positions",
    paper="Zhao, Kim, Venkatasubramanian, DEBS 2013",
    parameters=DynatopsParameters,
    stages=Stages(placement=place_users, overlay=seat_brokers, trees=routing_trees, imbalance=hypergraph_imbalance),
    node=DynatopsNode,
    messages=MESSAGES,
)
