"""Brokers that are listened to over MQTT: their log (`log_dest topic`), or simply everything that is published."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from coterie.errors import ConfigError, InputError, RunError
from coterie.fleets.observe.following import Totals, commit
from coterie.fleets.observe.gathering import Gathering, PublishedMessages
from coterie.fleets.observe.journalstore import BrokerState, JournalStore
from coterie.fleets.observe.mosquitto import MosquittoLog
from coterie.fleets.observe.places import BrokerPlace
from coterie.fleets.observe.stamps import Stamps
from coterie.live.client import MqttClient, connect_packet
from coterie.mqtt.packets import MQTT_3, Publish
from coterie.pipeline.logpatterns import OBSERVER

LOG_TOPICS = "$SYS/broker/log/#"
OWN = "$SYS/"
SECOND_US = 1_000_000


class MqttTap:
    """A client with `#` and `$SYS/#`: how much is published on which topic; by whom it cannot know."""

    filters = ("#", "$SYS/#")

    def __init__(self, node: str, state: BrokerState, into: Gathering) -> None:
        self._node, self._into = node, into
        self._sums: dict[tuple[int, str], list[int]] = {}  # second and topic -> messages and bytes
        self._totals: dict[str, float] = {}
        self._t_us = 0

    def hear(self, message: Publish, t_us: int) -> None:
        self._t_us = t_us
        account = self._into.account(self._node)
        if message.topic.startswith(OWN):
            account.add("own topics")
            word = message.payload[:32].split(b" ")[0]
            if word.isdigit():
                self._totals[message.topic.removeprefix("$SYS/broker/").replace("/", "_")] = float(word)
        elif message.retain:
            account.add("other")  # kept from before; nobody publishes it now
        else:
            account.add("publications")
            sums = self._sums.setdefault((t_us // SECOND_US, message.topic), [0, 0])
            sums[0] += 1
            sums[1] += len(message.payload)

    def finish(self) -> None:
        for (second, topic), (count, size) in self._sums.items():
            one = PublishedMessages(self._node, second * SECOND_US, None, topic, round(size / count))
            self._into.publications[one] += count
        if self._totals:
            self._into.counters.append((self._node, self._t_us, self._totals))
        self._into.account(self._node).note("a tap sees topics, sizes and rates, not who publishes or subscribes")


class LogTap:
    """A client that is told mosquitto's log; debug lines (publications) are not published by it."""

    filters = (LOG_TOPICS,)

    def __init__(self, node: str, state: BrokerState, into: Gathering) -> None:
        self._log = MosquittoLog(node, Stamps(), state.memory, state.sessions, into)
        self._order = 0

    def hear(self, message: Publish, t_us: int) -> None:
        self._order += 1
        self._log.feed(self._order, message.payload.decode("utf-8", "backslashreplace").rstrip("\r\n"))

    def finish(self) -> None:
        self._log.finish()


async def listen(
    store: JournalStore,
    kind: type[MqttTap] | type[LogTap],
    places: Sequence[BrokerPlace],
    every_s: float,
    length_s: float | None,
    totals: Totals,
) -> None:
    """Listen to all brokers for `length_s` (None: until cancelled), committing every `every_s`."""
    inboxes: dict[str, list[tuple[Publish, int]]] = {place.node: [] for place in places}
    clients = [_client(place, inboxes[place.node]) for place in places]
    try:
        for place, client in zip(places, clients, strict=True):
            try:
                await client.start()
                await client.subscribe(*kind.filters, qos=0)
            except RunError as error:
                raise InputError(_without_secret(place.location), str(error)) from None
        loop = asyncio.get_running_loop()
        end_s = None if length_s is None else loop.time() + length_s
        while end_s is None or loop.time() < end_s:
            await asyncio.sleep(every_s if end_s is None else min(every_s, max(0.0, end_s - loop.time())))
            _take_in(store, kind, inboxes, totals)
    finally:
        for client in clients:
            await client.stop()
        _take_in(store, kind, inboxes, totals)


def _take_in(
    store: JournalStore,
    kind: type[MqttTap] | type[LogTap],
    inboxes: dict[str, list[tuple[Publish, int]]],
    totals: Totals,
) -> None:
    gathering = Gathering()
    for node, inbox in inboxes.items():
        tap = kind(node, store.state.broker(node), gathering)
        for message, t_us in inbox:
            tap.hear(message, t_us)
        inbox.clear()
        tap.finish()
    commit(store, gathering, totals)


def _client(place: BrokerPlace, inbox: list[tuple[Publish, int]]) -> MqttClient:
    parts = urlsplit(place.location)
    if parts.scheme != "mqtt" or not parts.hostname:
        raise ConfigError("SOURCE", place.location, "an address like mqtt://host:1883 or mqtt://user:secret@host:1883")
    keep: Callable[[Publish], None] = lambda message: inbox.append((message, time.time_ns() // 1000))  # noqa: E731
    packet = connect_packet(
        f"{OBSERVER}-{secrets.token_hex(4)}",
        version=MQTT_3,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )
    return MqttClient(parts.hostname, parts.port or 1883, packet, keep, follow=False, give_up_s=2)


def _without_secret(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or 1883}"
