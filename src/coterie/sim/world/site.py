"""One broker and the machine it runs on: the driver that the simulator is, as `live.driver` is the other one.

It has a clock that may be wrong, a disk, timers, and turns that end when chance says so: one fact at a time, or many
together, so that what is written together is drawn as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.broker.facts import Booted, Bytes, Fact, PeerSaid, Persisted, Proven, StoreFailed
from coterie.broker.machine import Broker
from coterie.broker.orders import (
    AnswerDoor,
    Close,
    Dial,
    Fail,
    HangUp,
    LeaveNetwork,
    Meet,
    Note,
    Order,
    PassSocket,
    Pause,
    Persist,
    Prove,
    Resume,
    Say,
    Tell,
    Write,
)
from coterie.broker.views import copies_said
from coterie.broker.writes import Shelf
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.protocol.events import CancelTimer, SetTimer, Timer, TimerFired
from coterie.sim.world.chance import Chance
from coterie.sim.world.disk import Disk
from coterie.sim.world.record import Chronicle
from coterie.sim.world.scenario import Clockwork

BASE_S = 1_800_000_000.0
SLOW = 200.0
HEARD, SAID = 1 << 40, 1 << 41  # draws for chunks of clients, and for what peers say, begin here


class Machine(Protocol):
    """A broker, as far as a driver knows it."""

    def step(self, fact: Fact, now_s: float) -> list[Order]: ...
    def straight(self, line: int, data: bytes, now_s: float) -> list[Order] | None: ...
    def landed(self, peer: int, frames: list[tuple[int, bytes]], now_s: float) -> list[Order] | None: ...
    def end_turn(self, now_s: float) -> list[Order]: ...
    def may_link(self, peer: int) -> bool: ...


class Outside(Protocol):
    """What a site needs of the world."""

    now_us: int
    record: Chronicle
    fact_count: int

    def at(self, time_us: int, action: Callable[[], None]) -> None: ...
    def write(self, node: int, line: int, data: bytes) -> None: ...
    def close(self, node: int, line: int) -> None: ...
    def pause(self, node: int, line: int, is_paused: bool) -> None: ...
    def pass_socket(self, node: int, line: int, peer: int, number: int) -> None: ...
    def tell(self, node: int, peer: int, data: bytes) -> None: ...
    def dial(self, node: int, peer: int) -> None: ...
    def hang_up(self, node: int, peer: int, is_abrupt: bool) -> None: ...
    def failed(self, node: int, reason: str) -> None: ...
    def answer(self, node: int, door: int, data: bytes) -> None: ...
    def left(self, node: int) -> None: ...


class Site:
    """See the module. `broker` is None while the node is down; `life` counts its starts."""

    def __init__(
        self, world: Outside, node: int, make: Callable[[int, Shelf], Machine], disk: Disk, clock: Clockwork,
        chance: Chance, disk_us: int, linger_us: int,
    ) -> None:  # fmt: skip
        self.node, self.disk, self.clock = node, disk, clock
        self.broker: Machine | None = None
        self.life = 0
        self._world, self._make, self._chance = world, make, chance
        self._disk_us, self._linger_us = disk_us, linger_us
        self._timers: dict[Timer, int] = {}
        # Of timers, turns and batches; of clients' chunks; of what peers said: what chance is drawn by.
        self._numbers = self._heard = self._said = 0
        self._is_turning = False
        self.last_safe_us = 0  # when what was handed to the disk will be safe
        self._copies: list[tuple[int, int]] = []  # from when on it said on how many disks is what it acknowledges

    @property
    def now_s(self) -> float:
        """Its own clock."""
        return BASE_S + self.clock.offset_s + self._world.now_us / 1e6 * (1 + self.clock.drift)

    def copies_said(self, since_us: int, until_us: int) -> int:
        """On how many disks, at least, it said meanwhile that everything is that it acknowledges."""
        before = [copies for from_us, copies in self._copies if from_us < since_us]
        return min(
            [copies for from_us, copies in self._copies if since_us <= from_us <= until_us] + before[-1:], default=1
        )

    def _note_copies(self, broker: Machine) -> None:
        copies = copies_said(broker) if isinstance(broker, Broker) else 1
        if not self._copies or self._copies[-1][1] != copies:
            self._copies.append((self._world.now_us, copies))

    # --- life and death ---

    def start(self, rights: Fact | None = None) -> None:
        """With the rights that hold by now, as its configuration says them."""
        if self.broker is None:
            self.life += 1
            self._timers, self._is_turning, self.last_safe_us = {}, False, 0
            self.broker = self._make(self.node, self.disk)
            if rights is not None:
                self.step(rights)
            self.step(Booted(self.life, self.disk.saved()))

    def fall(self, with_power: bool) -> None:
        if self.broker is not None:
            self.broker = None
            self._world.record.injected["torn batch"] += self.disk.crash(self.life, with_power, self._world.now_us)
            self._world.record.failures.append((self._world.now_us, self.node))

    # --- facts ---

    def step(self, fact: Fact) -> None:
        broker = self.broker
        if broker is None:
            return
        self._world.fact_count += 1
        if isinstance(fact, Bytes | PeerSaid) and not self._is_turning and self._passes(broker, fact):
            return
        orders = broker.step(fact, self.now_s)
        self._note_copies(broker)
        self._carry_out(orders)
        if self.broker is broker and not self._is_turning:
            self._is_turning = True
            self._numbers += 1
            share = self._chance.share(self._numbers)
            delay_us = 0 if share < 0.5 else int(self._linger_us * 4 * (share - 0.5))
            self._world.at(self._world.now_us + delay_us, lambda: self._end_turn(broker))

    def _passes(self, broker: Machine, heard: Bytes | PeerSaid) -> bool:
        """Whether it went the straight way; it is offered half of what comes alone."""
        if isinstance(heard, Bytes):
            self._heard += 1
            number = HEARD + self._heard
        else:
            self._said += 1
            number = SAID + self._said
        if self._chance.share(number) < 0.5:
            return False
        if isinstance(heard, Bytes):
            orders = broker.straight(heard.line, heard.data, self.now_s)
        else:
            orders = broker.landed(heard.peer, heard.frames, self.now_s)
        if orders is None:
            return False
        self._carry_out(orders)
        return True

    def _end_turn(self, broker: Machine) -> None:
        if self.broker is broker:
            self._is_turning = False
            self._carry_out(broker.end_turn(self.now_s))

    # --- orders ---

    def _carry_out(self, orders: list[Order]) -> None:
        world, node = self._world, self.node
        for order in orders:
            match order:
                case Write():
                    data = b"".join(order.chunks)
                    order.chunks.clear()  # the driver's own by contract: a broker that looks at it again is found out
                    world.write(node, order.line, data)
                case Tell():
                    data = b"".join(order.chunks)
                    order.chunks.clear()
                    world.tell(node, order.peer, data)
                case Persist():
                    self._persist(order)
                case SetTimer():
                    self._set_timer(order)
                case CancelTimer():
                    self._timers.pop(order.timer, None)
                case Close():
                    world.close(node, order.line)
                case Pause() | Resume():
                    world.pause(node, order.line, isinstance(order, Pause))
                case PassSocket():
                    world.pass_socket(node, order.line, order.peer, order.number)
                case Dial():
                    world.dial(node, order.peer)
                case HangUp():
                    world.hang_up(node, order.peer, order.abrupt)
                case Prove():
                    self._prove(order)
                case Say():
                    world.record.say(f"{world.now_us / 1e6:10.4f} node {node}: {order.text}")
                case Fail():
                    world.failed(node, order.reason)
                    return
                case AnswerDoor():
                    world.answer(node, order.door, order.data)
                case LeaveNetwork():
                    world.left(node)
                case Note() | Meet():
                    pass
            if self.broker is None:
                return

    def _set_timer(self, order: SetTimer) -> None:
        self._numbers += 1
        number, timer, broker = self._numbers, order.timer, self.broker
        self._timers[timer] = number

        def fire() -> None:
            if self.broker is broker and self._timers.get(timer) == number:
                del self._timers[timer]
                self.step(TimerFired(timer))

        delay_us = max(1, round(order.delay_s * 1e6 / (1 + self.clock.drift)))
        self._world.at(self._world.now_us + delay_us, fire)

    def _persist(self, order: Persist) -> None:
        disk, broker, world = self.disk, self.broker, self._world
        if disk.is_full and order.writes:
            world.at(world.now_us, lambda: self._tell_if(broker, StoreFailed("no space left on device")))
            return
        batch = disk.hand_over(order.writes)
        order.writes.clear()
        self._numbers += 1
        delay_us = int(self._disk_us * disk.slowness * 2 * self._chance.share(self._numbers))
        self.last_safe_us = max(self.last_safe_us, world.now_us + delay_us)

        def safe() -> None:
            if self.broker is broker:
                disk.make_safe(batch, world.now_us)
                self._carry_out(order.then)
                self.step(Persisted(order.batch))

        world.at(self.last_safe_us, safe)

    def _tell_if(self, broker: Machine | None, fact: Fact) -> None:
        if self.broker is broker:
            self.step(fact)

    def _prove(self, order: Prove) -> None:
        check, broker, world = order.check, self.broker, self._world
        is_right = check.is_known and check.secret == b"secret of " + check.user.encode()
        ruling = Ruling(user=check.user) if is_right else Ruling(Reason.BAD_USER_NAME_OR_PASSWORD)
        self._numbers += 1
        delay_us = self._chance.number(self._numbers, 50_000)
        world.at(world.now_us + delay_us, lambda: self._tell_if(broker, Proven(order.line, ruling)))
