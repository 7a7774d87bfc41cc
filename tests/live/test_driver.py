"""The driver: what shares a turn, what waits for the disk and what does not, and sockets that are read by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any, cast

from coterie.broker.facts import Booted, Bytes
from coterie.broker.machine import Broker
from coterie.broker.writes import StoreWrite
from coterie.live.driver import Driver
from coterie.live.logins import Logins
from coterie.live.pacing import SILENT_ROUNDS_MAX, Pacer
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.properties import Properties
from coterie.mqtt.stream import Decoder
from tests.broker.driving import setup
from tests.broker.shelf import MemoryShelf

BASE_S = 1_760_000_000.0


class SlowStore:
    """Every sync waits until it is let go."""

    is_full = True

    def __init__(self) -> None:
        self.appended = self.synced = self.syncs = 0
        self.gate = Event()

    def append(self, writes: list[StoreWrite]) -> object:
        self.appended += 1
        return None

    def syncing(self) -> Callable[[], int]:
        number = self.appended

        def wait() -> int:
            assert self.gate.wait(10)
            self.syncs += 1
            return number

        return wait

    def note_synced(self, number: int) -> None:
        self.synced = number


class Wire:
    """A client's line: what it was written, as packets."""

    def __init__(self) -> None:
        self.writes = 0
        self._decoder = Decoder(p.MQTT_5)

    def write(self, chunks: list[bytes], at_once: bool) -> None:
        self.writes += 1
        self._decoder.feed(b"".join(chunks))

    def finish(self, linger: bool) -> None: ...
    def hold(self, reason: str) -> None: ...
    def release(self, reason: str) -> None: ...

    def heard(self) -> list[Any]:
        found = []
        while (packet := self._decoder.next_packet()) is not None:
            found.append(packet)
        return found


def started(store: Any) -> tuple[Driver, Callable[..., tuple[Wire, Callable[..., None]]]]:
    shelf = MemoryShelf()
    driver = Driver(
        Broker(setup(), shelf), store, cast(Logins, None), None, BASE_S, lambda text: None, lambda text: None
    )
    driver.take(Booted(1, shelf.saved()))
    driver.turn()

    def client(name: str, **connect: Any) -> tuple[Wire, Callable[..., None]]:
        wire = Wire()
        line = driver.opened(wire, "127.0.0.1", "")

        def say(*packets: p.Packet) -> None:
            driver.take(Bytes(line, b"".join(encode_packet(one, p.MQTT_5) for one in packets)))
            driver.turn()

        say(p.Connect(name, **connect))
        return wire, say

    return driver, client


def kinds(wire: Wire) -> list[str]:
    return [type(one).__name__ for one in wire.heard()]


def test_a_slow_disk_holds_back_what_depends_on_it_and_nothing_else() -> None:
    async def run() -> None:
        store = SlowStore()
        store.gate.set()
        driver, client = started(store)
        reader, ask = client("reader", clean_start=False, properties=Properties(session_expiry_s=100))
        ask(p.Subscribe(1, (p.Subscription("a", 1),)))
        other, say = client("other")
        ping, pong = client("ping")
        await driver.settled()
        assert kinds(reader) == ["ConnAck", "SubAck"]
        assert kinds(other) == kinds(ping) == ["ConnAck"]
        store.gate.clear()
        syncs = store.syncs
        for number in range(1, 6):
            say(p.Publish("a", b"x", 1, packet_id=number))
            pong(p.PingReq())
            await asyncio.sleep(0)
        assert kinds(ping) == ["PingResp"] * 5  # while the disk does not answer
        assert kinds(other) == kinds(reader) == []
        store.gate.set()
        await driver.settled()
        assert kinds(other) == ["PubAck"] * 5
        assert kinds(reader) == ["Publish"] * 5
        assert store.syncs - syncs == 2  # the first, and one for all that came meanwhile
        assert store.synced == store.appended
        driver.stop()

    asyncio.run(run())


class Chatty:
    """A socket with words to be read by hand."""

    def __init__(self, words: list[bool | None]) -> None:
        self.words, self.holds = words, [""]
        self.reads = 0

    def hold(self, reason: str) -> None:
        self.holds.append(reason)

    def release(self, reason: str) -> None:
        self.holds.remove(reason)

    def read_now(self) -> bool | None:
        self.reads += 1
        return self.words.pop(0) if self.words else False


class Turns:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def gather(self) -> None:
        self.calls.append("gather")

    def turn(self) -> None:
        self.calls.append("turn")


def test_paced_sockets_are_read_in_one_turn_per_budget_until_they_are_silent_or_over() -> None:
    async def run() -> None:
        turns = Turns()
        pacer = Pacer(0.001, turns)
        busy, over = Chatty([True, True, True]), Chatty([True, None])
        pacer.join(busy)
        pacer.join(over)
        assert busy.holds == over.holds == ["", "pace"]
        for _ in range(2000):
            await asyncio.sleep(0.001)
            if not pacer.count:
                break
        assert (busy.reads, over.reads) == (3 + SILENT_ROUNDS_MAX + 1, 2)
        assert busy.holds == over.holds == [""]
        assert turns.calls == ["gather", "turn"] * busy.reads
        rounds = pacer.rounds
        await asyncio.sleep(0.01)
        assert pacer.rounds == rounds  # nobody to be read: no timer

    asyncio.run(run())
