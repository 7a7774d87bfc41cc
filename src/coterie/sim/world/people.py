"""A client with a will of its own: it wants to be connected, subscribed and heard, and tries until it is.

The MQTT is `mqtt.client`'s; here is what an application does around it: reconnect, subscribe again if the session is
gone, remember what was confirmed. Everything it sees goes into its diary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.mqtt.client import (
    Client,
    Connected,
    Disconnected,
    Event,
    PublishDone,
    Refused,
    SubscribeDone,
    UnsubscribeDone,
)
from coterie.mqtt.packets import MQTT_5, Connect, Publish, Subscription, Will
from coterie.mqtt.properties import NO_PROPERTIES, Properties
from coterie.mqtt.reasons import MqttError, Reason
from coterie.sim.world.chance import Chance
from coterie.sim.world.record import Chronicle, Grant, Receipt, Uttered
from coterie.sim.world.scenario import Resident, Utter

EXPIRY_S = 1_000_000
ANSWER_US = 10_000_000  # a CONNECT without an answer for so long is given up
WILLS = 1_000_000  # numbers of wills begin here
NONE, HAS, UNSURE = "none", "has", "unsure"


class ClientEnd(Protocol):
    """A person's end of a connection. `said_us`: when the node sent what is read now."""

    @property
    def said_us(self) -> int: ...

    def send(self, data: bytes) -> None: ...
    def doze(self, is_dozing: bool) -> None: ...
    def leave(self, how: str) -> None: ...


class Surrounding(Protocol):
    """What a person needs of the world."""

    now_us: int
    node_count: int
    record: Chronicle

    def at(self, time_us: int, action: Callable[[], None]) -> None: ...
    def connect(self, person: Person, node: int, attempt: int) -> ClientEnd: ...
    def copies_of(self, node: int, payload: bytes, asked_us: int, said_us: int) -> tuple[tuple[int, ...], int]: ...
    def is_alone(self, node: int) -> bool: ...
    def is_bereft(self, person: Person) -> bool: ...
    def was_parted(self, node: int, peer: int, since_us: int) -> bool: ...


def payload_of(number: int, size: int) -> bytes:
    return str(number).encode().ljust(size, b".")


def number_of(payload: bytes) -> int:
    return int(payload.rstrip(b"."))


