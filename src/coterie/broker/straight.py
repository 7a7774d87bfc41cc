"""The straight way: a chunk that is one plain message, or one acknowledgement, and nothing else happens in its turn.

At the rates where most fleets live a node wakes up for every single message, and finds nothing of its own code near the
processor: what it costs is how much code it runs. So the commonest chunk of all has a way of its own, past everything
that gathers for the end of a turn. A *lane* is what a connection's chunks of one length have been so far: one PUBLISH
on one topic, for clients of this node who are there and need nothing kept, with nobody elsewhere who wants it. What
does not fit goes the long way, which comes to the same: a test holds the two against each other.

What passed is counted, and put into the journal, when somebody looks or the node's next tick comes.
"""

from __future__ import annotations

from coterie.broker.carried import Identifiers, microseconds
from coterie.broker.clients import Clients
from coterie.broker.counts import Counts
from coterie.broker.journal import Journal
from coterie.broker.limits import Gate
from coterie.broker.orders import Order, Write
from coterie.broker.publishing import Publishing, Route
from coterie.broker.siblings import Siblings
from coterie.broker.turn import Turn
from coterie.mqtt.connection import OPEN, Connection
from coterie.mqtt.packets import MQTT_5, Publish
from coterie.mqtt.properties import NO_PROPERTIES
from coterie.mqtt.publish import Message, PublishRun, scan_publishes
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions

LANES_MAX = 64  # of a connection


class Lane:
    """See the module. `head` is what all its chunks begin with, up to the packet identifier or the payload."""

    __slots__ = (
        "chunk_bytes", "client", "connection", "head", "is_clear", "passed_s", "payload_bytes", "qos", "receivers",
        "tally", "topic", "version",
    )  # fmt: skip

    def __init__(self, connection: Connection, head: bytes, chunk_bytes: int, payload_bytes: int, route: Route) -> None:
        self.connection, self.head, self.qos = connection, head, head[0] >> 1 & 1
        self.chunk_bytes, self.payload_bytes = chunk_bytes, payload_bytes
        self.tally, self.client, self.topic, self.version = (
            route.tally, route.tally.client, route.tally.topic, route.version,
        )  # fmt: skip
        self.receivers: tuple[Session, ...] = tuple(one.receiver for one in route.match.receivers)
        # At QoS 1 to one client, another one than the publisher, whose own identifiers are given here.
        is_one = len(self.receivers) == 1 and self.receivers[0] is not connection.session
        self.is_clear = route.is_straight and (
            not self.qos or (is_one and all(one.qos for one in route.match.receivers))
        )  # fmt: skip
        self.passed_s: list[float] = []  # when, since somebody last looked


