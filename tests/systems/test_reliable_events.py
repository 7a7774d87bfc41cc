"""The keeper of events: who acknowledges when, what is offered again, and what a quiet network pays for it."""

from __future__ import annotations

from random import Random

import pytest

from coterie.model.plan import Topic, slices
from coterie.protocol.events import Event, Send
from coterie.protocol.node import OverlayNode
from coterie.protocol.wire import SystemMessage
from coterie.sim.engine import Simulation
from coterie.sim.faults import Weather
from coterie.sim.run import subscribe_all
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.reliable_events import ACKNOWLEDGE, RETRY, Keeper, Offer, Replay, Status
from coterie.trace import Traffic
from tests.conftest import small_workload

EVENT = Event(7, 1)


class Place(OverlayNode):
    """A broker with one tree, written down by hand."""

    def __init__(self, parent: int | None, children: tuple[int, ...], next_to_root: int | None) -> None:
        super().__init__(0, Random(0))
        self.parent, self.children, self.next = parent, children, next_to_root
        self.spread: dict[int, None] = {}
        self.wants = True
        self.keeper = Keeper(self, self, retry_s=1.0, retention_s=100.0, capacity=5)

    def children_of(self, topic: Topic) -> tuple[int, ...]:
        return self.children

    def parent_of(self, topic: Topic) -> int | None:
        return self.parent

    def next_to_root(self, topic: Topic) -> int | None:
        return self.next

    def has_spread(self, event_id: int) -> bool:
        return event_id in self.spread

    def spread_as_root(self, event: Event, hops: int, age_s: float) -> None:
        self.take(event, None)

    def take(self, event: Event, source: int | None) -> None:
        self.spread[event.id] = None
        self.keeper.spread(event, 1, source, [child for child in self.children if child != source], 0.0, self.wants)

    def said(self, timer: object = ACKNOWLEDGE, later_s: float = 0.0) -> list[tuple[int, SystemMessage]]:
        self.now_s += later_s
        self.keeper.on_timer(timer)  # type: ignore[arg-type]
        sent = [(peer, effect.message) for effect in self._effects if isinstance(effect, Send) for peer in effect.to]
        self._effects = []
        return sent


def test_a_child_acknowledges_when_everybody_below_has_it() -> None:
    place = Place(parent=1, children=(2, 3), next_to_root=1)
    place.take(EVENT, source=1)
    assert place.said() == []
    place.keeper.on_message(2, Status(False, done=(7,)))
    assert place.said() == []
    place.keeper.on_message(3, Status(False, done=(7,)))
    assert place.said() == [(1, Status(False, done=(7,)))]
    assert place.said(RETRY, later_s=1.0) == []


def test_a_relay_with_nobody_below_does_not_vouch_for_an_event() -> None:
    place = Place(parent=1, children=(), next_to_root=1)
    place.wants = False
    place.take(EVENT, source=1)
    place.keeper.on_message(1, Offer(False, (7,)))
    assert place.said() == [(1, Status(False, holds=(7,)))]


def test_only_what_is_lacking_is_sent_again() -> None:
    place = Place(parent=1, children=(2, 3), next_to_root=1)
    place.take(EVENT, source=1)
    assert place.said(RETRY, later_s=1.0) == [(2, Offer(False, (7,))), (3, Offer(False, (7,)))]
    place.keeper.on_message(2, Status(False, holds=(7,)))
    assert place.said() == []
    place.keeper.on_message(3, Status(False, lacks=(7,)))
    assert place.said() == [(3, Replay(EVENT, 2, False, 1.0))]


def test_the_root_confirms_only_what_somebody_else_has_too() -> None:
    root = Place(parent=None, children=(), next_to_root=None)
    root.keeper.carry(EVENT, 1, source=9)
    root.take(EVENT, source=None)
    root.keeper.on_message(9, Offer(True, (7,)))
    assert root.said() == [(9, Status(True, holds=(7,)))]
    root.children = (4,)
    root.keeper.gained_child(1, 4, back_s=50.0)
    assert root.said(RETRY, later_s=1.0) == [(4, Offer(False, (7,)))]
    root.keeper.on_message(4, Status(False, done=(7,)))
    assert root.said() == [(9, Status(True, done=(7,)))]


