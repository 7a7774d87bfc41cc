"""When has a change taken effect? Counting what a message causes until nothing of it is under way any more.

A subscription sets off a cascade: joins that cause joins at the next node, a flood that causes floods. Each frame of a
cascade is numbered; whoever receives it numbers the frames it sends because of it and says DONE when all of those are
done (Dijkstra and Scholten's diffusing computations). The root of the cascade is then told: the interest has spread as
far as it will. A peer that is lost counts as done, for the structure repairs itself; nothing waits for longer than
`limit_s`.
"""

from __future__ import annotations

from collections.abc import Callable


class Cascade:
    """One numbered frame's worth of consequences, or a root; `finish` is called once."""

    __slots__ = ("deadline_s", "finish", "open_count")

    def __init__(self, finish: Callable[[], None], deadline_s: float) -> None:
        self.finish = finish
        self.deadline_s = deadline_s
        self.open_count = 1  # held open until its own step is over


class Cascades:
    """All cascades that a node takes part in. `current` is the one whose step is being carried out."""

    def __init__(self, limit_s: float = 5.0) -> None:
        self.current: Cascade | None = None
        self.limit_s = limit_s
        self._next_number = 1
        self._waiting: dict[int, tuple[int, Cascade]] = {}  # number -> (peer, whose consequence it is)
        self._open: dict[Cascade, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, finish: Callable[[], None], now_s: float) -> Cascade:
        """Open one; what is sent until `end` belongs to it."""
        cascade = Cascade(finish, now_s + self.limit_s)
        self._open[cascade] = None
        self.current = cascade
        return cascade

    def end(self, cascade: Cascade) -> None:
        """The step itself is over; with nothing sent the cascade is done at once."""
        self.current = None
        self._less(cascade)

    def number_for(self, peer: int) -> int | None:
        """A number for a frame to this peer, if it belongs to a cascade."""
        cascade = self.current
        if cascade is None:
            return None
        number = self._next_number
        self._next_number += 1
        cascade.open_count += 1
        self._waiting[number] = (peer, cascade)
        return number

    def done(self, peer: int, number: int) -> None:
        """The peer says that a frame's consequences are over. Unknown numbers are old ones; they mean nothing."""
        found = self._waiting.get(number)
        if found is not None and found[0] == peer:
            del self._waiting[number]
            self._less(found[1])

    def lost(self, peer: int) -> None:
        for number in [number for number, (whom, _) in self._waiting.items() if whom == peer]:
            self.done(peer, number)

    def expire(self, now_s: float) -> int:
        """Finish what waits too long; returns how many."""
        late = [cascade for cascade in self._open if cascade.deadline_s <= now_s]
        for cascade in late:
            cascade.open_count = 1
            self._less(cascade)
        if late:
            self._waiting = {number: one for number, one in self._waiting.items() if one[1] in self._open}
        return len(late)

    def _less(self, cascade: Cascade) -> None:
        cascade.open_count -= 1
        if cascade.open_count == 0 and self._open.pop(cascade, 0) is None:
            cascade.finish()
