"""Who wants and publishes what, kept up to date from a journal, line by line and without Spark.

`JournalTail` reads what has been added to a journal folder since the last look; `Audience` takes it in. Rates are
counts over two windows, the last full one and the one that runs, so that what was long ago is forgotten.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coterie.errors import InputError
from coterie.fleets.layout import Filters, FleetLayout
from coterie.mqtt.topics import split_shared


class JournalLine(msgspec.Struct, frozen=True):
    """A line of a journal (docs/JOURNAL.md)."""

    t: float
    kind: str
    client: str = ""
    topic: str = ""
    node: str = ""
    count: int = 1


class JournalTail:
    """What is new in a journal folder. Lines that are not whole yet wait; lines that make no sense are counted."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(str(folder), "no such journal folder; `coterie observe` writes one")
        self.folder, self.malformed = folder, 0
        self._read: dict[Path, int] = {}
        self._decoder = msgspec.json.Decoder(JournalLine)

    def lines(self) -> Iterator[JournalLine]:
        for node in sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
            for segment in sorted(node.glob("*.jsonl")):
                yield from self._segment(segment, node.name)

    def _segment(self, path: Path, node: str) -> Iterator[JournalLine]:
        start = self._read.get(path, 0)
        if path.stat().st_size <= start:
            return
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        for line in whole.splitlines():
            try:
                found = self._decoder.decode(line)
            except msgspec.DecodeError:
                self.malformed += 1
                continue
            yield found if found.node else msgspec.structs.replace(found, node=node)


@dataclass
class SeenClient:
    """One client as the journal shows it."""

    wishes: dict[str, None]
    node: str = ""
    changed_s: float = 0.0  # when we last heard of something new: a wish, or a topic it publishes on


class Audience:
    """The state of a fleet's clients."""

    def __init__(self, window_s: float = 3600.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.window_s, self.clock = window_s, clock
        self.clients: dict[str, SeenClient] = {}
        self.now_s = 0.0
        self._first_s: float | None = None
        self._began_s = 0.0  # of the window that runs
        self._counts: Counter[tuple[str, str]] = Counter()
        self._before: Counter[tuple[str, str]] = Counter()

    def take(self, lines: Iterable[JournalLine]) -> int:
        count = 0
        for line in lines:
            self._take(line)
            count += 1
        return count

    def _take(self, line: JournalLine) -> None:
        self.now_s = max(self.now_s, line.t)
        if line.kind not in ("subscribe", "unsubscribe", "publish") or not line.client:
            return
        if self._first_s is None:
            self._first_s = self._began_s = line.t
        if line.t - self._began_s > self.window_s:
            self._before, self._counts, self._began_s = self._counts, Counter(), line.t
        listener = self.clients.setdefault(line.client, SeenClient({}))
        listener.node = line.node
        if line.kind == "subscribe":
            if line.topic not in listener.wishes:
                listener.changed_s = self.clock()
            listener.wishes[line.topic] = None
        elif line.kind == "unsubscribe":
            listener.wishes.pop(line.topic, None)
        else:
            if not self._counts[line.client, line.topic] and not self._before[line.client, line.topic]:
                listener.changed_s = self.clock()
            self._counts[line.client, line.topic] += line.count

    @property
    def span_s(self) -> float:
        """How long the counts are from."""
        if self._first_s is None:
            return 1.0
        start_s = max(self._first_s, self._began_s - self.window_s) if self._before else self._began_s
        return max(self.now_s - start_s, 1.0)

    def rates(self) -> dict[str, dict[str, float]]:
        """Client -> topic -> events per second."""
        found: dict[str, dict[str, float]] = {}
        for counts in (self._before, self._counts):
            for (client, topic), count in counts.items():
                mine = found.setdefault(client, {})
                mine[topic] = mine.get(topic, 0.0) + count / self.span_s
        return found

    def layout(self, brokers: tuple[str, ...], home: Mapping[str, str]) -> FleetLayout:
        """As a plan would say it, with clients at these homes; who has none counts where the journal saw it."""
        known = [name for name, one in self.clients.items() if home.get(name, one.node) in brokers]
        wishes = {name: tuple(sorted(self.clients[name].wishes)) for name in known if self.clients[name].wishes}
        rates = self.rates()
        return FleetLayout(
            brokers=brokers,
            home={name: home.get(name, self.clients[name].node) for name in known},
            wishes=wishes,
            publishes={name: rates[name] for name in known if name in rates},
        )


def topic_rates(layout: FleetLayout) -> dict[str, float]:
    """Topic -> events per second in all."""
    found: dict[str, float] = {}
    for topics in layout.publishes.values():
        for topic, rate in topics.items():
            found[topic] = found.get(topic, 0.0) + rate
    return found


def matched(filters: Iterable[str], topics: Iterable[str]) -> tuple[str, ...]:
    """The topics that some of the filters want."""
    wanted = Filters(split_shared(one)[1] for one in filters)
    return tuple(topic for topic in topics if wanted.match(topic))
