"""What was gathered from all sources since the last commit, and the account of every line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from coterie.pipeline.histories import SessionRecord, Sighting, Wished, client_history
from coterie.pipeline.logpatterns import CATEGORIES, EXAMPLES_MAX, UNKNOWN, USED

Carried = dict[str, dict[str, SessionRecord]]  # broker -> client -> what is known


class PublishedMessages(NamedTuple):
    """Messages of one client on one topic and of one size, at one moment."""

    node: str
    t_us: int
    client: str | None
    topic: str
    size: int
    is_estimated: bool = False


class LineAccount(msgspec.Struct):
    """What became of the lines of one broker: every one is in exactly one category."""

    counts: dict[str, int] = {}
    examples: list[str] = []  # of what was not understood
    notes: list[str] = []  # what else the operator should know
    backwards: int = 0

    def add(self, category: str, count: int = 1) -> None:
        if count:
            self.counts[category] = self.counts.get(category, 0) + count

    def puzzle(self, text: str) -> None:
        """A line that nobody understands."""
        self.add(UNKNOWN)
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(text[:200])

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def lines(self) -> int:
        return sum(self.counts.values())

    @property
    def used(self) -> int:
        return sum(self.counts.get(name, 0) for name in USED)

    def merge(self, other: LineAccount) -> None:
        for category, count in other.counts.items():
            self.add(category, count)
        self.examples = [*self.examples, *other.examples][:EXAMPLES_MAX]
        for text in other.notes:
            self.note(text)
        self.backwards += other.backwards

    def told_notes(self) -> list[str]:
        """Notes, and what the numbers say between the lines."""
        if not self.backwards:
            return self.notes
        late = (
            f"{self.backwards:,} lines carry an earlier time than one before of the same client; the later one counts"
        )
        return [*self.notes, f"the clock went back: {late}"]

    def as_facts(self) -> dict[str, Any]:
        named = {category: self.counts[category] for category in CATEGORIES if category in self.counts}
        return {
            "lines": self.lines,
            "used": self.used,
            "not_ours": self.lines - self.used - self.counts.get(UNKNOWN, 0),
            "not_understood": self.counts.get(UNKNOWN, 0),
            "by_category": named,
            "examples": self.examples,
            "notes": self.told_notes(),
        }


class Gathering:
    """One batch. Sources add to it; `wishes` turns it into lines once everything of the batch is here."""

    def __init__(self) -> None:
        self.sightings: list[Sighting] = []
        self.restarts: dict[str, list[tuple[int, int]]] = {}
        self.publications: Counter[PublishedMessages] = Counter()
        self.attached: list[tuple[str, int, str, str]] = []  # broker, time, client, where it came from
        self.counters: list[tuple[str, int, dict[str, float]]] = []
        self.accounts: dict[str, LineAccount] = {}

    def account(self, node: str) -> LineAccount:
        return self.accounts.setdefault(node, LineAccount())

    def wishes(self, carried: Carried) -> list[Wished]:
        """Lines about wishes, oldest first; `carried` is brought up to date."""
        by_client: dict[str, list[Sighting]] = {}
        for sighting in self.sightings:
            by_client.setdefault(sighting.client, []).append(sighting)
        for node in self.restarts:  # they end sessions of clients that say nothing any more
            for client in carried.get(node, ()):
                by_client.setdefault(client, [])
        lines: list[Wished] = []
        for client in sorted(by_client):
            known = {node: clients[client] for node, clients in carried.items() if client in clients}
            told = client_history(client, by_client[client], known, self.restarts)
            lines += told.lines
            for node in known:
                del carried[node][client]
            for node, session in told.sessions.items():
                carried.setdefault(node, {})[client] = session
            for node, count in told.backwards.items():
                self.account(node).backwards += count
        return sorted(lines, key=lambda one: (one.t_us, one.node, one.order))


def snapshot(
    node: str, t_us: int, wanted: Mapping[str, Iterable[str]], known: dict[str, SessionRecord]
) -> list[Sighting]:
    """A complete picture of who wants what at a broker, told as what must have happened since the last one."""
    told = [Sighting(node, 0, t_us, "end", client) for client in sorted(known) if client not in wanted]
    for client in sorted(wanted):
        wishes = sorted(set(wanted[client]))
        if client not in known:
            told.append(Sighting(node, 0, t_us, "connect", client))
            old: list[str] = []
        else:
            old = sorted(known[client].wishes)
        told += [Sighting(node, 0, t_us, "unsubscribe", client, topic) for topic in old if topic not in wishes]
        told += [Sighting(node, 0, t_us, "subscribe", client, topic) for topic in wishes]
    return [sighting._replace(order=index) for index, sighting in enumerate(told)]
