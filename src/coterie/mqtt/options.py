"""What a server allows and announces; the limits that keep one client from costing the others anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coterie.errors import ConfigError

NEVER_S = 0xFFFF_FFFF  # a session expiry interval of this many seconds means that the session does not expire


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Defaults suit a node in service; `conformance()` is the profile the public test suite expects."""

    receive_maximum: int = 1024  # QoS 1 and 2 messages a client may have unacknowledged; more is DISCONNECT 0x93
    topic_alias_maximum: int = 64  # aliases a client may use towards us
    topic_alias_out_maximum: int = 0  # aliases we use towards a client that allows them; 0 keeps the shared encoding
    packet_bytes_max: int = 1 << 20
    keep_alive_s_max: int = 0  # longer or no keep alive is replaced by this one (MQTT 5 only); 0: the client's choice
    connect_timeout_s: float = 10.0
    session_expiry_s_max: int = NEVER_S
    inflight_count_max: int = 1024  # our unacknowledged messages towards one client, below its own receive maximum
    queue_count_max: int = 10_000  # messages waiting for one client
    queue_bytes_max: int = 64 << 20
    # What a full queue gives up; `Session.shed_count` counts it. Nothing: publishers wait, or are refused.
    shed: Literal["nothing", "newest", "oldest"] = "newest"
    response_information: str = ""
    session_count_max: int = 1_000_000
    subscription_count_max: int = 100_000  # per session
    subscription_total_max: int = 10_000_000  # of all sessions together
    retained_topics_max: int = 1_000_000  # retained messages, one a topic
    retained_topics_client_max: int = 0  # of them published by one client; 0: as many as there is room for
    retained_bytes_max: int = 1 << 30
    stored_bytes_max: int = 4 << 30  # payloads waiting for clients, of all sessions together
    retained_count_max: int = 100_000  # messages one subscription is answered with; the rest counts as shed
    unread_bytes_max: int = 1 << 20  # bytes a client may send while its CONNECT is being decided

    def __post_init__(self) -> None:
        _check("mqtt.receive_maximum", self.receive_maximum, 1, 65_535)
        _check("mqtt.topic_alias_maximum", self.topic_alias_maximum, 0, 65_535)
        _check("mqtt.topic_alias_out_maximum", self.topic_alias_out_maximum, 0, 65_535)
        _check("mqtt.packet_bytes_max", self.packet_bytes_max, 32, 268_435_460)
        _check("mqtt.keep_alive_s_max", self.keep_alive_s_max, 0, 65_535)
        _check("mqtt.session_expiry_s_max", self.session_expiry_s_max, 0, NEVER_S)
        _check("mqtt.inflight_count_max", self.inflight_count_max, 1, 65_535)
        _check("mqtt.queue_count_max", self.queue_count_max, 0, 1 << 40)
        if self.shed not in ("nothing", "newest", "oldest"):
            raise ConfigError("mqtt.shed", self.shed, "nothing, newest or oldest")

    @staticmethod
    def conformance() -> ServerOptions:
        """Small limits that a test can reach: eclipse/paho.mqtt.testing expects these announcements."""
        return ServerOptions(receive_maximum=20, topic_alias_out_maximum=10, keep_alive_s_max=60)


def _check(key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(key, value, f"{low} to {high}")
