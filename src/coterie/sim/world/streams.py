"""One direction of a connection: bytes arrive in order, late, in other pieces; or not at all from some byte on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from coterie.sim.world.chance import Chance

SPLIT_ONE_IN = 6


class Agenda(Protocol):
    """What a stream needs of the world."""

    now_us: int

    def at(self, time_us: int, action: Callable[[], None]) -> None: ...


class Stream:
    """See the module. While `hold`s are in force what has come waits; `tear` ends it behind any byte."""

    __slots__ = (
        "_agenda", "_arrived", "_chance", "_delay_us", "_holds", "_last_us", "_under_way", "deliver", "is_dated",
        "is_dead", "is_ending", "on_end", "said_us", "sent", "unread_bytes",
    )  # fmt: skip

    def __init__(self, agenda: Agenda, chance: Chance, delay_us: int, deliver: Callable[[bytes], None]) -> None:
        self.deliver = deliver
        self.on_end: Callable[[], None] = _nothing  # everything before `end` has arrived
        self.is_dead = self.is_ending = False
        self.sent = 0  # pieces so far: what delays are drawn by
        self.unread_bytes = 0
        self.is_dated = False  # somebody reads `said_us`, also of what is left when it is torn
        self.said_us = 0  # when what is delivered now was sent
        self._agenda, self._chance, self._delay_us = agenda, chance, delay_us
        self._last_us = 0
        self._under_way: deque[tuple[bytes | None, int]] = deque()  # None: the end; and when it was sent
        self._arrived = 0  # how many of those have come and are held
        self._holds: dict[str, None] = {}

    def send(self, data: bytes) -> None:
        if self.is_dead or not data:
            return
        self.unread_bytes += len(data)
        if len(data) > 1 and self._chance.number(self.sent, SPLIT_ONE_IN) == 0:
            cut = 1 + self._chance.number(self.sent + (1 << 32), len(data) - 1)
            self._dispatch(data[:cut])
            self._dispatch(data[cut:])
        else:
            self._dispatch(data)

    def end(self) -> None:
        """Nothing more will be sent; what was still arrives."""
        if not self.is_dead:
            self.is_ending = True
            self._dispatch(None)

    def _dispatch(self, piece: bytes | None) -> None:
        share = self._chance.share(self.sent + (2 << 32))
        # Mostly about the delay, now and then many times as long.
        delay_us = int(self._delay_us * (0.5 + share if share < 0.95 else 20 * share))
        self.sent += 1
        self._last_us = max(self._last_us, self._agenda.now_us + delay_us)
        self._under_way.append((piece, self._agenda.now_us))
        self._agenda.at(self._last_us, self._arrive)

    def _arrive(self) -> None:
        if self.is_dead:
            return
        if self._holds or self._arrived:
            self._arrived += 1
            if not self._holds:
                self._release()
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        piece, self.said_us = self._under_way.popleft()
        if piece is None:
            self.is_dead = True
            self.on_end()
        else:
            self.unread_bytes -= len(piece)
            self.deliver(piece)

    def hold(self, why: str) -> None:
        self._holds[why] = None

    def release(self, why: str) -> None:
        self._holds.pop(why, None)
        if not self._holds and self._arrived and not self.is_dead:
            self._release()

    def _release(self) -> None:
        while self._arrived and not self._holds and not self.is_dead:
            self._arrived -= 1
            self._hand_over()

    def tear(self, share: float) -> None:
        """It breaks: this share of what is under way still arrives, now, whatever holds it; then nothing."""
        if self.is_dead:
            return
        rest = [(piece, said_us) for piece, said_us in self._under_way if piece is not None]
        self._under_way.clear()
        left = int(share * (sum(len(piece) for piece, _ in rest) + 1))
        self.is_dead = True
        if not self.is_dated:
            rest = [(b"".join(piece for piece, _ in rest), self.said_us)]
        for piece, said_us in rest:
            if left > 0:
                self.said_us = said_us
                self.deliver(piece[:left])
                left -= len(piece)

    def kill(self) -> None:
        """It ends with everything under way."""
        self.is_dead = True
        self._under_way.clear()


def _nothing() -> None:
    pass
