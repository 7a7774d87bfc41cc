"""A client's session on the server: what outlives the connection, and delivery at QoS 1 and 2.

A session holds the subscriptions, the messages on their way to the client, the identifiers of the QoS 2 messages it
sent, its will and its expiry. `deliver` sends at once while the client's window is open and queues otherwise; the
queue is bounded, and what it gives up is counted in `shed_count`.

Durability, for a store: every change is reported to `journal` (a list, or None to save the effort) as (kind, value).
One rule suffices: **commit the journal of a loop turn before writing that turn's output**, because then
- PUBACK and PUBREC leave after the message and ("incoming", packet id) are safe, in one transaction: an acknowledged
  message is never lost, and never taken twice;
- PUBCOMP leaves after ("released", packet id): a reused identifier is not mistaken for a duplicate;
- a PUBLISH at QoS 1 or 2 leaves after ("delivery", Delivery): a resend carries the same identifier;
- PUBREL leaves after ("progress", Delivery): a message the client has is not sent again;
- SUBACK leaves after ("subscribe", Subscription), UNSUBACK after ("unsubscribe", filter), CONNACK after ("session",
  (expiry_s, will, will_due_s, expires_at_s, owner, epoch, owed)), which is also reported when the connection goes, and
  with every part of what is `owed`; ("ended", client id).
("done", sequence) may be lost in a crash: at QoS 1 the message is sent twice, at QoS 2 only PUBREL is.
A Delivery in the journal is the live record: write it down as it is when the turn is committed.
`state` gives the whole of it as plain data and `take_state` takes it back.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coterie.mqtt.delivery import DONE, QUEUED, RELEASED, SENT, Budget, Delivery, SessionState
from coterie.mqtt.options import NEVER_S, ServerOptions
from coterie.mqtt.packets import PubAck, PubComp, PubRec, Subscription, Will
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.reasons import MqttError, Reason

if TYPE_CHECKING:
    from coterie.mqtt.answers import Owed
    from coterie.mqtt.connection import Connection

__all__ = ["DONE", "QUEUED", "RELEASED", "SENT", "Budget", "Delivery", "Session", "SessionState"]
Places = tuple[tuple[str, str], ...]  # a filter, and the topic behind which its answer goes on
_unpack_acknowledgements = struct.Struct(">HH").iter_unpack  # kind and length, identifier


class PastDeliveries(Protocol):
    def has(self, topic: str, identifier: int) -> bool: ...
    def packed(self) -> bytes: ...


class Session:
    """See the module. Compared by identity, so a session can be the receiver in a `SubscriptionIndex`."""

    def __init__(self, client_id: str, options: ServerOptions, budget: Budget | None = None) -> None:
        self.client_id = client_id
        self.owner: str | None = None  # the user it belongs to; None: whoever needs no name
        self.rights: Any = None  # the policy's own: what it found out about the owner
        self.options = options
        self.expiry_s = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.incoming: dict[int, bool] = {}  # QoS 2 identifiers received; True once the message is accepted
        self.will: Will | None = None
        self.will_due_s: float | None = None
        self.expires_at_s: float | None = None
        self.journal: list[tuple[str, Any]] | None = None
        self.connection: Connection | None = None
        self.output: list[bytes] = []  # the connection's, while there is one
        self.epoch = 1  # rises with every move to another node
        self.came_s: float | None = None  # when its client came here last
        self.past: PastDeliveries | None = None  # what it had at another node
        # While it is not all here yet: what comes for it by now, by the message's identifier; else None.
        self.collected: dict[int, tuple[SharedPublish, int, bool, tuple[int, ...]]] | None = None
        self.owed: dict[str, Owed] = {}  # retained messages that its subscriptions have not been answered with yet
        self.owed_from = self.owed_kept = Places()  # the same, as it came from elsewhere; as it was reported
        self.plain_version = 0  # the version whose shared frames may go straight to `output`; 0: use `deliver`
        self.shed_count = 0  # messages given up: queue full, client not reading, or packet too large for it
        self.expired_count = 0
        self._inflight: dict[int, Delivery] = {}
        self._queue: deque[Delivery] = deque()
        self._queued_bytes = 0
        self._budget = budget or Budget(options.stored_bytes_max)
        self._window = self._window_max = 0  # how many of them count against the client's receive maximum; that
        self.last_packet_id = 0  # the identifier that was given last
        self._last_sequence = 0

    @property
    def is_online(self) -> bool:
        return self.connection is not None

    @property
    def queue_count(self) -> int:
        return len(self._queue)

    @property
    def inflight_count(self) -> int:
        return len(self._inflight)

    @property
    def _queue_bytes(self) -> int:
        return self._queued_bytes

    @_queue_bytes.setter
    def _queue_bytes(self, count: int) -> None:
        self._budget.bytes += count - self._queued_bytes
        self._queued_bytes = count

    def join(self, budget: Budget) -> None:
        """What waits counts against this budget from now on."""
        self._budget.bytes -= self._queued_bytes
        self._budget = budget
        budget.bytes += self._queued_bytes

    # -- messages to the client -------------------------------------------------------------------------------------

    def deliver(
        self, shared: SharedPublish, qos: int, retain: bool, identifiers: tuple[int, ...], now_s: float
    ) -> bool:
        """Send or queue one message; False means it was given up (offline at QoS 0, shed, or too large)."""
        for answer in self.owed.values():
            answer.overtaken(self, shared.message, now_s)
        message = shared.message
        if self.past is not None and (message.qos or message.retain) and self.past.has(message.topic, message.id):
            return False
        return self.pass_on(shared, qos, retain, identifiers, now_s)

    def pass_on(
        self, shared: SharedPublish, qos: int, retain: bool, identifiers: tuple[int, ...], now_s: float
    ) -> bool:
        """`deliver`, whatever it had or is owed."""
        connection = self.connection
        if qos == 0:
            if connection is None:
                return False
            if connection.is_congested or not connection.write_publish(shared, 0, retain, identifiers, now_s):
                self.shed_count += 1
                return False
            return True
        if self.collected is not None:
            self.collected[shared.message.id] = (shared, qos, retain, identifiers)
            return True
        self._last_sequence += 1
        delivery = Delivery(self._last_sequence, shared.message, qos, retain, identifiers)
        if connection is not None and not self._queue and self._has_window(connection):
            return self._send(connection, delivery, shared, now_s)
        return self._enqueue(delivery, now_s)

    def send_plain(self, message: Message, qos: int, retain: bool, frame: bytes) -> bool:
        """The short way at QoS 1 or 2, a frame with `last_packet_id` + 1; False, and nothing done: ask `deliver`."""
        packet_id, inflight, window = self.last_packet_id + 1, self._inflight, self._window
        if self._queue or window >= self._window_max or packet_id > 65_535 or packet_id in inflight:
            return False
        self.last_packet_id = packet_id
        self._window = window + 1
        self._last_sequence = sequence = self._last_sequence + 1
        inflight[packet_id] = delivery = Delivery(sequence, message, qos, retain, (), packet_id, SENT, True)
        self.output.append(frame)
        if self.journal is not None:
            self.journal.append(("delivery", delivery))
            if qos == 2 and self.connection is not None:
                self.connection.waits = True  # see `_send`
        return True

    def _has_window(self, connection: Connection) -> bool:
        return self._window < self._window_max and not connection.is_congested and len(self._inflight) < 65_535

    def _enqueue(self, delivery: Delivery, now_s: float) -> bool:
        size, options, delivery.queued_s = len(delivery.message.payload), self.options, now_s
        if options.shed == "nothing":
            if self._budget.bytes + size > self._budget.bytes_max:
                self.shed_count += 1
                return False
            self._append(delivery, size)
            self._note_room()
            return True
        while (
            len(self._queue) >= options.queue_count_max
            or self._queue_bytes + size > options.queue_bytes_max
            or self._budget.bytes + size > self._budget.bytes_max
        ):
            self.shed_count += 1
            if options.shed == "newest" or not self._drop_oldest():
                return False
        self._append(delivery, size)
        return True

    def _append(self, delivery: Delivery, size: int) -> None:
        self._queue.append(delivery)
        self._queue_bytes += size
        self._record("delivery", delivery)

    def _note_room(self) -> None:
        """Whoever publishes for this client should wait (from half of what may wait), or be refused if it is away."""
        if self.connection is None:
            if self.is_crowded(1):
                self._budget.full[self] = None
        elif self.is_crowded(2):
            self._budget.crowded[self] = None
            self._budget.is_pressed = True

    def is_crowded(self, part: int) -> bool:
        """Whether a half (2), a quarter (4), all (1) of what may wait for the client does."""
        options = self.options
        return (
            len(self._queue) * part >= options.queue_count_max or self._queued_bytes * part >= options.queue_bytes_max
        )

    @property
    def next_sequence(self) -> int:
        """Of what waits longest; 0 if nothing does."""
        return self._queue[0].sequence if self._queue else 0

    def _drop_oldest(self) -> bool:
        """Give up the oldest message that was never sent; one that was has an identifier the client may know."""
        for index, delivery in enumerate(self._queue):
            if delivery.state == QUEUED:
                del self._queue[index]
                self._queue_bytes -= len(delivery.message.payload)
                self._record("done", delivery.sequence)
                return True
        return False

    def _send(self, connection: Connection, delivery: Delivery, shared: SharedPublish, now_s: float) -> bool:
        is_new = delivery.packet_id == 0
        packet_id = self._free_packet_id() if is_new else delivery.packet_id
        dup = delivery.state == SENT
        if not connection.write_publish(
            shared, delivery.qos, delivery.retain, delivery.identifiers, now_s, packet_id, dup
        ):
            self.shed_count += 1
            self._inflight.pop(packet_id, None)
            self._record("done", delivery.sequence)
            return False
        delivery.packet_id = packet_id
        delivery.state = SENT
        delivery.on_wire = True
        self._window += 1
        if is_new:
            self._inflight[packet_id] = delivery
            self.last_packet_id = packet_id
            self._record("delivery", delivery)
            # Whoever takes the session over must know the identifier, or would send the message as a new one.
            connection.waits |= delivery.qos == 2 and self.journal is not None
        return True

    def _free_packet_id(self) -> int:
        packet_id = self.last_packet_id
        while True:
            packet_id = packet_id % 65_535 + 1
            if packet_id not in self._inflight:
                return packet_id

    def pump(self, now_s: float) -> None:
        """Send what waits, oldest first, as far as the window allows."""
        connection = self.connection
        while connection is not None and self._queue and self._has_window(connection):
            delivery = self._queue.popleft()
            self._queue_bytes -= len(delivery.message.payload)
            if delivery.state == DONE:
                continue
            if delivery.state == RELEASED:
                delivery.on_wire = True
                self._window += 1
                connection.write_acknowledgement(0x62, delivery.packet_id)
                continue
            expires_at_s = delivery.message.expires_at_s
            if delivery.state == QUEUED and expires_at_s is not None and expires_at_s <= now_s:
                self.expired_count += 1
                self._record("done", delivery.sequence)
                continue
            self._budget.note_wait(delivery, now_s)
            self._send(connection, delivery, SharedPublish(delivery.message), now_s)

    def undelivered(self) -> list[tuple[int, Message]]:
        """(QoS, message) of everything the client is not known to have, in sending order."""
        sent = [one for one in self._inflight.values() if one.state in (QUEUED, SENT)]
        waiting = [one for one in self._queue if one.state == QUEUED and one.packet_id == 0]
        return [(one.qos, one.message) for one in [*sent, *waiting]]

    def forget(self, is_kept: Callable[[str], bool]) -> int:
        """Give up what waits or would be sent again, by topic; returns how many messages."""
        gone = [one for one in self._inflight.values() if one.state == SENT and not is_kept(one.message.topic)]
        for delivery in gone:
            self._finish(delivery)
        dropped = [one for one in self._queue if one.state == QUEUED and not is_kept(one.message.topic)]
        for delivery in dropped:
            delivery.state = DONE
            self._queue_bytes -= len(delivery.message.payload)
            self._record("done", delivery.sequence)
        self._queue = deque(one for one in self._queue if one.state != DONE)
        return len(gone) + len(dropped)

    # -- answers of the client --------------------------------------------------------------------------------------

    def on_acknowledged_run(self, data: bytes, pos: int, now_s: float) -> int:
        """Take the run of short PUBACK packets that starts at `pos`; returns where it ends, for the codec to go on."""
        inflight, journal = self._inflight, self.journal
        end = len(data) - (len(data) - pos) % 4
        for head, packet_id in _unpack_acknowledgements(data if end - pos == len(data) else data[pos:end]):
            if head != 0x4002:
                break
            delivery = inflight.get(packet_id)
            if delivery is None or delivery.qos != 1:
                break
            del inflight[packet_id]  # as `_finish` does
            delivery.state = DONE
            if delivery.on_wire:
                self._window -= 1
            if journal is not None:
                journal.append(("done", delivery.sequence))
            pos += 4
        if self._queue:
            self.pump(now_s)
        return pos

    def on_acknowledged(self, packet: PubAck | PubRec | PubComp, now_s: float) -> None:
        delivery = self._inflight.get(packet.packet_id)
        if type(packet) is PubRec:
            self._on_received(packet, delivery)
        elif delivery is not None:
            if (delivery.qos == 1) is not (type(packet) is PubAck):
                raise MqttError("an acknowledgement does not fit the message's QoS", Reason.PROTOCOL_ERROR)
            if delivery.qos == 2 and delivery.state != RELEASED:
                raise MqttError("PUBCOMP before PUBREC", Reason.PROTOCOL_ERROR)  # 4.3.3; MQTT 3.1.1 says to close (4.8)
            self._finish(delivery)
        self.pump(now_s)

    def _on_received(self, packet: PubRec, delivery: Delivery | None) -> None:
        assert self.connection is not None
        if delivery is None:
            self.connection.write_acknowledgement(0x62, packet.packet_id, Reason.PACKET_ID_NOT_FOUND)
            return
        if delivery.qos != 2:
            raise MqttError("PUBREC for a message that is not QoS 2", Reason.PROTOCOL_ERROR)
        if packet.reason >= 0x80:
            self._finish(delivery)
            return
        delivery.state = RELEASED
        self._record("progress", delivery)
        self.connection.write_acknowledgement(0x62, packet.packet_id)

    def _finish(self, delivery: Delivery) -> None:
        del self._inflight[delivery.packet_id]
        delivery.state = DONE
        if delivery.on_wire:
            self._window -= 1
        self._record("done", delivery.sequence)

    # -- subscriptions and QoS 2 from the client --------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> bool:
        """Remember a subscription; returns whether its filter is new to the session."""
        is_new = subscription.filter not in self.subscriptions
        self.subscriptions[subscription.filter] = subscription
        self._record("subscribe", subscription)
        return is_new

    def unsubscribe(self, topic_filter: str) -> bool:
        if self.subscriptions.pop(topic_filter, None) is None:
            return False
        self.owed.pop(topic_filter, None)
        self._record("unsubscribe", topic_filter)
        return True

    def on_incoming(self, packet_id: int) -> bool:
        """A QoS 2 PUBLISH arrived; False for a duplicate of one that was taken before."""
        if packet_id in self.incoming:
            return False
        self.incoming[packet_id] = False
        self._record("incoming", packet_id)
        return True

    def on_released(self, packet_id: int) -> bool:
        """PUBREL arrived: the identifier is free again; False if it was not in use."""
        if self.incoming.pop(packet_id, None) is None:
            return False
        self._record("released", packet_id)
        return True

    # -- connection, will and expiry --------------------------------------------------------------------------------

    def attach(self, connection: Connection, now_s: float) -> None:
        """A connection took the session: resend what was not acknowledged, in the original order, then the queue."""
        self.connection = connection
        self._budget.full.pop(self, None)
        self.output = connection.output
        self.will_due_s = self.expires_at_s = None
        self._window, self._window_max = 0, connection.window_max
        unfinished = [delivery for delivery in self._queue if delivery.packet_id == 0]
        for delivery in self._inflight.values():
            delivery.on_wire = False
        self._queue = deque([*self._inflight.values(), *unfinished])
        self._queue_bytes = sum(len(delivery.message.payload) for delivery in self._queue)
        self.update_plain_version()
        self.report()
        self.pump(now_s)

    def detach(self, now_s: float, with_will: bool) -> None:
        """The connection is gone: the will and the end of the session become due (section 3.1.3.2.2: the earlier)."""
        self.connection = None
        self.output = []
        self.plain_version = 0
        if not with_will:
            self.will = None
        if self.expiry_s != NEVER_S:
            self.expires_at_s = now_s + self.expiry_s
        if self.will is not None:
            self.will_due_s = now_s + min(self.will.properties.will_delay_s or 0, self.expiry_s)
        self.report()

    def report(self) -> None:
        """What a store should know of it besides subscriptions and messages."""
        owed = self.owed_kept = self.owed_places
        past = b"" if self.past is None else self.past.packed()
        kept = (self.expiry_s, self.will, self.will_due_s, self.expires_at_s, self.owner, self.epoch, owed, past)
        self._record("session", kept)

    @property
    def owed_places(self) -> Places:
        """What is owed at QoS 1 and 2."""
        return tuple((one, it.position) for one, it in self.owed.items() if it.subscription.qos) or self.owed_from

    def update_plain_version(self) -> None:
        connection = self.connection
        is_plain = connection is not None and not connection.is_congested and connection.is_plain
        is_plain = is_plain and self.past is None and not self.owed
        self.plain_version = connection.version if connection is not None and is_plain else 0

    def end(self) -> None:
        """The session is over; a store forgets it."""
        self._queue_bytes = 0
        self._budget.full.pop(self, None)
        self._budget.crowded.pop(self, None)
        self._record("ended", self.client_id)

    def take_will(self, now_s: float) -> Message | None:
        """The will as a message, once."""
        will, self.will, self.will_due_s = self.will, None, None
        if will is None:
            return None
        properties = msgspec.structs.replace(will.properties, will_delay_s=None)
        expiry_s = properties.message_expiry_s
        expires_at_s = None if expiry_s is None else now_s + expiry_s
        return Message(will.topic, will.payload, will.qos, will.retain, properties, expires_at_s, self.client_id)

    @property
    def deadline_s(self) -> float | None:
        due = [moment for moment in (self.will_due_s, self.expires_at_s) if moment is not None]
        return min(due) if due else None

    # -- state as data ----------------------------------------------------------------------------------------------

    def state(self) -> SessionState:
        waiting = [delivery for delivery in self._queue if delivery.packet_id == 0]
        return SessionState(
            self.client_id, self.expiry_s, tuple(self.subscriptions.values()), (*self._inflight.values(), *waiting),
            tuple(self.incoming), self.last_packet_id, self._last_sequence, self.will, self.will_due_s,
            self.expires_at_s, self.owner, self.owed_places,
        )  # fmt: skip

    def export(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self.state(), builtin_types=(bytes,))
        return plain

    @staticmethod
    def restore(plain: dict[str, Any], options: ServerOptions) -> Session:
        """A session from exported data, offline. Identifiers in `incoming` count as accepted."""
        return Session.of(msgspec.convert(plain, SessionState), options)

    @staticmethod
    def of(state: SessionState, options: ServerOptions) -> Session:
        session = Session(state.client_id, options)
        session.take_state(state)
        return session

    def take_state(self, state: SessionState) -> None:
        """Become what was exported, offline."""
        self.expiry_s, self.owner, self.owed_from = state.expiry_s, state.owner, state.owed
        self.subscriptions = {one.filter: one for one in state.subscriptions}
        self.incoming = dict.fromkeys(state.incoming, True)
        self.will, self.will_due_s, self.expires_at_s = state.will, state.will_due_s, state.expires_at_s
        self.last_packet_id, self._last_sequence = state.last_packet_id, state.last_sequence
        for delivery in state.deliveries:
            if delivery.packet_id:
                self._inflight[delivery.packet_id] = delivery
            else:
                self._queue.append(delivery)
                self._queue_bytes += len(delivery.message.payload)

    def report_all(self) -> None:
        """For a store that has never heard of it."""
        for subscription in self.subscriptions.values():
            self._record("subscribe", subscription)
        for packet_id in self.incoming:
            self._record("incoming", packet_id)
        for delivery in (*self._inflight.values(), *self._queue):
            self._record("delivery", delivery)

    def _record(self, kind: str, value: Any) -> None:
        if self.journal is not None:
            self.journal.append((kind, value))
