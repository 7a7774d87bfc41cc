"""A session belongs to the user who began it: no other gets it, ends it or pushes it aside."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.facts import Bytes, Opened, Proven
from coterie.broker.settings import AccessSection, User
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from tests.broker.driving import Driven, setup

LASTING: dict[str, Any] = {"clean_start": False, "properties": Properties(session_expiry_s=1000)}
STORED = "scrypt$16384$8$1$" + "A" * 22 + "==$" + "A" * 43 + "="
USERS = [User(name="ann", password=STORED), User(name="bob", password=STORED, publish=("b/#",))]


def connected(driven: Driven, user: str, client: str = "c", **connect: Any) -> tuple[int, Any]:
    line = driven.open()
    driven.say(line, p.Connect(client, username=user, password=b"secret", **connect))
    driven.take(Proven(line, Ruling(user=user)))
    found = driven.hear(line)
    return line, found[0] if found else None


@pytest.fixture
def node() -> Driven:
    return Driven(setup(access=AccessSection(anonymous="never", users=USERS)))


@pytest.mark.parametrize("clean_start", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_stranger_neither_gets_nor_ends_a_session(node: Driven, clean_start: bool, is_there: bool) -> None:
    first, _ = connected(node, "ann", **LASTING)
    node.say(first, p.Subscribe(1, (p.Subscription("b/#", 1),)))
    if not is_there:
        node.cut(first)
    line, answer = connected(node, "bob", **(LASTING | {"clean_start": clean_start}))
    assert answer.reason == Reason.CLIENT_ID_NOT_VALID
    assert line in node.closed
    assert first not in node.closed
    _, answer = connected(node, "ann", **LASTING)
    assert answer.session_present


def test_a_will_that_its_user_may_not_publish_is_refused_with_the_connection(node: Driven) -> None:
    _, answer = connected(node, "bob", "d", will=p.Will("a/x"))
    assert answer.reason == Reason.NOT_AUTHORIZED
    _, answer = connected(node, "bob", "d", will=p.Will("b/x"))
    assert answer.reason == Reason.SUCCESS


def test_nobody_outside_comes_as_a_bridge(node: Driven) -> None:
    """A bridge without a user would be nobody's: anybody with a name could take its place, and keep it."""
    _, answer = connected(node, "bob", "$bridge-up-n0")
    assert answer.reason == Reason.CLIENT_ID_NOT_VALID
    line = 999
    node.take(Opened(line, "", "ann", True))
    node.take(Bytes(line, encode_packet(p.Connect("$bridge-up-n0"), p.MQTT_5)))
    assert node.broker.sessions.of["$bridge-up-n0"].owner == "ann"
