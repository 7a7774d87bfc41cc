"""The constants of our own wire against real frames."""

from __future__ import annotations

import pytest

from coterie.broker.carried import Identifiers, encode_carried, microseconds
from coterie.broker.frames import MESSAGE, TRACKED_MESSAGE, frame
from coterie.errors import ConfigError
from coterie.model.wires import COTERIE, WIRES, wire_named
from coterie.mqtt.publish import Message as Publication
from coterie.protocol.events import Event, EventMessage
from coterie.protocol.wire import SystemMessage
from coterie.systems import SYSTEMS
from coterie.systems.key_routing import Ping
from coterie.systems.scribe import Join, TreeAlive

TOPIC = "site7/room3/temp"
IDENTIFIER = Identifiers(7, 0).next(microseconds(1_760_000_000.0))


def frame_bytes(system: str, message: SystemMessage, number: int | None = None) -> int:
    """As `broker.plane` sends it: a tag for the plan, then the system's own encoding."""
    body = b"\0" + SYSTEMS[system].codec().encode(message)
    return len(frame(MESSAGE if number is None else TRACKED_MESSAGE, body, number))


def event_messages(system: str) -> list[type[EventMessage]]:
    return [one for one in SYSTEMS[system].messages if issubclass(one, EventMessage)]


@pytest.mark.parametrize("system", ["flooding", "mesh", "star", "scribe", "magnet", "spidercast"])
@pytest.mark.parametrize("payload_bytes", [1, 200, 5000])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_copy_takes_what_it_is_priced_at(system: str, payload_bytes: int, qos: int) -> None:
    publication = Publication(TOPIC, bytes(payload_bytes), qos, publisher="sensor-0042")
    event = Event(IDENTIFIER, TOPIC, encode_carried(IDENTIFIER, publication, 1))
    priced = COTERIE.copy_bytes(len(TOPIC), payload_bytes)
    for kind in event_messages(system):
        more = ((),) if kind.__name__ == "Enter" else ()
        assert frame_bytes(system, kind(event, 2, *more)) == pytest.approx(priced, abs=4)


def test_heartbeats_and_announcements() -> None:
    assert frame_bytes("scribe", Ping(1 << 60)) == COTERIE.link_heartbeat
    assert frame_bytes("scribe", TreeAlive(TOPIC)) == COTERIE.tree_heartbeat
    assert frame_bytes("scribe", Join(TOPIC), number=1) == COTERIE.announcement + len(TOPIC)


def test_wires_by_name() -> None:
    assert [wire_named(name).name for name in WIRES] == ["coterie", "nats", "mqtt"]
    with pytest.raises(ConfigError, match="one of coterie, nats, mqtt"):
        wire_named("pigeon")
