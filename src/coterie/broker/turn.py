"""What a turn gathers: the time, orders, writes. Every part of a broker has a hand on it."""

from __future__ import annotations

from coterie.broker.carried import EPOCH_S
from coterie.broker.orders import Order, Pause, Resume, Say
from coterie.broker.writes import Key, StoreWrite
from coterie.protocol.events import CancelTimer, SetTimer, Timer


class Turn:
    """`now_s` is set by every step. Orders leave with the step, writes when the turn ends."""

    __slots__ = ("batch", "now_s", "orders", "persisted", "writes")

    def __init__(self) -> None:
        self.now_s = 0.0
        self.persisted = 0  # the last batch that is safe
        self.batch = 1  # the one that this turn's writes go into
        self.orders: list[Order] = []
        self.writes: list[StoreWrite] = []

    @property
    def now_us(self) -> int:
        """The time as identifiers hold it."""
        now_us = int((self.now_s - EPOCH_S) * 1e6)
        return now_us if now_us > 0 else 0

    def take_orders(self) -> list[Order]:
        orders, self.orders = self.orders, []
        return orders

    def set_timer(self, timer: Timer, delay_s: float) -> None:
        self.orders.append(SetTimer(timer, delay_s))

    def cancel_timer(self, timer: Timer) -> None:
        self.orders.append(CancelTimer(timer))

    def pause(self, line: int) -> None:
        self.orders.append(Pause(line))

    def resume(self, line: int) -> None:
        self.orders.append(Resume(line))

    def say(self, text: str) -> None:
        self.orders.append(Say(text))

    def write(self, table: str, key: Key, value: bytes | None) -> None:
        self.writes.append((table, key, value))
