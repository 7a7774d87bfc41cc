"""The journal of what clients do, for the planner: lines of JSON (format: docs/JOURNAL.md).

At ordinary rates every publication is a line. Above `LINES_PER_S_MAX` a second, publications of one client on one topic
are gathered into one line with a `count` per second, so that the journal costs a flood of messages next to nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

LINES_PER_S_MAX = 2000

_encode = msgspec.json.Encoder().encode


class Journal:
    """Gathers lines until somebody takes them."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._lines: list[bytes] = []
        self._second = 0
        self._left = LINES_PER_S_MAX
        self._gathered: dict[tuple[str, str], list[int]] = {}

    def subscribed(self, now_s: float, client: str, topic_filter: str) -> None:
        self._add({"t": now_s, "node": self.node, "kind": "subscribe", "client": client, "topic": topic_filter})

    def unsubscribed(self, now_s: float, client: str, topic_filter: str) -> None:
        self._add({"t": now_s, "node": self.node, "kind": "unsubscribe", "client": client, "topic": topic_filter})

    def admitted(self, now_s: float, client: str, to: int, reason: str, new: int) -> None:
        """`new`: how many of its first wishes nobody had at the node where it goes."""
        said = {"kind": "admission", "client": client, "to": to, "reason": reason, "new_wishes": new}
        self._add({"t": now_s, "node": self.node, **said})

    def published(self, now_s: float, client: str, topic: str, size: int, count: int = 1) -> None:
        """`count` messages of about the same size in a row."""
        if int(now_s) != self._second:
            self._second, self._left = int(now_s), LINES_PER_S_MAX
            self._write_gathered(now_s)
        if self._left >= count:
            self._left -= count
            line = self._publication(now_s, client, topic, size)
            for _ in range(count):
                self._add(line)
            return
        gathered = self._gathered.get((client, topic))
        if gathered is None:
            if len(self._gathered) >= 65_536:
                self._write_gathered(now_s)
            gathered = self._gathered[client, topic] = [0, size]
        gathered[0] += count

    def counters(self, now_s: float, totals: dict[str, float]) -> None:
        self._write_gathered(now_s)
        self._add({"t": now_s, "node": self.node, "kind": "counters", "counters": totals})

    def _publication(self, now_s: float, client: str, topic: str, size: int) -> dict[str, Any]:
        return {"t": now_s, "node": self.node, "kind": "publish", "client": client, "topic": topic, "bytes": size}

    def _write_gathered(self, now_s: float) -> None:
        for (client, topic), (count, size) in self._gathered.items():
            self._add({**self._publication(now_s, client, topic, size), "count": count})
        self._gathered.clear()

    def _add(self, line: dict[str, Any]) -> None:
        self._lines.append(_encode(line))

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    def take_lines(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        return lines

    def close(self, now_s: float) -> list[bytes]:
        """The last lines, with what was gathered."""
        self._write_gathered(now_s)
        return self.take_lines()
