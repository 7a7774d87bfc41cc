"""Which windows of event time are closed: the same answer in every shard of the stream's state.

How it works: a window is closed once every node that had something to say is past its end by the allowed lateness. A
node that has more to be read is part of every micro-batch, so a quiet node cannot drag the clock past a busy one that
is still being read. What holds after a window depends on the lines alone, not on how they were cut into micro-batches.
Every shard hears what every portion of a micro-batch has in it, so all of them close the same windows in the same
micro-batch without asking anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec


class Span(NamedTuple):
    """Times of the oldest and the newest line of a node."""

    first_us: int
    last_us: int


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """What one portion of a micro-batch has in it: how far each node is, and which windows something happened in."""

    nodes: dict[str, Span | None]  # None: it had no line that can be read
    events: list[int]
    changes: list[int]
    line_count: int = 0
    bad_count: int = 0  # malformed, or from the future


class TimeRules(msgspec.Struct, frozen=True):
    """How time is cut, and after which windows somebody may want to know how things stand."""

    window_us: int
    late_us: int
    windows_per_period: int
    is_planned: bool = False  # there is a plan: only the ends of periods count

    def period_end(self, window: int) -> int:
        """The last window of the period that a window is in."""
        return window + (-(window + 1)) % self.windows_per_period

    def is_told(self, window: int) -> bool:
        return not self.is_planned or self.period_end(window) == window


class Closing(msgspec.Struct, frozen=True):
    """What a micro-batch closes."""

    last: int  # all up to this one
    content: list[int]  # those in which something happened, oldest first
    moments: list[int]  # those, and the ends of their periods: after these a decision may be due
    told: list[int]  # those of them after which shards tell how things stand


class Clock(msgspec.Struct):
    """How far the stream is; changes in place."""

    nodes: dict[str, Span | None] = {}
    watermark_us: int | None = None
    next_window: int | None = None  # the first one that is open
    first_events: int | None = None  # the first closed one with events
    newest: int | None = None  # the last closed one in which something happened
    open_events: list[int] = []
    open_changes: list[int] = []
    line_count: int = 0
    bad_count: int = 0

    def hear(self, portions: Iterable[Heard], rules: TimeRules) -> Closing | None:
        """Take in a micro-batch; None if it closes nothing."""
        listed = list(portions)
        self._advance(listed, rules.late_us)
        opened = self.next_window
        events = {window for one in listed for window in one.events if opened is None or window >= opened}
        # A late change still says what somebody wants: it is taken with the next window.
        changes = {window if opened is None else max(window, opened) for one in listed for window in one.changes}
        self.open_events = sorted(events.union(self.open_events))
        self.open_changes = sorted(changes.union(self.open_changes))
        return self._close(rules)

    def _advance(self, portions: list[Heard], late_us: int) -> None:
        spoke: set[str] = set()
        for one in portions:
            self.line_count += one.line_count
            self.bad_count += one.bad_count
            for node, span in one.nodes.items():
                self.nodes[node] = joined(self.nodes.get(node), span)
                spoke.add(node)
        reached = [self.nodes[node] for node in spoke]
        times = [span.last_us for span in reached if span is not None]
        if times and len(times) == len(reached):
            mark = min(times) - late_us
            self.watermark_us = mark if self.watermark_us is None else max(self.watermark_us, mark)

    def _close(self, rules: TimeRules) -> Closing | None:
        if self.watermark_us is None:
            return None
        last = self.watermark_us // rules.window_us - 1
        first = self.next_window
        if first is None:
            first = min([*self.open_events[:1], *self.open_changes[:1]], default=last + 1)
        if first > last:
            return None
        events = [window for window in self.open_events if window <= last]
        content = sorted({*events, *(window for window in self.open_changes if window <= last)})
        if self.first_events is None and events:
            self.first_events = events[0]
        moments = {*content, *(rules.period_end(window) for window in content)}
        if self.newest is not None:
            moments.add(rules.period_end(self.newest))
        self.newest = content[-1] if content else self.newest
        self.open_events = [window for window in self.open_events if window > last]
        self.open_changes = [window for window in self.open_changes if window > last]
        self.next_window = last + 1
        listed = sorted(window for window in moments if first <= window <= last)
        return Closing(last, content, listed, [window for window in listed if rules.is_told(window)])


def joined(one: Span | None, other: Span | None) -> Span | None:
    if one is None or other is None:
        return one or other
    return Span(min(one.first_us, other.first_us), max(one.last_us, other.last_us))
