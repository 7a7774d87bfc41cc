"""A client that moves gets everything once, in whatever order the words about it arrive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coterie.broker.carried import encode_carried
from coterie.broker.frames import Claim, Handed, Moved, Taken
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Subscribe, Subscription
from coterie.mqtt.publish import Message
from coterie.mqtt.session import Session
from coterie.protocol.seen import Seen
from coterie.runtime.moving import SETTLE_S, WORD_S, Moving

THERE = 7
BOTH, MISSED = 101, 102  # an event that came to both nodes, and one that came only there


class Here:
    """The node a client comes to: a clock, what it says to others, and the client's session."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.told: list[tuple[int, Any]] = []
        self.session = Session("anna", ServerOptions())
        broker: Any = SimpleNamespace(sessions={"anna": self.session}, dirty=[])
        network: Any = SimpleNamespace(
            node=1,
            seen=Seen(16),
            tell=lambda node, said: self.told.append((node, said)),
            want_since=lambda filters, since_us: None,
            misses=lambda topic, identifier: False,
        )
        self.moving = Moving(broker, network, lambda: self.now_s)

    def connect(self) -> None:
        self.moving.welcome("anna")

    def subscribe(self) -> None:
        wanted = Subscription("news", 1)
        self.session.subscriptions["news"] = wanted
        self.moving.subscribing("anna", Subscribe(1, (wanted,)), [(1, True)])

    def event(self) -> None:
        self.moving.note(BOTH)

    def confirm(self) -> None:
        self.moving.subscribed("anna")

    def word(self) -> None:
        self.moving.hear(THERE, Moved("anna", 999_000_000))


STEPS = ("connect", "subscribe", "event", "confirm")


@pytest.mark.parametrize("at", range(len(STEPS) + 1))
def test_the_word_that_somebody_comes_may_come_last(at: int) -> None:
    here = Here()
    for step in (*STEPS[:at], "word", *STEPS[at:]):
        getattr(here, step)()
        here.now_s += 0.1
    here.now_s += SETTLE_S
    here.moving.on_time()
    assert here.told == [(THERE, Claim("anna"))]
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
    here.now_s += WORD_S
    here.moving.on_time()
    assert not here.moving.is_arriving("anna")
    assert here.told == []