def test_a_new_child_is_offered_no_more_than_it_wants_and_a_new_parent_everything() -> None:
    place = Place(parent=1, children=(), next_to_root=1)
    place.take(EVENT, source=1)
    place.said()
    place.now_s = 10.0
    place.children = (5,)
    place.keeper.gained_child(1, 5, back_s=2.0)
    assert place.said(RETRY, later_s=1.0) == []
    place.parent = 6
    place.keeper.gained_parent(1, 6)
    assert place.said(RETRY, later_s=1.0) == [(6, Offer(False, (7,)))]
    place.keeper.on_message(6, Status(False, holds=(7,)))
    assert place.said(RETRY, later_s=9.0) == []


def test_who_carries_an_event_brings_it_to_whoever_leads_to_the_root_now() -> None:
    place = Place(parent=None, children=(), next_to_root=3)
    assert place.keeper.carry(EVENT, 0, source=None)
    assert not place.keeper.carry(EVENT, 2, source=8)
    place.next = 4
    place.keeper.lost(3)
    assert (4, Offer(True, (7,))) in place.said(RETRY, later_s=1.0)
    place.next = None
    place.said(RETRY, later_s=5.0)
    assert place.has_spread(7)


def test_a_lost_child_delays_the_acknowledgement() -> None:
    """Those below it have yet to find a new parent, and may find it elsewhere."""
    place = Place(parent=1, children=(2,), next_to_root=1)
    place.take(EVENT, source=1)
    place.children = ()
    place.keeper.lost(2)
    assert place.said() == []
    place.said(RETRY, later_s=60.0)
    assert place.said() == []


def test_what_is_kept_is_bounded_in_number_and_time() -> None:
    place = Place(parent=None, children=(), next_to_root=2)
    for event_id in range(20):
        place.keeper.carry(Event(event_id, event_id), 0, source=None)
    assert len(place.keeper) == 5
    place.said(RETRY, later_s=101.0)
    assert len(place.keeper) == 0


def network(reliable: bool, seed: int = 3) -> Simulation:
    workload = small_workload(14, 5, seed)
    parameters = DynatopsParameters(placement="given", positions="hash", reliable=reliable)
    design = SYSTEM.plan(workload, parameters, seed)
    simulation = Simulation(SYSTEM, parameters, slices(design), seed, through_wire=True)
    simulation.start()
    subscribe_all(simulation, design.placement.node_of, workload.interests)
    simulation.settle(5.0, 1000.0)
    return simulation


def publish_everywhere(simulation: Simulation, rounds: int) -> None:
    for number in range(rounds * 14):
        due_s = simulation.now_s + number * 0.1
        simulation.at(due_s, lambda number=number: simulation.publish(number % 14, number % 5))


def test_a_quiet_network_carries_not_one_copy_more() -> None:
    sent = []
    for reliable in (True, False):
        simulation = network(reliable)
        publish_everywhere(simulation, rounds=5)
        simulation.run_until(simulation.now_s + 700.0)
        assert not simulation.book.missing()
        sent.append({traffic: count for traffic, count in simulation.book.sent.items() if traffic != "acknowledgement"})
    assert sent[0] == sent[1]
    assert sent[0][Traffic.EVENT] > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_third_of_all_messages_may_vanish(seed: int) -> None:
    simulation = network(reliable=True, seed=seed)
    simulation.inject(Weather(simulation.now_s, loss=0.3, duplication=0.1, jitter_s=0.5))
    publish_everywhere(simulation, rounds=5)
    simulation.run_until(simulation.now_s + 400.0)
    assert simulation.book.missing() == []


def test_who_comes_late_is_not_handed_the_past() -> None:
    simulation = network(reliable=True)
    publish_everywhere(simulation, rounds=2)
    simulation.run_until(simulation.now_s + 30.0)
    copies = simulation.book.sent[Traffic.EVENT]
    node = next(node for node in range(14) if 0 not in simulation.book.wanting[node])
    simulation.subscribe(node, 0)
    simulation.run_until(simulation.now_s + 60.0)
    assert simulation.book.sent[Traffic.EVENT] == copies
    assert not any(published.had[node] for published in simulation.book.events.values() if published.event.topic == 0)
