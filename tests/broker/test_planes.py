"""Changing plans: what is wanted is wanted in both, the old one drains, and a node comes back by the plan in force."""

from __future__ import annotations

from coterie.broker.commands import LoadPlan, StartPlan, SwitchPlan
from coterie.broker.facts import PeerUp
from coterie.broker.planes import DRAIN_S, QUIET_S
from coterie.broker.settings import NetworkSection, PeerEntry
from coterie.model.plan import Neighbour, Slice
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


def test_a_plan_is_not_ready_before_the_others_have_heard_what_is_wanted() -> None:
    node = Driven(setup(network=NetworkSection(peers=PEERS)))
    node.take(PeerUp(1))
    node.say(node.client("c"), Subscribe(1, (Subscription("t", 1),)))
    node.command(
        LoadPlan(PlanPart(generation=1, slice=Slice(version=2, system="mesh", node=0, neighbours=(Neighbour(1),))))
    )
    node.command(StartPlan(1))
    node.wait(2 * QUIET_S)
    assert not node.broker.planes.is_ready  # nothing new is said, but node 1 has not answered
    node.wait(5.0)
    assert node.broker.planes.is_ready  # it is not waited for for ever


def test_the_plan_says_who_coordinates() -> None:
    def told(coordinator: int) -> int:
        """How many messages of the next plan leave for node 1 before anybody has answered."""
        node = Driven(setup(network=NetworkSection(peers=PEERS)))
        node.take(PeerUp(1))
        plan = Slice(
            version=2, system="content", node=0, neighbours=(Neighbour(1),), settings={"coordinator": coordinator}
        )
        node.command(LoadPlan(PlanPart(generation=1, slice=plan)))
        node.command(StartPlan(1))
        node.wait(1.0)
        assert node.broker.planes.next is not None
        return node.broker.planes.next.sent.total()

    assert told(0) == 0
    assert told(1) > 0
