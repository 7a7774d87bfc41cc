"""What a session holds, as plain data: messages on their way, the whole state, and the room that all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.mqtt.bins import Bins
from coterie.mqtt.packets import Subscription, Will
from coterie.mqtt.publish import Message

if TYPE_CHECKING:
    from coterie.mqtt.session import Session

QUEUED, SENT, RELEASED, DONE = range(4)


class Delivery(msgspec.Struct, gc=False):
    """One message for this client at QoS 1 or 2. RELEASED: the client has it (PUBREC), only PUBREL is repeated."""

    sequence: int
    message: Message
    qos: int
    retain: bool = False
    identifiers: tuple[int, ...] = ()
    packet_id: int = 0
    state: int = QUEUED
    on_wire: bool = False  # sent on the present connection, so it counts against the client's window
    queued_s: float = 0.0  # since when it waits, if it had to


class SessionState(msgspec.Struct, frozen=True):
    """Everything of a session that must survive a restart; deliveries are in sending order."""

    client_id: str
    expiry_s: int = 0
    subscriptions: tuple[Subscription, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    incoming: tuple[int, ...] = ()
    last_packet_id: int = 0
    last_sequence: int = 0
    will: Will | None = None
    will_due_s: float | None = None
    expires_at_s: float | None = None
    owner: str | None = None
    owed: tuple[tuple[str, str], ...] = ()  # see `Session.owed_places`


class Budget:
    """What all sessions of a node together may keep waiting, in bytes of payload, and which of them have no more room.

    `crowded`: the client is there and does not keep up; `is_pressed` says that something was just added for such a one.
    `full`: the client is away, and as much waits for it as may.
    """

    __slots__ = ("bytes", "bytes_max", "crowded", "full", "is_pressed", "waited_us")

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.crowded: dict[Session, None] = {}
        self.full: dict[Session, None] = {}
        self.is_pressed = False
        self.waited_us = Bins()  # how long messages waited that could not be sent at once

    def note_wait(self, delivery: Delivery, now_s: float) -> None:
        """It is sent now."""
        if delivery.queued_s:
            self.waited_us.add(max(0, int((now_s - delivery.queued_s) * 1e6)))
            delivery.queued_s = 0.0

    def has_room(self, size: int) -> bool:
        """For one more copy of so many bytes; what is acknowledged must find a place at least once."""
        return self.bytes + size <= self.bytes_max
