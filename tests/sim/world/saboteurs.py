"""Brokers with one planted bug each: what the simulator is for is to find them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coterie.broker.crossing import Crossings
from coterie.broker.facts import Booted, Fact
from coterie.broker.machine import Broker
from coterie.broker.orders import Order, Persist
from coterie.broker.said import ClientComes
from coterie.broker.siblings import Siblings
from coterie.broker.transfers import Transfers
from coterie.broker.writes import DELIVERIES, INCOMING, SESSIONS, Saved, SessionRow, Shelf
from coterie.protocol.system import System
from coterie.sim.world.board import SimBoard
from coterie.sim.world.scenario import Scenario
from coterie.sim.world.site import Machine
from coterie.sim.world.torture import Making, setups

Bug = Callable[[list[Order]], list[Order]]


class Saboteur:
    """A broker whose orders, or what it is given at its start, are tampered with."""

    def __init__(
        self, broker: Machine, on_orders: Bug, on_start: Callable[[Saved], Saved] = lambda saved: saved
    ) -> None:
        self._broker, self._on_orders, self._on_start = broker, on_orders, on_start

    def step(self, fact: Fact, now_s: float) -> list[Order]:
        if isinstance(fact, Booted):
            fact = Booted(fact.life, self._on_start(fact.saved))
        return self._on_orders(self._broker.step(fact, now_s))

    def straight(self, line: int, data: bytes, now_s: float) -> list[Order] | None:
        orders = self._broker.straight(line, data, now_s)
        return None if orders is None else self._on_orders(orders)

    def landed(self, peer: int, frames: list[tuple[int, bytes]], now_s: float) -> list[Order] | None:
        orders = self._broker.landed(peer, frames, now_s)
        return None if orders is None else self._on_orders(orders)

    def end_turn(self, now_s: float) -> list[Order]:
        return self._on_orders(self._broker.end_turn(now_s))

    def may_link(self, peer: int) -> bool:
        return self._broker.may_link(peer)


def _rewritten(orders: list[Order], change: Callable[[Persist], list[Order]]) -> list[Order]:
    found: list[Order] = []
    for order in orders:
        found += change(order) if isinstance(order, Persist) else [order]
    return found


def drops_a_persist(orders: list[Order]) -> list[Order]:
    """Deliveries are not written."""

    def change(order: Persist) -> list[Order]:
        return [Persist(order.batch, [one for one in order.writes if one[0] != DELIVERIES], order.then)]

    return _rewritten(orders, change)


def skips_a_dedupe(orders: list[Order]) -> list[Order]:
    """That a QoS 2 message was taken is not written: after a restart its client's resend is a new one."""

    def change(order: Persist) -> list[Order]:
        return [Persist(order.batch, [one for one in order.writes if one[0] != INCOMING], order.then)]

    return _rewritten(orders, change)


def acknowledges_early(orders: list[Order]) -> list[Order]:
    """What has to wait for the disk leaves at once."""
    return _rewritten(orders, lambda order: [*order.then, Persist(order.batch, order.writes, [])])


def without_owners(saved: Saved) -> Saved:
    tables = dict(saved.tables)
    rows = []
    for client, value in saved.rows(SESSIONS):
        row = msgspec.msgpack.decode(value, type=SessionRow)
        rows.append((client, msgspec.msgpack.encode(msgspec.structs.replace(row, owner=None))))
    tables[SESSIONS] = rows
    return Saved(tables)


class TrustingBroker(Broker):
    """It takes what it sends to its keepers for kept."""

    def end_turn(self, now_s: float) -> list[Order]:
        orders = super().end_turn(now_s)
        if self.keeping is not None:
            self.keeping.safe = self.keeping.serial
        return orders


class LonelyBroker(Broker):
    """It has forgotten its keepers."""

    def _made_keeping(self, shelf: Shelf) -> None:
        return None


BUGS: dict[str, Callable[[Machine], Machine]] = {
    "drops a persist": lambda broker: Saboteur(broker, drops_a_persist),
    "skips a dedupe": lambda broker: Saboteur(broker, skips_a_dedupe),
    "acknowledges early": lambda broker: Saboteur(broker, acknowledges_early),
    "forgets an owner": lambda broker: Saboteur(broker, lambda orders: orders, without_owners),
}
KINDS = {"acknowledges before copies": TrustingBroker, "forgets its keepers": LonelyBroker}


class QuietSiblings(Siblings):
    """They grant and tell what is wanted without raising their number before."""

    def enter(self, topic_filter: str, kind: int) -> None:
        if kind > self._mine.get(topic_filter, -1):
            self._mine[topic_filter] = self._news[topic_filter] = kind


class ForgetfulCrossings(Crossings):
    """What a sibling did not confirm is forgotten with it."""

    def lost(self, peer: int) -> int:
        self.up.discard(peer)
        self._open[peer].clear()
        return 0


class ForgetfulTransfers(Transfers):
    """What a client sent before its socket was given away is forgotten with the file that was closed."""

    def _let_in(self, line: int, said: ClientComes) -> None:
        super()._let_in(line, msgspec.structs.replace(said, sent=b""))


# What is wrong with one of the processes of a machine: the part, and what stands in its place.
OF_MACHINE: dict[str, tuple[str, type]] = {
    "grants before it raises": ("siblings", QuietSiblings),
    "forgets the unconfirmed": ("crossing", ForgetfulCrossings),
    "forgets what it kept back": ("transfers", ForgetfulTransfers),
}


def sabotaged(scenario: Scenario, system_named: Callable[[str], System], bug: str) -> Making:
    made = setups(scenario, system_named)
    numbers = [0] * scenario.nodes

    def make(node: int, shelf: Shelf) -> Machine:
        if bug in OF_MACHINE:
            broker, (name, kind) = Broker(made[node], shelf, SimBoard(numbers, node)), OF_MACHINE[bug]
            getattr(broker, name).__class__ = kind
            return broker
        if bug in KINDS:
            return KINDS[bug](made[node], shelf)
        return BUGS[bug](Broker(made[node], shelf))

    return make
