"""The journal of what clients do, for the planner: lines of JSON (format: docs/JOURNAL.md).

At ordinary rates every publication is a line. Above `LINES_PER_S_MAX` a second, publications of one client on one topic
are gathered into one line with a `count` per second, so that the journal costs a flood of messages next to nothing.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import msgspec

LINES_PER_S_MAX = 2000

_encode = msgspec.json.Encoder().encode


class PublishTally:
    """What one client publishes on one topic: how much of it is not written down yet in this second."""

    __slots__ = ("client", "count", "line_end", "size", "topic")

    def __init__(self, client: str, topic: str) -> None:
        self.client, self.topic = client, topic
        self.count, self.size = 0, -1
        self.line_end = b""  # of a line about a message of `size`, behind the time


class Journal:
    """Gathers lines until somebody takes them."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._lines: list[tuple[float, bytes]] = []  # the time, and the line or what stands behind the time in it
        self._until_s = 0.0  # of the present second
        self._left = LINES_PER_S_MAX
        self._gathered: list[PublishTally] = []

    def subscribed(self, now_s: float, client: str, topic_filter: str) -> None:
        self._add({"t": now_s, "node": self.node, "kind": "subscribe", "client": client, "topic": topic_filter})

    def unsubscribed(self, now_s: float, client: str, topic_filter: str) -> None:
        self._add({"t": now_s, "node": self.node, "kind": "unsubscribe", "client": client, "topic": topic_filter})

    def admitted(self, now_s: float, client: str, to: int, reason: str, new: int) -> None:
        """`new`: how many of its first wishes nobody had at the node where it goes."""
        said = {"kind": "admission", "client": client, "to": to, "reason": reason, "new_wishes": new}
        self._add({"t": now_s, "node": self.node, **said})

    def published(self, tally: PublishTally, now_s: float, size: int, count: int = 1) -> None:
        """`count` messages of about the same size in a row; whoever publishes for long keeps its tally."""
        if now_s >= self._until_s:
            self._until_s, self._left = int(now_s) + 1.0, LINES_PER_S_MAX
            self._write_gathered(now_s)
        if size != tally.size and not tally.count:
            tally.size = size
            tally.line_end = _encode(self._publication(0, tally.client, tally.topic, size))[len(b'{"t":0') :]
        if self._left >= count and not tally.count:
            self._left -= count
            self._lines += [(now_s, tally.line_end)] * count
            return
        if not tally.count:
            if len(self._gathered) >= 65_536:
                self._write_gathered(now_s)
            self._gathered.append(tally)
        tally.count += count

    def counters(self, now_s: float, totals: dict[str, float]) -> None:
        self._write_gathered(now_s)
        self._add({"t": now_s, "node": self.node, "kind": "counters", "counters": totals})

    def _publication(self, now_s: float, client: str, topic: str, size: int) -> dict[str, Any]:
        return {"t": now_s, "node": self.node, "kind": "publish", "client": client, "topic": topic, "bytes": size}

    def _write_gathered(self, now_s: float) -> None:
        for tally in self._gathered:
            self._add({**self._publication(now_s, tally.client, tally.topic, tally.size), "count": tally.count})
            tally.count = 0
        self._gathered.clear()

    def _add(self, line: dict[str, Any]) -> None:
        self._lines.append((line["t"], _encode(line)))

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    def take_lines(self) -> list[bytes]:
        """In the order of time: what went the straight way was put down later than it happened."""
        lines, self._lines = sorted(self._lines, key=itemgetter(0)), []
        return [end if end[:1] == b"{" else b'{"t":' + _encode(now_s) + end for now_s, end in lines]

    def close(self, now_s: float) -> list[bytes]:
        """The last lines, with what was gathered."""
        self._write_gathered(now_s)
        return self.take_lines()
