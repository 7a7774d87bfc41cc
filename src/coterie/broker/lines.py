"""What a node knows of a client's connection beside what MQTT knows of it."""

from __future__ import annotations

from coterie.broker.facts import Opened
from coterie.broker.limits import Bucket
from coterie.mqtt.connection import Connection
from coterie.mqtt.packets import Connect
from coterie.mqtt.ruling import Ruling


class ClientLine:
    """One client's connection and what is known of where it comes from."""

    __slots__ = ("certified", "connect", "connection", "host", "is_closing", "is_inner", "is_movable", "publishes")

    def __init__(self, opened: Opened, connection: Connection, publishes: Bucket) -> None:
        self.host, self.certified, self.is_inner = opened.host, opened.certified, opened.is_inner
        self.is_movable = opened.is_movable
        self.connection, self.publishes = connection, publishes
        self.connect: Connect | None = None  # while it is being decided
        self.is_closing = False


class Fresh:
    """A client that was let in and has said nothing since: what it connected with, and as whom.

    While it is under way between two processes `peer` is the other one, and what it sends is kept back (`transfers`).
    """

    __slots__ = ("connect", "peer", "ruling", "sent")

    def __init__(self, connect: Connect, ruling: Ruling, peer: int = -1) -> None:
        self.connect, self.ruling, self.peer = connect, ruling, peer
        self.sent: list[bytes] = []
