"""A client that moves gets everything once, in whatever order the words about it arrive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coterie.broker.carried import encode_carried
from coterie.broker.delivering import RecentEvents
from coterie.broker.frames import ClaimSession, Handed, SentOff, Taken
from coterie.broker.interest import InterestBook
from coterie.broker.moving import SETTLE_S, WORD_S, Moving
from coterie.broker.turn import Turn
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Subscribe, Subscription
from coterie.mqtt.publish import Message
from coterie.mqtt.session import Session

THERE = 7
BOTH, MISSED = 101, 102  # an event that came to both nodes, and one that came only there


class Here:
    """The node a client comes to: a clock, what it says to others, and the client's session."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.turn.now_s = 1000.0
        self.told: list[tuple[int, Any]] = []
        self.session = Session("anna", ServerOptions())
        self.recent = RecentEvents()
        sessions: Any = SimpleNamespace(of={"anna": self.session}, dirty=[])
        delivering: Any = SimpleNamespace(
            ordering=SimpleNamespace(is_held=lambda topic, identifier: False, is_had=lambda topic, identifier: True),
        )
        talk: Any = SimpleNamespace(tell=lambda node, said: self.told.append((node, said)))
        book = InterestBook(1)
        recovery: Any = None
        self.moving = Moving(
            sessions, delivering, recovery, book, self.recent, talk, self.turn
        )  # fmt: skip

    def connect(self) -> None:
        self.moving.welcome("anna")

    def subscribe(self) -> None:
        wanted = Subscription("news", 1)
        self.session.subscriptions["news"] = wanted
        self.moving.subscribing("anna", Subscribe(1, (wanted,)), ((1, True),))

    def event(self) -> None:
        self.recent.note(BOTH, self.turn.now_s)

    def confirm(self) -> None:
        self.moving.subscribed("anna")

    def word(self) -> None:
        self.moving.hear(THERE, SentOff("anna", 999_000_000))


STEPS = ("connect", "subscribe", "event", "confirm")


@pytest.mark.parametrize("at", range(len(STEPS) + 1))
def test_the_word_that_somebody_comes_may_come_last(at: int) -> None:
    here = Here()
    for step in (*STEPS[:at], "word", *STEPS[at:]):
        getattr(here, step)()
        here.turn.now_s += 0.1
    here.turn.now_s += SETTLE_S
    here.moving.on_time()
    assert here.told == [(THERE, ClaimSession("anna"))]
    kept = tuple((1, encode_carried(one, Message("news", b"x", 1), 1)) for one in (BOTH, MISSED))
    here.moving.hear(THERE, Handed("anna", kept, True))
    assert here.moving.handed_count == 1  # what was delivered here already is not delivered again
    assert here.told[-1] == (THERE, Taken("anna"))
    assert not here.moving.is_arriving("anna")


def test_who_was_sent_by_nobody_is_soon_at_home() -> None:
    here = Here()
    for step in STEPS:
        getattr(here, step)()
    assert here.moving.is_arriving("anna")
    here.turn.now_s += WORD_S
    here.moving.on_time()
    assert not here.moving.is_arriving("anna")
    assert here.told == []


def test_another_users_session_is_not_handed_over() -> None:
    there = Here()
    there.session.owner = "ann"
    there.moving.hear(THERE, ClaimSession("anna", "bob"))
    assert there.told == []


def test_a_session_that_was_not_sent_off_does_not_end_by_a_word() -> None:
    there = Here()
    ended: list[Session] = []
    there.moving._sessions.end_session = lambda session, now_s: ended.append(session)  # type: ignore[method-assign]
    there.moving.hear(THERE, Taken("anna"))
    assert ended == []
    there.moving.leaving["anna"] = there.turn.now_s
    there.moving.hear(THERE, Taken("anna"))
    assert ended == [there.session]


@pytest.mark.parametrize("order", [("word", "followed"), ("followed", "word")], ids=" then ".join)
def test_whose_session_came_along_has_arrived(order: tuple[str, str]) -> None:
    """Nothing is left to be claimed, and it may be sent on at once, whichever of the two is quicker."""
    here = Here()
    here.session.connection = SimpleNamespace()  # type: ignore[assignment]
    for each in order:
        here.word() if each == "word" else here.moving.followed("anna")
    assert not here.moving.is_arriving("anna")
