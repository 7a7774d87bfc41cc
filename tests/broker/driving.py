"""A driver for tests: one broker, a shelf in memory, time by hand, and every order on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.broker.commands import Setup
from coterie.broker.facts import Booted, Bytes, Closed, Fact, Opened, Persisted
from coterie.broker.machine import Broker
from coterie.broker.orders import Close, Order, Persist, Write
from coterie.broker.siblings import WishBoard
from coterie.model.plan import Slice
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_5, Connect, Packet
from coterie.mqtt.stream import Decoder
from coterie.protocol.events import CancelTimer, SetTimer, Timer, TimerFired
from coterie.systems import system_named
from tests.broker.shelf import MemoryShelf

START_S = 1_760_000_000.0


def setup(node: int = 0, system: str = "flooding", **sections: Any) -> Setup:
    slice_ = sections.pop("slice", None) or Slice(version=0, system=system, node=node)
    return Setup(node=node, name=f"n{node}", system_named=system_named, slice=slice_, **sections)


class Driven:
    """Persists at once unless `is_slow`; then batches wait in `waiting` until `persist`."""

    def __init__(
        self, made: Setup | None = None, shelf: MemoryShelf | None = None, life: int = 1, board: WishBoard | None = None
    ) -> None:
        self.shelf = shelf or MemoryShelf()
        self.broker = Broker(made or setup(), self.shelf, board)
        self.now_s = START_S
        self.orders: list[Order] = []  # all that were carried out, in order
        self.written: dict[int, bytes] = {}
        self.closed: dict[int, bool] = {}
        self.timers: dict[Timer, float] = {}
        self.is_slow = False
        self.waiting: list[Persist] = []
        self.on_order: Callable[[Order], None] = lambda order: None
        self._line = 0
        self._decoders: dict[int, Decoder] = {}
        self.take(Booted(life, self.shelf.saved()))

    def take(self, *facts: Fact) -> None:
        """One turn."""
        for fact in facts:
            self._carry_out(self.broker.step(fact, self.now_s))
        self._carry_out(self.broker.end_turn(self.now_s))

    def passes(self, line: int, data: bytes) -> bool:
        """Whether it went the straight way."""
        orders = self.broker.straight(line, data, self.now_s)
        self._carry_out(orders or [])
        return orders is not None

    def lands(self, peer: int, frames: list[tuple[int, bytes]]) -> bool:
        """The same for what a process of the same machine said."""
        orders = self.broker.landed(peer, frames, self.now_s)
        self._carry_out(orders or [])
        return orders is not None

    def _carry_out(self, orders: list[Order]) -> None:
        for order in orders:
            self.orders.append(order)
            match order:
                case Write():
                    self.written[order.line] = self.written.get(order.line, b"") + b"".join(order.chunks)
                case Close():
                    self.closed[order.line] = order.linger
                case Persist():
                    self.waiting.append(order)
                    if not self.is_slow:
                        self.persist()
                case SetTimer():
                    self.timers[order.timer] = self.now_s + order.delay_s
                case CancelTimer():
                    self.timers.pop(order.timer, None)
                case _:
                    self.on_order(order)

    def persist(self) -> None:
        """The oldest batch is safe."""
        order = self.waiting.pop(0)
        self.shelf.write(order.writes)
        self._carry_out(order.then)
        self._carry_out(self.broker.step(Persisted(order.batch), self.now_s))

    def wait(self, duration_s: float) -> None:
        """Let time pass, stopping at every timer."""
        end_s = self.now_s + duration_s
        while self.timers:
            timer = min(self.timers, key=lambda one: (self.timers[one], repr(one)))
            if self.timers[timer] > end_s:
                break
            self.now_s = max(self.now_s, self.timers.pop(timer))
            self.take(TimerFired(timer))
        self.now_s = end_s

    def command(self, command: Any) -> None:
        self.take(command)

    # --- clients ---

    def open(self, host: str = "127.0.0.1", is_movable: bool = False) -> int:
        line = self.new_line()
        self.take(Opened(line, host, is_movable=is_movable))
        return line

    def new_line(self) -> int:
        self._line += 1
        self._decoders[self._line] = Decoder(MQTT_5)
        return self._line

    def client(self, name: str, is_movable: bool = False, **connect: Any) -> int:
        line = self.open(is_movable=is_movable)
        self._decoders[line].version = connect.get("version", MQTT_5)
        self.say(line, Connect(name, **connect))
        return line

    def say(self, line: int, *packets: Packet) -> None:
        version = self._decoders[line].version
        self.take(Bytes(line, b"".join(encode_packet(packet, version) for packet in packets)))

    def hear(self, line: int) -> list[Packet]:
        """What the client got since it was last asked."""
        decoder = self._decoders[line]
        decoder.feed(self.written.pop(line, b""))
        found = []
        while (packet := decoder.next_packet()) is not None:
            found.append(packet)
        return found

    def cut(self, line: int) -> None:
        self.take(Closed(line))