class StraightWay:
    """See the module."""

    def __init__(
        self, clients: Clients, sessions: Sessions, publishing: Publishing, gate: Gate,
        identifiers: Identifiers, journal: Journal | None, counts: Counts, siblings: Siblings | None, turn: Turn,
    ) -> None:  # fmt: skip
        self._lines, self._fresh = clients.lines, clients.fresh
        self._index, self._budget, self._names = sessions.index, sessions.budget, sessions.names
        self._publishing, self._gate, self._identifiers = publishing, gate, identifiers
        self._journal, self._counts, self._siblings, self._turn = journal, counts, siblings, turn
        self.used: list[Lane] = []  # since somebody last looked

    def take(self, line: int, data: bytes, now_s: float) -> list[Order] | None:
        """The orders of a turn that is this chunk; None, and nothing has happened, if it has to go the long way."""
        client = self._lines.get(line)
        if client is None or client.is_closing:
            return None
        connection = client.connection
        lane: Lane | None = connection.lanes.get(len(data))
        if lane is None or lane.version != self._index.version or not data.startswith(lane.head):
            if len(data) == 4 and data[0] == 0x40:
                return self._acknowledged(connection, data, now_s)
            lane = self._new_lane(connection, data)
        if lane is None or not lane.is_clear or connection.stage is not OPEN:
            return None
        if self._siblings is not None and not self._siblings.look():
            return None  # somebody in another process may want it by now
        if lane.qos:
            return self._once(lane, connection, data, now_s)
        found: list[Order] = []
        version, persisted = connection.version, self._turn.persisted
        for session in lane.receivers:
            receiver = session.connection
            if (
                session.plain_version != version
                or receiver is None
                or session.output
                or receiver.held_serial
                or receiver.held_batch > persisted
            ):
                return None
            found.append(Write(receiver.line, [data]))
        if not lane.passed_s:
            self.used.append(lane)
        lane.passed_s.append(now_s)
        return found

    def _once(self, lane: Lane, connection: Connection, data: bytes, now_s: float) -> list[Order] | None:
        """At QoS 1: acknowledged, and sent with an identifier of the receiver's."""
        session, budget, persisted = lane.receivers[0], self._budget, self._turn.persisted
        receiver, at = session.connection, len(lane.head)
        packet_id = data[at : at + 2]
        if (
            session.plain_version != connection.version
            or session.journal is not None
            or receiver is None
            or session.output
            or connection.output
            or receiver.held_serial
            or connection.held_serial
            or receiver.held_batch > persisted
            or connection.held_batch > persisted
            or packet_id == b"\0\0"
            or connection.quota <= 0
            or budget.full
            or budget.bytes + len(data) > budget.bytes_max
        ):
            return None
        rest = data[at + 2 :]
        payload = rest
        if connection.version >= MQTT_5:
            if rest[0]:
                return None
            payload = rest[1:]
        identifier = self._identifiers.next(microseconds(now_s))
        message = Message(lane.topic, payload, 1, False, NO_PROPERTIES, None, lane.client, identifier)
        sent_id = (session.last_packet_id + 1 & 0xFFFF).to_bytes(2, "big")
        if not session.send_plain(message, 1, False, lane.head + sent_id + rest):
            return None
        if not lane.passed_s:
            self.used.append(lane)
        lane.passed_s.append(now_s)
        return [
            Write(connection.line, [b"\x40\x02" + packet_id]),
            Write(receiver.line, [session.output.pop()]),
        ]

    def _acknowledged(self, connection: Connection, data: bytes, now_s: float) -> list[Order] | None:
        session = connection.session
        if data[1] != 2 or session is None or connection.stage is not OPEN or not connection.is_between:
            return None
        if session.queue_count or not session.on_acknowledged_run(data, 0, now_s):
            return None  # more is to be done than to forget it
        connection.excuse(now_s)
        self._counts.bytes_in += 4
        return []

    def _new_lane(self, connection: Connection, data: bytes) -> Lane | None:
        session = connection.session
        if connection.line in self._fresh:
            return None  # another process may be the better place for it
        if session is None or connection.stage is not OPEN or not _is_one(data) or not connection.is_between:
            return None
        found: list[Publish | PublishRun] = []
        end, _ = scan_publishes(data, 0, connection.version, self._names, found, connection.options.packet_bytes_max)
        if end != len(data) or self._gate.watches_publishes:
            return None
        packet = found[0]
        payload_bytes = len(packet.payload) if isinstance(packet, Publish) else packet.payload_bytes
        between = 0 if data[0] == 0x30 else 3 if connection.version >= MQTT_5 else 2  # what differs, and properties
        route = self._publishing.route(connection, session, packet.topic)
        if len(connection.lanes) >= LANES_MAX:
            connection.lanes.clear()
        lane = connection.lanes[len(data)] = Lane(
            connection, data[: len(data) - payload_bytes - between], len(data), payload_bytes, route
        )
        return lane

    def settle(self) -> None:
        """Count what has passed, and put it into the journal."""
        used, self.used = self.used, []
        for lane in used:
            passed_s, lane.passed_s = lane.passed_s, []
            count, receivers, counts = len(passed_s), len(lane.receivers), self._counts
            lane.connection.excuse(passed_s[-1])
            counts.messages_in += count
            counts.messages_out += count * receivers
            counts.bytes_in += count * lane.chunk_bytes
            counts.bytes_out += count * (lane.chunk_bytes * receivers + 4 * lane.qos)
            counts.fan_out.add(receivers, count)
            if self._journal is not None:
                for moment_s in passed_s:
                    self._journal.published(lane.tally, moment_s, lane.payload_bytes)


def _is_one(data: bytes) -> bool:
    """Whether it may be one whole PUBLISH of the common kind."""
    if len(data) < 5 or (data[0] != 0x30 and data[0] != 0x32):
        return False
    return len(data) == data[1] + 2 if data[1] < 128 else len(data) == (data[1] & 127 | data[2] << 7) + 3
