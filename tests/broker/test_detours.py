"""SUBACK is true where a system's nodes cannot say when a subscription has taken effect."""

from __future__ import annotations

import pytest

from coterie.broker.frames import Detoured
from coterie.mqtt.packets import Publish, SubAck, Subscribe, Subscription
from tests.broker.groups import Group


def test_who_is_not_connected_yet_has_detours_and_sends_what_it_says_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(3, system="spidercast")
    group.wait(5.0)
    here, there = group.nodes[0], group.nodes[1].broker.detours
    line, before = here.client("c"), there._others[0].version
    here.say(line, Subscribe(1, (Subscription("t"), Subscription("u"))))
    assert not [one for one in here.hear(line) if isinstance(one, SubAck)]
    group.wait(0.2)
    assert [type(one) for one in here.hear(line)] == [SubAck]
    assert (there.to("t"), there.to("u"), there._others[0].version) == ((0,), (0,), before + 1)
    told: list[int] = []
    monkeypatch.setattr(
        here.broker.talk, "tell", lambda peer, said: not told.append(peer) if isinstance(said, Detoured) else True
    )
    here.say(line, Publish("t", b"1"), Publish("v", b"2"))
    assert told == [1, 2]
    monkeypatch.undo()
    group.wait(4.0)
    assert not here.broker.detours.is_outside(("t", "u"))
    assert there.to("t") == ()
