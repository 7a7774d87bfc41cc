"""The loop of a live node: what happens becomes facts, what the broker orders is done. It decides nothing.

A turn runs in the callback that brought its fact if the last one began a while ago, so that nothing waits; if not, it
is scheduled, so that everything that is ready in this iteration of the loop shares a turn: one batch, one write a line.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, Protocol

from coterie.broker.facts import Bytes, Closed, Fact, GotSocket, Opened, PeerSaid, Persisted, Proven, StoreFailed
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
from coterie.broker.writes import StoreWrite
from coterie.live.journal import JournalFiles
from coterie.live.logins import Logins, Waiter
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.protocol.events import CancelTimer, SetTimer, Timer, TimerFired

FEW = 8  # so few lines are written to at once; the loop has a quicker way for many
SOON_S = 50e-6  # facts that come within this time after the beginning of a turn share the next one
NEVER_S = float("inf")
BUSY = Ruling(Reason.SERVER_BUSY, detail="too many logins at once; try again later")


class Line(Protocol):
    """A client's socket."""

    def write(self, chunks: list[bytes], at_once: bool) -> None: ...
    def finish(self, linger: bool) -> None: ...
    def hold(self, reason: str) -> None: ...
    def release(self, reason: str) -> None: ...


class SocketGiver(Protocol):
    """Gives clients' sockets to other processes of this machine."""

    def send(self, line: Line, peer: int, number: int) -> None: ...


class PeerLine(Protocol):
    """A link's socket."""

    def write(self, chunks: list[bytes]) -> None: ...


class PeerSide(Protocol):
    """Makes and ends the sockets of links; who is there stands among the driver's `peer_lines`."""

    def dial(self, peer: int) -> None: ...
    def hang_up(self, peer: int, reason: str, abrupt: bool) -> None: ...
    def meet(self, peer: int, host: str, port: int) -> None: ...
    def answer(self, door: int, data: bytes) -> None: ...


class BatchKeeper(Protocol):
    """The store. What was appended is safe at once, or with `is_full` when a call from `syncing` has returned.

    Such a call waits for the disk, in any thread; what it returns is given to `note_synced` here.
    """

    is_full: bool

    def append(self, writes: list[StoreWrite]) -> object: ...
    def syncing(self) -> Callable[[], int]: ...
    def note_synced(self, number: int) -> None: ...


