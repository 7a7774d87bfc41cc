"""Changing plans: what is wanted is wanted in both, the old one drains, and a node comes back by the plan in force."""

from __future__ import annotations

from coterie.broker.commands import LoadPlan, StartPlan, SwitchPlan
from coterie.broker.planes import DRAIN_S
from coterie.broker.settings import NetworkSection, PeerEntry
from coterie.model.plan import Slice
from coterie.mqtt.packets import Subscribe, Subscription
from coterie.plans.orders import PlanPart
from tests.broker.driving import Driven, setup

PEERS = [PeerEntry(id=node, host="h", port=node + 1) for node in (0, 1)]
NEXT = PlanPart(generation=1, slice=Slice(version=2, system="flooding", node=0))


def started() -> Driven:
    node = Driven(setup(network=NetworkSection(peers=PEERS)))
    node.say(node.client("c"), Subscribe(1, (Subscription("t", 1),)))
    node.command(LoadPlan(NEXT))
    node.command(StartPlan(1))
    return node


def test_what_is_wanted_is_wanted_in_the_next_plan_too() -> None:
    node = started()
    assert node.broker.planes.next is not None
    assert list(node.broker.planes.next.wanting) == list(node.broker.planes.in_use.wanting)
    assert "t" in node.broker.planes.next.wanting


def test_the_old_plan_drains_and_then_it_is_gone() -> None:
    node = started()
    old = node.broker.planes.in_use
    node.command(SwitchPlan(1))
    node.wait(DRAIN_S - 1)
    assert old in list(node.broker.planes.running())
    node.wait(2)
    assert list(node.broker.planes.running()) == [node.broker.planes.in_use]


def test_a_node_comes_back_by_the_plan_in_force() -> None:
    node = started()
    node.command(SwitchPlan(1))
    again = Driven(setup(network=NetworkSection(peers=PEERS)), node.shelf, life=2)
    assert again.broker.planes.generation == 1
    assert again.broker.planes.in_use.slice == NEXT.slice
