"""Letting in and sending on, without sockets: who is expected stays, who gets no answer stays, what nodes say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coterie.broker.admitting import ANSWER_S, NEW_S, Admitting
from coterie.broker.counts import Counts
from coterie.broker.frames import AskWanting, Expected, Sent, Wanting
from coterie.broker.settings import AdmissionSection
from coterie.broker.turn import Turn


class Wires:
    """What a node says, in the order it says it; `is_deaf`: nobody can be told anything."""

    def __init__(self) -> None:
        self.told: list[tuple[int, Any]] = []
        self.flooded: list[Any] = []
        self.is_deaf = False
        self.links = SimpleNamespace(peers=(1, 2), is_connected=lambda peer: True)

    def tell(self, peer: int, said: Any) -> bool:
        self.told.append((peer, said))
        return not self.is_deaf

    def flood(self, said: Any, but: int = -1) -> None:
        self.flooded.append(said)


class Desk:
    def __init__(self) -> None:
        self.turn = Turn()
        self.turn.now_s = 1000.0
        self.wires, self.counts = Wires(), Counts()
        self.entered: list[str] = []
        servers = {1: "one:1883", 2: "two:1883"}
        section = AdmissionSection(enabled=True)
        index: Any = SimpleNamespace(count=20)
        links: Any = self.wires.links
        talk: Any = self.wires
        self.admitting = Admitting(section, 0, servers, index, links, talk, self.counts, None, self.turn)
        self.admitting.start(1)
        self.sent = self.admitting.sending
        for number in range(5):
            self.admitting.came(f"first-{number}", False, True)
        for node in (1, 2):
            self.admitting.hear(node, Wanting(node, 1, 5, 20, 0.0, (f"t/{node}",), is_whole=True))
        self.wires.flooded.clear()

    def ask(self, client: str, *filters: str, follows: bool = True) -> None:
        self.admitting.came(client, True, follows)
        self.again(client, *filters)

    def again(self, client: str, *filters: str) -> None:
        self.admitting.subscribing(client, filters, lambda: self.entered.append(client))


def test_is_sent_when_the_other_node_expects_it_and_not_before() -> None:
    desk = Desk()
    desk.ask("ann", "t/1")
    desk.again("ann", "t/2")  # behind the first, while that waits
    assert (desk.wires.told, desk.sent, desk.entered) == ([(1, Sent("ann"))], [], [])
    desk.admitting.hear(1, Expected("ann"))
    assert (desk.sent, desk.entered) == ([("ann", "one:1883")], [])
    assert desk.admitting.reception.others[1].connections == 6
    desk.admitting.hear(1, Expected("ann"))
    assert len(desk.sent) == 1


def test_whoever_was_sent_here_is_not_sent_on() -> None:
    desk = Desk()
    desk.admitting.hear(2, Sent("bob"))
    assert desk.wires.told == [(2, Expected("bob"))]
    desk.ask("bob", "t/1")
    assert (desk.entered, desk.wires.told[1:], desk.counts.admitted_unmoved) == (["bob"], [], 0)


def test_no_answer_means_it_stays() -> None:
    desk = Desk()
    desk.ask("ann", "t/1")
    desk.again("ann", "t/9")
    desk.turn.now_s += ANSWER_S
    desk.admitting.on_time()
    assert (desk.entered, desk.sent) == (["ann", "ann"], [])
    desk.admitting.hear(1, Expected("ann"))  # too late
    assert desk.sent == []
    desk.wires.is_deaf = True
    desk.ask("eve", "t/1")
    assert desk.entered[2:] == ["eve"]


def test_who_does_not_follow_and_who_is_known_is_let_in() -> None:
    desk = Desk()
    desk.ask("old", "t/1", follows=False)
    desk.admitting.came("known", False, True)
    desk.again("known", "t/1")
    desk.ask("watcher", "$SYS/broker/uptime")
    assert desk.entered == ["old", "known", "watcher"]
    assert (desk.counts.admitted_here, desk.counts.admitted_unmoved) == (1, 1)


def test_figures_leave_out_who_may_still_go_and_are_not_repeated() -> None:
    desk = Desk()
    desk.turn.now_s += 2.0
    desk.admitting.on_time()
    desk.wires.flooded.clear()
    desk.turn.now_s += 2.0
    desk.admitting.came("new", True, True)
    desk.admitting.on_time()
    assert desk.wires.flooded == []
    desk.turn.now_s += NEW_S
    desk.admitting.on_time()
    desk.admitting.on_time()
    assert [one.connections for one in desk.wires.flooded] == [6]
    desk.turn.now_s += 2.0
    desk.admitting.gone("new")
    assert [one.connections for one in desk.wires.flooded] == [6, 5]
    assert all(one.reached_all for one in desk.wires.flooded)


def test_a_gap_is_asked_about_and_all_is_told_in_parts() -> None:
    desk = Desk()
    desk.admitting.hear(1, Wanting(1, 3, 5, 20, 0.0))
    assert desk.wires.told == [(1, AskWanting(1))]
    desk.wires.told.clear()
    desk.admitting.changed(added=[f"{number:05d}/" + "x" * 200 for number in range(1000)])
    desk.admitting.hear(2, AskWanting(0))
    parts = [said for _, said in desk.wires.told]
    assert [one.is_part for one in parts] == [False, True, True, True]
    assert sum(len(one.added) for one in parts) == 1000
    listener = Desk().admitting
    for one in parts:
        listener.reception.node = 9
        listener.hear(0, one)
    assert listener.reception.others[0].filters() == desk.admitting.reception.own.filters()