class Driver:
    """See the module. Time is wall time that never jumps while the process lives: `base_s` and the monotonic clock."""

    def __init__(
        self, broker: Broker, store: BatchKeeper, logins: Logins, journal: JournalFiles | None,
        base_s: float, log: Callable[[str], None], on_failure: Callable[[str], None],
        on_left: Callable[[str], None] = lambda reason: None,
    ) -> None:  # fmt: skip
        self.broker, self._base_s = broker, base_s
        self._may_pass = broker.may_pass
        self.commits = 0
        self.lines: dict[int, Line] = {}
        self.peer_lines: dict[int, PeerLine] = {}
        self.peers: PeerSide | None = None  # a node without peers has none
        self.giver: SocketGiver | None = None  # a process that has others beside it
        self._store, self._logins, self._journal, self._log, self._on_failure = store, logins, journal, log, on_failure
        self._on_left = on_left
        self._loop = asyncio.get_running_loop()
        self._line = 0
        self._disk = ThreadPoolExecutor(1, "disk") if store.is_full else None
        self._unsynced: list[Persist] = []
        self._syncing: asyncio.Future[int] | None = None
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._is_scheduled = self._is_gathering = self._is_over = False
        self._free_s = 0.0  # from when on a fact is a turn of its own
        self._hands: dict[type, Callable[[Any], None]] = {
            Persist: self._persist,
            Close: self._close,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Prove: self._prove,
            PassSocket: self._pass_socket,
            Dial: self._dial,
            HangUp: self._hang_up,
            Pause: lambda order: self._each(order.line, "hold"),
            Resume: lambda order: self._each(order.line, "release"),
            Note: self._note,
            Say: lambda order: self._log(order.text),
            Fail: self._fail,
            Meet: self._meet,
            AnswerDoor: self._answer,
            LeaveNetwork: lambda order: self._on_left(order.reason),
        }

    def now_s(self) -> float:
        return monotonic() + self._base_s

    # --- facts ---

    def take(self, fact: Fact) -> None:
        if self._is_over:
            return
        broker, now_s = self.broker, monotonic() + self._base_s
        if now_s >= self._free_s and self._may_pass:
            if type(fact) is Bytes:
                orders = broker.straight(fact.line, fact.data, now_s)
            else:
                orders = broker.landed(fact.peer, fact.frames, now_s) if type(fact) is PeerSaid else None
            if orders is not None:
                self._free_s = now_s + SOON_S
                self._carry_out(orders)
                return
        orders = broker.step(fact, now_s)
        if orders:
            self._carry_out(orders)
        if self._is_scheduled or self._is_gathering or not (broker.sessions.dirty or broker.has_turn):
            return
        if now_s < self._free_s:
            self._is_scheduled, self._free_s = True, NEVER_S
            self._loop.call_soon(self._scheduled_turn)
        else:
            self._turn(now_s)

    def gather(self) -> None:
        """Whatever comes until `turn` is called shares that turn."""
        self._is_gathering, self._free_s = True, NEVER_S

    def turn(self) -> None:
        """Do at once what waits for the end of a turn."""
        self._is_gathering = False
        if not self._is_over:
            self._turn(self.now_s())

    def _scheduled_turn(self) -> None:
        self._is_scheduled = False
        self.turn()

    def _turn(self, now_s: float) -> None:
        self._free_s = NEVER_S
        self._carry_out(self.broker.end_turn(now_s))
        self._free_s = NEVER_S if self._is_scheduled or self._is_gathering or self._is_over else now_s + SOON_S

    def opened(
        self, line: Line, host: str, certified: str, is_inner: bool = False, is_movable: bool = False
    ) -> int:  # fmt: skip
        """A client's socket; returns its number."""
        self._line += 1
        self.lines[self._line] = line
        self.take(Opened(self._line, host, certified, is_inner, is_movable and self.giver is not None))
        return self._line

    def got(self, line: Line, host: str, peer: int, number: int) -> int:
        """A client's socket that another process of this machine gave us; returns its number."""
        self._line += 1
        self.lines[self._line] = line
        self.take(GotSocket(self._line, host, peer, number))
        return self._line

    def closed(self, line: int) -> None:
        if self.lines.pop(line, None) is not None:
            self.take(Closed(line))

    def say(self, text: str) -> None:
        self._log(text)

    def stop(self) -> None:
        self._is_over, self._free_s = True, NEVER_S
        if self._disk is not None:
            self._disk.shutdown()
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    # --- orders ---

    def _carry_out(self, orders: list[Order]) -> None:
        hands, lines, at_once = self._hands, self.lines, len(orders) <= FEW
        for order in orders:
            if type(order) is Write:
                if order.line in lines:
                    lines[order.line].write(order.chunks, at_once)
            elif type(order) is Tell:
                if order.peer in self.peer_lines:
                    self.peer_lines[order.peer].write(order.chunks)
            else:
                hands[type(order)](order)

    def _close(self, order: Close) -> None:
        line = self.lines.get(order.line)
        if line is not None:
            line.finish(order.linger)

    def _each(self, number: int, what: str) -> None:
        line = self.lines.get(number)
        if line is not None:
            getattr(line, what)("broker")

    def _pass_socket(self, order: PassSocket) -> None:
        line = self.lines.pop(order.line, None)
        if line is not None and self.giver is not None:
            self.giver.send(line, order.peer, order.number)

    def _dial(self, order: Dial) -> None:
        assert self.peers is not None
        self.peers.dial(order.peer)

    def _hang_up(self, order: HangUp) -> None:
        assert self.peers is not None
        self.peers.hang_up(order.peer, order.reason, order.abrupt)

    def _meet(self, order: Meet) -> None:
        assert self.peers is not None
        self.peers.meet(order.peer, order.host, order.port)

    def _answer(self, order: AnswerDoor) -> None:
        assert self.peers is not None
        self.peers.answer(order.door, order.data)

    def _persist(self, order: Persist) -> None:
        try:
            if order.writes:
                self._store.append(order.writes)
                self.commits += 1
        except (OSError, sqlite3.Error) as error:
            self._fail_store(error)
            return
        if self._store.is_full:
            self._unsynced.append(order)
            self._sync()
        else:
            self._carry_out(order.then)
            self._persisted(order.batch)

    def _persisted(self, batch: int) -> None:
        self._carry_out(self.broker.step(Persisted(batch), self.now_s()))

    def _fail_store(self, error: BaseException) -> None:
        self._carry_out(self.broker.step(StoreFailed(str(error)), self.now_s()))

    def _sync(self) -> None:
        """Wait for the disk beside the loop; batches that come meanwhile share the next round."""
        if self._syncing is None and self._unsynced and not self._is_over:
            waiting, self._unsynced = self._unsynced, []
            self._syncing = self._loop.run_in_executor(self._disk, self._store.syncing())
            self._syncing.add_done_callback(partial(self._synced, waiting))

    def _synced(self, safe: list[Persist], done: asyncio.Future[int]) -> None:
        self._syncing = None
        error = done.exception()
        if error is not None:
            self._fail_store(error)
            return
        self._store.note_synced(done.result())
        for order in safe:
            self._carry_out(order.then)
        self._persisted(safe[-1].batch)
        self._sync()
        if self.broker.has_turn:
            self.turn()

    async def settled(self) -> None:
        """Until nothing waits for the disk any more."""
        while self._syncing is not None:
            await asyncio.wait([self._syncing])
            await asyncio.sleep(0)

    def _prove(self, order: Prove) -> None:
        line = order.line
        ruling = self._logins.known(order.check)
        if ruling is None:
            waiter = Waiter(lambda: line not in self.lines, lambda ruling: self.take(Proven(line, ruling)))
            if order.may_try and self._logins.ask(order.check, order.address, waiter):
                return
        self.take(Proven(line, ruling or BUSY))

    def _set_timer(self, order: SetTimer) -> None:
        handle = self._timers.pop(order.timer, None)
        if handle is not None:
            handle.cancel()
        self._timers[order.timer] = self._loop.call_later(order.delay_s, self._fire, order.timer)

    def _cancel_timer(self, order: CancelTimer) -> None:
        handle = self._timers.pop(order.timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: Timer) -> None:
        self._timers.pop(timer, None)
        self.take(TimerFired(timer))

    def _note(self, order: Note) -> None:
        if self._journal is not None:
            self._journal.append(order.lines)

    def _fail(self, order: Fail) -> None:
        self._is_over, self._free_s = True, NEVER_S
        self._on_failure(order.reason)
