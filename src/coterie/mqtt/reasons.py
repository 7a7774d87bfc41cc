"""MQTT 5 reason codes, the error that carries one, and what is left of them in MQTT 3.1.1."""

from __future__ import annotations

from enum import IntEnum

from coterie.errors import RemoteProtocolError


class Reason(IntEnum):
    """Every reason code of MQTT 5, section 2.4; 0x80 and above are failures."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


def reason_name(code: int) -> str:
    """For people: 'not authorized (0x87)'."""
    try:
        return f"{Reason(code).name.lower().replace('_', ' ')} ({code:#x})"
    except ValueError:
        return f"reason {code:#x}"


class MqttError(RemoteProtocolError):
    """The client (or server) broke MQTT; `code` is what a DISCONNECT or CONNACK should say."""

    def __init__(self, reason: str, code: Reason = Reason.MALFORMED_PACKET, peer: str | None = None) -> None:
        super().__init__(reason, peer)
        self.code = code


class UnsupportedVersion(MqttError):
    """A CONNECT in a protocol level that is not spoken here; `level` decides the form of the refusal."""

    def __init__(self, level: int) -> None:
        super().__init__(
            f"protocol level {level} is not supported: use MQTT 3.1.1 (4) or MQTT 5 (5)",
            Reason.UNSUPPORTED_PROTOCOL_VERSION,
        )
        self.level = level


# MQTT 3.1.1 has six return codes in CONNACK (section 3.2.2.3); every other refusal becomes "server unavailable".
CONNACK_3_OF_REASON = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_PROTOCOL_VERSION: 1,
    Reason.CLIENT_ID_NOT_VALID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}
REASON_OF_CONNACK_3 = {code: reason for reason, code in CONNACK_3_OF_REASON.items()}


def _codes(*ranges: tuple[int, int] | int) -> frozenset[int]:
    found: list[int] = []
    for item in ranges:
        low, high = (item, item) if isinstance(item, int) else item
        found.extend(range(low, high + 1))
    return frozenset(found)


# Which codes each packet type may carry, by packet type number (MQTT 5, table 2-6).
REASONS_OF_PACKET: dict[int, frozenset[int]] = {
    2: _codes(0, (0x80, 0x8A), 0x8C, 0x90, 0x95, 0x97, (0x99, 0x9D), 0x9F),
    4: _codes(0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    5: _codes(0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    6: _codes(0, 0x92),
    7: _codes(0, 0x92),
    9: _codes((0, 2), 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2),
    11: _codes(0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91),
    14: _codes(0, 4, (0x80, 0x83), 0x87, 0x89, 0x8B, (0x8D, 0x90), (0x93, 0xA2)),
    15: _codes(0, 0x18, 0x19),
}
