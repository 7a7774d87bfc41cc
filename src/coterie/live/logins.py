"""Passwords checked off the loop: each once however many ask, in fair turns, and remembered for a while.

`LoginBook` holds who waits for what and what is known; it has no clock, no threads and no I/O. `Logins` gives its
checks to as many threads as there are cores, at a low priority, so that the loop comes first.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b

from coterie.broker.credentials import Check
from coterie.broker.settings import LoginSection
from coterie.live.credentials import answer
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling

KNOWN_MAX = 100_000
NICE = 5


@dataclass(frozen=True)
class Waiter:
    """Who wants to know: whether it has gone meanwhile, and whom to tell."""

    is_gone: Callable[[], bool]
    tell: Callable[[Ruling], None]


@dataclass
class WaitingCheck:
    check: Check
    address: str
    waiters: list[Waiter] = field(default_factory=list)


class LoginBook:
    """See the module. What was right is known for `right_s`, what was wrong for `wrong_s`, by a keyed digest."""

    def __init__(self, settings: LoginSection, secret: bytes) -> None:
        self._settings = settings
        self._secret = secret
        self._known: OrderedDict[bytes, tuple[Ruling, float]] = OrderedDict()
        self._pending: dict[bytes, WaitingCheck] = {}
        self._turns: OrderedDict[str, deque[bytes]] = OrderedDict()  # address -> what waits; the first is next
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def key(self, check: Check) -> bytes:
        """Nobody who reads the memory learns a password from it without trying them all."""
        user = check.user.encode("utf-8", "surrogatepass")
        return blake2b(len(user).to_bytes(4, "big") + user + check.secret, key=self._secret, digest_size=32).digest()

    def known(self, key: bytes, now_s: float) -> Ruling | None:
        found = self._known.get(key)
        if found is None or found[1] <= now_s:
            return None
        return found[0]

    def wait(self, key: bytes, check: Check, address: str, waiter: Waiter) -> bool:
        """Line up; False if the line is full."""
        pending = self._pending.get(key)
        if pending is None:
            turns = self._turns.get(address)
            if self._waiting >= self._settings.queue_max:
                return False
            if turns is not None and len(turns) >= self._settings.queue_address_max:
                return False
            pending = self._pending[key] = WaitingCheck(check, address)
            self._turns.setdefault(address, deque()).append(key)
            self._waiting += 1
        pending.waiters.append(waiter)
        return True

    def next(self) -> tuple[bytes, Check] | None:
        """What to check next: addresses take turns, and what nobody waits for any more is left out."""
        while self._turns:
            address, keys = self._turns.popitem(last=False)
            key = keys.popleft()
            self._waiting -= 1
            if keys:
                self._turns[address] = keys
            pending = self._pending[key]
            pending.waiters = [one for one in pending.waiters if not one.is_gone()]
            if pending.waiters:
                return key, pending.check
            del self._pending[key]
        return None

    def done(self, key: bytes, verdict: Ruling, now_s: float) -> list[Waiter]:
        """It was checked; returns whom to tell."""
        is_right = verdict.reason is Reason.SUCCESS
        lasts_s = self._settings.right_s if is_right else self._settings.wrong_s
        if verdict.until_s is not None:
            lasts_s = min(lasts_s, verdict.until_s - now_s)
        if lasts_s > 0 and verdict.reason is not Reason.SERVER_BUSY:
            self._known[key] = verdict, now_s + lasts_s
            self._known.move_to_end(key)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return self._pending.pop(key).waiters

    def forget(self) -> None:
        """Users have changed: nothing is known any more."""
        self._known.clear()


class Logins:
    """The threads. `ask` tells at once what is known."""

    def __init__(
        self, settings: LoginSection, wall_s: Callable[[], float], answer: Callable[[Check], Ruling] = answer
    ) -> None:
        self._answer = answer
        self.book = LoginBook(settings, os.urandom(32))
        self.checked_count = self.known_count = self.busy_count = 0
        self._count = settings.workers or os.cpu_count() or 1
        self._threads = ThreadPoolExecutor(self._count, "logins", initializer=_step_back)
        self._at_work = 0
        self._era = 0  # answers of before a reload count for nothing
        self._wall_s = wall_s
        self._loop = asyncio.get_running_loop()

    def known(self, check: Check) -> Ruling | None:
        verdict = self.book.known(self.book.key(check), self._wall_s())
        if verdict is not None:
            self.known_count += 1
        return verdict

    def ask(self, check: Check, address: str, waiter: Waiter) -> bool:
        """False if too many wait already."""
        if not self.book.wait(self.book.key(check), check, address, waiter):
            self.busy_count += 1
            return False
        self._start()
        return True

    def forget(self) -> None:
        self._era += 1
        self.book.forget()

    def _start(self) -> None:
        while self._at_work < self._count and (following := self.book.next()) is not None:
            key, check = following
            self._at_work += 1
            self._threads.submit(self._work, key, check, self._era)

    def _work(self, key: bytes, check: Check, era: int) -> None:
        verdict = self._answer(check)
        try:
            self._loop.call_soon_threadsafe(self._finish, key, verdict, era)
        except RuntimeError:  # the loop is closed: nobody wants to know
            return

    def _finish(self, key: bytes, verdict: Ruling, era: int) -> None:
        self._at_work -= 1
        self.checked_count += 1
        if era != self._era:
            verdict = Ruling(Reason.SERVER_BUSY, detail="users have just changed; try again")
        for waiter in self.book.done(key, verdict, self._wall_s()):
            if not waiter.is_gone():
                waiter.tell(verdict)
        self._start()

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _step_back() -> None:
    """The loop's thread goes first (on Linux threads have priorities of their own)."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    except (OSError, AttributeError):
        return