class Person:
    """See the module."""

    def __init__(self, world: Surrounding, who: int, resident: Resident, chance: Chance) -> None:
        self.resident, self.who = resident, who
        self.will_number = WILLS + who
        self.diary = world.record.diaries[who]
        self.is_wanting = False  # to be connected
        self.wire: ClientEnd | None = None
        self._world, self._chance = world, chance
        self.node = resident.home
        self.last_node = -1  # that let it in
        self._is_forgettable = False  # that node was alone when it was left: what was agreed there may be gone
        self._was_begun_alone = False  # the session
        self.was_split = False  # its session may have lived at two nodes
        self._lost_us = 0
        self._attempts = 0
        self._session = NONE  # what the server must say about it
        self._is_dozing = False
        self._wanted: dict[str, int] = {}
        self._unwanted: dict[str, None] = {}
        self._asked: dict[int, tuple[str, ...]] = {}  # identifiers of SUBSCRIBE and UNSUBSCRIBE under way
        self._last_asked: dict[str, int] = {}  # filter -> the last SUBSCRIBE with it
        self._sent: dict[int, int] = {}  # packet identifier -> number of the message
        self._sizes: dict[int, int] = {}  # the same -> its size, until it is acknowledged
        self._alarm_us = -1
        self._here: list[Uttered] = []  # what was said on this connection
        self.client = Client(self._connect())

    def _connect(self) -> Connect:
        one = self.resident
        is_new = one.version >= MQTT_5
        properties = Properties(session_expiry_s=EXPIRY_S) if is_new and one.is_lasting else Properties()
        will = Will(one.will, payload_of(self.will_number, 0), 1) if one.will else None
        user, secret = (one.user, b"secret of " + one.user.encode()) if one.user else (None, None)
        return Connect(
            one.name,
            one.version,
            not one.is_lasting,
            one.keep_alive_s,
            will=will,
            username=user,
            password=secret,
            properties=properties,
        )

    # --- what it is told to do ---

    def arrive(self, node: int) -> None:
        if node >= 0 and not (self.is_wanting and self.wire is not None):  # else it is somewhere already
            self.node = node % self._world.node_count
        if not self.is_wanting:
            self.is_wanting = True
            self._try()

    def settle_at(self, node: int) -> None:
        """Its home is gone."""
        self.node = node

    def depart(self, how: str) -> None:
        self.is_wanting = False
        wire = self.wire
        if wire is None:
            return
        if how == "torn" and self.client.is_connected and self.resident.will:
            self.diary.wills_due.append((self._world.now_us, self.node))
        if how == "said" and self.client.is_connected:
            self._note_left()
            self.client.disconnect()
            self._flush()
        self._gone(how != "silent")
        wire.leave(how)

    def wish(self, topic_filter: str, qos: int) -> None:
        if self._wanted.get(topic_filter, qos) != qos:  # which of the two holds is not known until SUBACK
            self.diary.end_grants(self._world.now_us, topic_filter)
        self._wanted[topic_filter] = qos
        self._unwanted.pop(topic_filter, None)
        if self.client.is_connected:
            self._subscribe((topic_filter,))
            self._flush()

    def unwish(self, topic_filter: str) -> None:
        if self._wanted.pop(topic_filter, None) is None:
            return
        self.diary.end_grants(self._world.now_us, topic_filter)
        self._unwanted[topic_filter] = None
        if self.client.is_connected:
            self._unsubscribe((topic_filter,))
            self._flush()

    def utter(self, said: Utter) -> None:
        number, qos, size = said.number, said.qos, said.size
        if not qos and not self.client.is_connected:
            return
        one = Uttered(number, self.who, said.topic, qos, said.retain, self._world.now_us, expiry_s=said.expiry_s)
        self._world.record.uttered[number] = one
        properties = Properties(message_expiry_s=said.expiry_s) if said.expiry_s else NO_PROPERTIES
        packet_id = self.client.publish(said.topic, payload_of(number, size), qos, said.retain, properties)
        if self.client.is_connected:
            one.nodes = (self.node,)
            self._here.append(one)
        if packet_id:
            self._sent[packet_id] = number
            self._sizes[packet_id] = size
        self._flush()

    def doze(self, is_dozing: bool) -> None:
        self._is_dozing = is_dozing
        if self.wire is not None:
            self.wire.doze(is_dozing)

    # --- connecting ---

    def _try(self) -> None:
        if not self.is_wanting or self.wire is not None:
            return
        self._attempts += 1
        # For its node it is there from now on, whether or not it reads the answer.
        self.diary.presences.append((self._world.now_us, -1))
        if self.resident.roams and self._chance.number(self._attempts, 2):
            self.node = self._chance.number(self._attempts + (1 << 32), self._world.node_count)
        self.diary.connection += 1
        self._here.clear()
        if self.resident.will:  # its node has it with the CONNECT, answered or not
            one = Uttered(self.will_number, self.who, self.resident.will, 1, False, self._world.now_us, is_will=True)
            self._world.record.uttered.setdefault(self.will_number, one)
        wire = self.wire = self._world.connect(self, self.node, self._attempts)
        wire.doze(self._is_dozing)
        self.client.start(self._world.now_us / 1e6, resume=self.resident.is_lasting)
        self._flush()
        self._world.at(self._world.now_us + ANSWER_US, lambda: self._give_up(wire))

    def _give_up(self, wire: ClientEnd) -> None:
        if self.wire is wire and not self.client.is_connected:
            self._gone()
            wire.leave("torn")

    def moved(self, wire: ClientEnd, source: int, node: int) -> None:
        """Another process of the machine has its connection now, and hears all that was said on it."""
        if self.wire is wire and self.node == source:
            self.node = self.last_node = node
            for one in self._here:
                one.nodes = (*one.nodes[:-1], node)

    def on_lost(self, wire: ClientEnd) -> None:
        """The connection is gone, whoever ended it."""
        if self.wire is wire:
            self._gone()

    def _gone(self, is_told: bool = True) -> None:
        """`is_told`: whether its node learns of it."""
        now_us = self._world.now_us
        self.diary.losses_us.append(now_us)
        if self.client.is_connected:
            self._note_left()
        if is_told:
            self.diary.presences[-1] = (self.diary.presences[-1][0], now_us)
        if not self.client.is_connected and self._session == NONE:
            self._session = UNSURE  # the server may have heard the CONNECT
        if not self.resident.is_lasting:
            self.diary.end_grants(now_us)
        self.client.is_connected = False
        self.wire = None
        self._asked.clear()
        self._attempts += 1
        delay_us = 50_000 + self._chance.number(self._attempts, 1_500_000)
        self._world.at(now_us + delay_us, self._try)

    def _note_left(self) -> None:
        self._lost_us, self._is_forgettable = self._world.now_us, self._world.is_alone(self.node)
        if self._is_forgettable:
            self.diary.stays_alone.append((self._lost_us, self.node))

    # --- what comes ---

    def on_bytes(self, wire: ClientEnd, data: bytes) -> None:
        if self.wire is not wire:
            return
        try:
            events = self.client.receive(data, self._world.now_us / 1e6)
        except MqttError as error:
            self._world.record.violate("protocol", f"{self.resident.name} was sent nonsense: {error}")
            self._gone()
            wire.leave("torn")
            return
        for packet_id in [one for one in self._sizes if self.client.is_received(one)]:
            self._note_copies(packet_id, wire.said_us)  # PUBREC: its client does not keep it any more
        for event in events:
            self._on_event(event)
        if self.wire is wire:
            self._flush()

    def _on_event(self, event: Event) -> None:
        match event:
            case Publish():
                self._on_publish(event)
            case PublishDone():
                self._on_published(event)
            case Connected():
                self._on_connected(event)
            case SubscribeDone():
                self._on_subscribed(event)
            case UnsubscribeDone():
                for topic_filter in self._asked.pop(event.packet_id, ()):
                    self._unwanted.pop(topic_filter, None)
            case Refused() | Disconnected():
                if isinstance(event, Disconnected):  # it was connected until now
                    self._note_left()
                wire = self.wire
                if wire is not None:
                    self._gone()
                    wire.leave("torn")

    def _on_connected(self, event: Connected) -> None:
        record, name = self._world.record, self.resident.name
        record.checked["session"] += 1
        self.diary.since_us = self._world.now_us
        if self._world.is_bereft(self):
            self._session = UNSURE
            self.diary.end_grants(self._world.now_us)
        elif self._is_forgettable and self._was_taken_in(self._lost_us):
            self._forget_agreed()
        expected = self._session if self.resident.is_lasting else NONE
        if event.session_present and expected == NONE:
            record.violate("session", f"{name} was given a session that it never had")
        if not event.session_present and expected == HAS:
            record.violate("session", f"{name} was told that its session is gone")
        if self._session != HAS:
            self._was_begun_alone = self._world.is_alone(self.node)
        self._session = HAS if self.resident.is_lasting else NONE
        for packet_id, number in self._sent.items():
            one = record.uttered[number]
            if one.acked_us < 0:
                one.resends += 1
                one.nodes = (*one.nodes, self.node)
                self._here.append(one)
                one.may_double |= not event.session_present
                one.may_double |= not self.client.is_received(packet_id) and self._was_taken_in(one.asked_us)
        if self.last_node not in (-1, self.node) and self._world.is_alone(self.node):
            self._was_begun_alone = True  # it has moved there, and is nowhere else
        self.last_node, self._is_forgettable = self.node, False
        if not event.session_present:
            self.diary.epoch += 1
            self.diary.end_grants(self._world.now_us)
            self._was_begun_alone = self._world.is_alone(self.node)
        granted = {grant.filter for grant in self.diary.grants if grant.until_us < 0}
        missing = tuple(one for one in self._wanted if one not in granted)
        if missing:
            self._subscribe(missing)
        if self._unwanted:
            self._unsubscribe(tuple(self._unwanted))

    def _was_taken_in(self, since_us: int) -> bool:
        """Whether its node could not be asked what it had when another one took its session from a copy."""
        last, here = self.last_node, self.node
        return last not in (-1, here) and self._world.was_parted(last, here, since_us)

    def _forget_agreed(self) -> None:
        """What a node granted while nobody kept for it is not known where its client is taken in."""
        self.was_split = True
        if self._was_begun_alone and self._session == HAS:
            self._session = UNSURE
        for grant in self.diary.grants:
            if grant.is_alone and grant.until_us < 0:
                grant.until_us = self._world.now_us

    def _subscribe(self, filters: tuple[str, ...]) -> None:
        packet_id = self.client.subscribe(*(Subscription(one, self._wanted[one]) for one in filters))
        self._asked[packet_id] = filters
        self._last_asked.update(dict.fromkeys(filters, packet_id))

    def _unsubscribe(self, filters: tuple[str, ...]) -> None:
        self._asked[self.client.unsubscribe(*filters)] = filters

    def _on_subscribed(self, event: SubscribeDone) -> None:
        diary, now_us = self.diary, self._world.now_us
        for topic_filter, reason in zip(self._asked.pop(event.packet_id, ()), event.reasons, strict=False):
            if self._last_asked.get(topic_filter) != event.packet_id:
                continue  # it has asked again since, perhaps for another QoS: that answer counts
            if reason < 0x80 and topic_filter in self._wanted:
                diary.end_grants(now_us, topic_filter)
                is_alone = self._world.is_alone(self.node)
                diary.grants.append(
                    Grant(topic_filter, reason, now_us, diary.epoch, diary.connection, is_alone=is_alone)
                )
            elif reason >= 0x80:
                self._wanted.pop(topic_filter, None)

    def _on_publish(self, packet: Publish) -> None:
        try:
            number = number_of(packet.payload)
        except ValueError:
            if not packet.topic.startswith("$"):
                self._world.record.violate("garbled", f"{self.resident.name} got {packet.payload!r}")
            return
        diary, now_us = self.diary, self._world.now_us
        is_alone = packet.qos == 2 and self._world.is_alone(self.node)
        diary.receive(
            Receipt(
                now_us, number, packet.topic, packet.qos, packet.retain, diary.epoch, diary.connection, self.node,
                is_alone,
            )
        )  # fmt: skip

    def _on_published(self, event: PublishDone) -> None:
        number = self._sent.pop(event.packet_id, None)
        if number is not None:
            one = self._world.record.uttered[number]
            one.acked_us = self._world.now_us
            # A PUBREL that is sent again after its answer was lost is not known any more, and need not be.
            one.is_refused = event.reason >= 0x80 and event.reason != Reason.PACKET_ID_NOT_FOUND
            if event.packet_id in self._sizes and self.wire is not None:
                self._note_copies(event.packet_id, self.wire.said_us, number)

    def _note_copies(self, packet_id: int, said_us: int, number: int = 0) -> None:
        """Of a message that is acknowledged."""
        number = number or self._sent[packet_id]
        one = self._world.record.uttered[number]
        payload = payload_of(number, self._sizes.pop(packet_id))
        one.copies, one.copies_due = self._world.copies_of(self.node, payload, one.asked_us, said_us)

    # --- sending, and time ---

    def _flush(self) -> None:
        client = self.client
        if self.wire is not None and client.output:
            data = b"".join(client.output)
            client.output.clear()
            client.sent(self._world.now_us / 1e6)
            self.wire.send(data)
        self._set_alarm()

    def _set_alarm(self) -> None:
        deadline_s = self.client.deadline_s
        if deadline_s is None:
            return
        due_us = int(deadline_s * 1e6)
        if self._alarm_us <= self._world.now_us or due_us < self._alarm_us:
            self._alarm_us = max(due_us, self._world.now_us + 1)
            self._world.at(self._alarm_us, self._on_alarm)

    def _on_alarm(self) -> None:
        wire = self.wire
        if wire is None:
            return
        if self.client.on_time(self._world.now_us / 1e6):
            self._flush()
        else:
            self._gone()
            wire.leave("torn")
