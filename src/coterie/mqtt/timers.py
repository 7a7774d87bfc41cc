"""Deadlines of many things, for one `on_time` call: cheap to move later, bounded by the number of things."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Timers(Generic[T]):
    """At most one deadline per subject. Moving it later costs nothing: the old heap entry looks again when it is up."""

    def __init__(self) -> None:
        self._deadlines: dict[T, float] = {}
        self._queued: dict[T, float] = {}  # the earliest heap entry of each subject
        self._heap: list[tuple[float, int, T]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    @property
    def deadline_s(self) -> float | None:
        """When `due` should be asked next; it may turn out that nothing is due then."""
        return self._heap[0][0] if self._heap else None

    def set(self, subject: T, deadline_s: float | None) -> None:
        """Replace the subject's deadline; None forgets the subject."""
        if deadline_s is None:
            self._deadlines.pop(subject, None)
            self._queued.pop(subject, None)
            if len(self._heap) > 64 + 2 * len(self._deadlines):
                self._compact()
            return
        self._deadlines[subject] = deadline_s
        queued_s = self._queued.get(subject)
        if queued_s is None or queued_s > deadline_s:
            self._push(deadline_s, subject)

    def due(self, now_s: float) -> Iterator[T]:
        """Subjects whose deadline has come, each forgotten as it is handed out (set it again to go on)."""
        while self._heap and self._heap[0][0] <= now_s:
            queued_s, _, subject = heapq.heappop(self._heap)
            if self._queued.get(subject) != queued_s:
                continue
            del self._queued[subject]
            deadline_s = self._deadlines[subject]
            if deadline_s > now_s:
                self._push(deadline_s, subject)
                continue
            del self._deadlines[subject]
            yield subject

    def _push(self, deadline_s: float, subject: T) -> None:
        self._number += 1
        self._queued[subject] = deadline_s
        heapq.heappush(self._heap, (deadline_s, self._number, subject))

    def _compact(self) -> None:
        """Entries of forgotten subjects would hold them in memory until their time is up."""
        self._heap = []
        self._queued = {}
        for subject, deadline_s in self._deadlines.items():
            self._push(deadline_s, subject)
