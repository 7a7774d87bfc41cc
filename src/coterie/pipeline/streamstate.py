"""What the stream remembers between micro-batches: rates, interests, a sample of publications, and what is still open.

How it works: lines belong to windows of event time. A window is closed once every node that had something to say is
past its end by the allowed lateness; only then do its events enter the rates (DYNATOPS eq. 8) and its changes the
interests. A node that has more to be read is part of every micro-batch, so a quiet node cannot drag the clock past a
busy one that is still being read. What holds after a window therefore depends on the lines of that window and earlier
ones alone, not on how the journal was cut into micro-batches. Events of closed windows are late: counted, not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.features import ewma_step

FORGOTTEN = 1e-30  # a rate so low that adding one event to it gives the same bits as starting anew
SAMPLE_WINDOWS = 10
SAMPLE_PER_WINDOW = 1000
ENDED_WINDOWS = 10  # how long an ended subscription is remembered, in case an older line about it comes late

COUNTS = pa.schema([("window", pa.int64()), ("topic", pa.string()), ("events", pa.int64())])
CHANGES = pa.schema(
    [
        ("window", pa.int64()),
        ("client", pa.string()),
        ("topic", pa.string()),
        ("time_us", pa.int64()),
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("node", pa.string()),
        ("is_on", pa.bool_()),
    ]
)
SAMPLE = pa.schema(
    [
        ("window", pa.int64()),
        ("priority", pa.int64()),
        ("topic", pa.string()),
        ("publisher", pa.string()),
        ("node", pa.string()),
        ("bytes", pa.int64()),
    ]
)


class LastWish(NamedTuple):
    """The last thing a client said about a topic; the first three fields are the order of lines."""

    time_us: int
    segment: str
    position: int
    node: str
    is_on: bool


class Span(NamedTuple):
    """Times of the oldest and the newest line of a node."""

    first_us: int
    last_us: int


@dataclass(frozen=True)
class Observed:
    """One micro-batch, counted: how far each node is, events, changes and sampled publications by window."""

    nodes: dict[str, Span | None]  # None: it had no line that can be read
    counts: pa.Table
    changes: pa.Table
    sample: pa.Table
    line_count: int = 0
    bad_count: int = 0  # malformed, or from the future


@dataclass
class StreamState:
    """Changes in place; whoever fails in the middle must throw it away and load the last one that was saved."""

    window_s: float
    alpha: float
    late_s: float
    nodes: dict[str, Span | None] = field(default_factory=dict)
    watermark_us: int | None = None
    next_window: int | None = None  # the first one that is open
    plan: int | None = None  # current after the last decision
    is_started: bool = False  # some closed window had events
    has_news: bool = False  # something happened since the last decision
    topics: list[str] = field(default_factory=list)
    rates: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    interests: dict[tuple[str, str], LastWish] = field(default_factory=dict)
    touched: set[tuple[str, str]] = field(default_factory=set)  # pairs whose last word is not saved yet
    counts: pa.Table = field(default_factory=COUNTS.empty_table)
    pending: pa.Table = field(default_factory=CHANGES.empty_table)
    sample: pa.Table = field(default_factory=SAMPLE.empty_table)
    line_count: int = 0
    bad_count: int = 0
    late_count: int = 0

    @property
    def width_us(self) -> int:
        return round(self.window_s * 1e6)

    def absorb(self, seen: Observed) -> None:
        """Take in a micro-batch; nothing is closed yet."""
        self.line_count += seen.line_count
        self.bad_count += seen.bad_count
        for node, span in seen.nodes.items():
            spans = [found for found in (self.nodes.get(node), span) if found is not None]
            firsts, lasts = [found.first_us for found in spans], [found.last_us for found in spans]
            self.nodes[node] = Span(min(firsts), max(lasts)) if spans else None
        reached = [self.nodes[node] for node in seen.nodes]
        times = [span.last_us for span in reached if span is not None]
        if times and len(times) == len(reached):
            mark = min(times) - round(self.late_s * 1e6)
            self.watermark_us = mark if self.watermark_us is None else max(self.watermark_us, mark)
        counts, sample = seen.counts, seen.sample
        if self.next_window is not None:
            is_late = pc.less(counts["window"], self.next_window)
            self.late_count += pc.sum(counts.filter(is_late)["events"]).as_py() or 0
            counts = counts.filter(pc.invert(is_late))
            sample = sample.filter(pc.greater_equal(sample["window"], self.next_window))
            self.late_count += pc.sum(pc.less(seen.changes["window"], self.next_window)).as_py() or 0
        summed = pa.concat_tables([self.counts, counts]).group_by(["window", "topic"]).aggregate([("events", "sum")])
        self.counts = summed.rename_columns(["window", "topic", "events"]).select(COUNTS.names)
        self.counts = self.counts.cast(COUNTS).sort_by([("window", "ascending"), ("topic", "ascending")])
        # A late change still says what somebody wants: it is taken with the next window, in the order of the lines.
        order = [(name, "ascending") for name in ("window", "time_us", "segment", "position")]
        self.pending = pa.concat_tables([self.pending, seen.changes]).sort_by(order)
        self.sample = _lowest(pa.concat_tables([self.sample, sample]))

    def close_windows(self) -> Iterator[int]:
        """Close what the watermark has passed, oldest first; after each one the state is as of its end."""
        if self.watermark_us is None:
            return
        last = self.watermark_us // self.width_us - 1
        if self.next_window is None:
            found = self._next_content(None)
            if found is None or found > last:
                return
            self.next_window = found
        while self.next_window <= last:
            closing = self.next_window
            self._close(closing)
            self.next_window = closing + 1
            yield closing
            if not self.has_news and not len(self.rates):
                found = self._next_content(self.next_window)
                self.next_window = last + 1 if found is None else max(self.next_window, min(found, last + 1))

    def wanted(self) -> list[tuple[str, str, str]]:
        """(client, topic, node) of every subscription, in order."""
        return sorted((client, topic, said.node) for (client, topic), said in self.interests.items() if said.is_on)

    def known_nodes(self) -> list[str]:
        """Nodes that had said something by the end of the last closed window, or that somebody is attached to."""
        end_us = (self.next_window or 0) * self.width_us
        said = {node for node, span in self.nodes.items() if span is not None and span.first_us < end_us}
        return sorted(said | {node for _, _, node in self.wanted()})

    def closed_sample(self) -> pa.Table:
        """Sampled publications of closed windows."""
        return self.sample.filter(pc.less(self.sample["window"], self.next_window or 0))

    def _next_content(self, start: int | None) -> int | None:
        windows = [table["window"] for table in (self.counts, self.pending) if len(table)]
        if start is not None:
            windows = [column.filter(pc.greater_equal(column, start)) for column in windows]
        lowest = [found for column in windows if (found := pc.min(column).as_py()) is not None]
        return min(lowest, default=None)

    def _close(self, window: int) -> None:
        self._apply_changes(window)
        upto = int(np.searchsorted(self.counts["window"].to_numpy(), window, side="right"))
        self._apply_events(self.counts.slice(0, upto))
        self.counts = self.counts.slice(upto)
        if len(self.sample) and pc.min(self.sample["window"]).as_py() <= window - SAMPLE_WINDOWS:
            self.sample = self.sample.filter(pc.greater(self.sample["window"], window - SAMPLE_WINDOWS))

    def _apply_events(self, events: pa.Table) -> None:
        place = {topic: index for index, topic in enumerate(self.topics)} if len(events) else {}
        names = events["topic"].to_pylist()
        fresh = [name for name in names if name not in place]
        place.update({name: len(self.topics) + index for index, name in enumerate(fresh)})
        self.topics = self.topics + fresh
        before = np.concatenate([self.rates, np.zeros(len(fresh))])
        listed = np.array([place[name] for name in names], np.int64)
        observed = events["events"].to_numpy().astype(np.float64)
        if self.is_started:
            self.rates = ewma_step(before, listed, observed, self.alpha)
        else:
            before[listed] += observed  # the estimate starts from what the first window showed
            self.rates = before
        self.is_started = self.is_started or bool(len(events))
        self.has_news = self.has_news or bool(len(events))
        if len(self.rates) and self.rates.min() < FORGOTTEN:
            kept = np.flatnonzero(self.rates >= FORGOTTEN)
            self.topics, self.rates = [self.topics[index] for index in kept], self.rates[kept]

    def _apply_changes(self, window: int) -> None:
        upto = int(np.searchsorted(self.pending["window"].to_numpy(), window, side="right"))
        if not upto:
            return
        self.has_news = True
        for row in self.pending.slice(0, upto).to_pylist():
            said = LastWish(*(row[name] for name in LastWish._fields))
            known = self.interests.get((row["client"], row["topic"]))
            if known is None or said[:3] >= known[:3]:
                self.interests[row["client"], row["topic"]] = said
                self.touched.add((row["client"], row["topic"]))
        self.pending = self.pending.slice(upto)
        horizon_us = (window - ENDED_WINDOWS) * self.width_us
        ended = [pair for pair, said in self.interests.items() if not said.is_on and said.time_us < horizon_us]
        for pair in ended:
            del self.interests[pair]
        self.touched.update(ended)


def _lowest(sample: pa.Table) -> pa.Table:
    """Per window the rows of lowest priority number: the same ones in whatever portions they arrived."""
    ordered = sample.sort_by([(name, "ascending") for name in ("window", "priority", "topic", "publisher", "node")])
    window = ordered["window"].to_numpy()
    rank = np.arange(len(window)) - np.searchsorted(window, window)
    return ordered.filter(pa.array(rank < SAMPLE_PER_WINDOW))
