"""How many bytes a message takes on the wire of a broker: ours, and those of the brokers that people run.

A copy of an event costs its header, the name of its topic (our frames carry it twice: the channel's and the message's)
and its payload. The constants count what the broker's own protocol adds inside TCP, measured on real frames; tests hold
them against ours (tests/broker), NATS and mosquitto (tests/interop/test_real_fleets.py). What TCP and IP add depends
on how much is sent at once and is left out, for all alike.
"""

from __future__ import annotations

import msgspec

from coterie.errors import ConfigError


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes by what a message is for, besides topic names and payloads."""

    name: str
    event: float  # header of one copy
    topics_in_event: float = 1.0  # how often the topic's name stands in it
    link_heartbeat: float
    tree_heartbeat: float
    announcement: float  # of one wish, or the request to join one tree; the topic's name comes on top
    control: float  # any other message between nodes

    def copy_bytes(self, topic_bytes: float, payload_bytes: float) -> float:
        return self.event + self.topics_in_event * topic_bytes + payload_bytes


# With a client id of 11 bytes in the event; a tree's heartbeat names its topic (16 bytes), an announcement is tracked.
COTERIE = Wire(
    name="coterie",
    event=60.0,
    topics_in_event=2.0,
    link_heartbeat=22.0,
    tree_heartbeat=35.0,
    announcement=22.0,
    control=24.0,
)
# RMSG <account> <subject> <size>CRLF ... CRLF; PING and PONG; RS+ <account> <subject>CRLF.
NATS = Wire(name="nats", event=16.0, link_heartbeat=12.0, tree_heartbeat=12.0, announcement=9.0, control=12.0)
# PUBLISH at QoS 0 with a remaining length of two bytes; PINGREQ and PINGRESP; SUBSCRIBE of one filter and SUBACK.
MQTT = Wire(name="mqtt", event=5.0, link_heartbeat=4.0, tree_heartbeat=4.0, announcement=12.0, control=4.0)

WIRES = {wire.name: wire for wire in (COTERIE, NATS, MQTT)}


def wire_named(name: str) -> Wire:
    try:
        return WIRES[name]
    except KeyError:
        raise ConfigError("wire", name, f"one of {', '.join(WIRES)}") from None
