"""How things stand after a window, as the shards tell it: what a decision is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.clock import Span
from coterie.pipeline.features import FORGOTTEN, decayed
from coterie.pipeline.portions import Sampled
from coterie.pipeline.shards import SAMPLE_WINDOWS, ViewPiece, lowest

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
WISH = pa.schema([("client", pa.string()), ("topic", pa.string()), ("node", pa.string()), ("is_on", pa.bool_())])
_told_of = msgspec.msgpack.Decoder(ViewPiece).decode
I32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class StandingWishes:
    """Every subscription in the order of client and topic, as numbers; names are sorted, and each is somebody's."""

    clients: pa.Array
    topics: pa.Array
    nodes: pa.Array
    client: I32
    topic: I32
    node: I32

    @classmethod
    def of(cls, said: pa.Table) -> StandingWishes:
        """What holds after `said` (WISH): the last word on each pair counts."""
        (clients, client), (topics, topic), (nodes, node) = (_numbered(said[name]) for name in WISH.names[:3])
        key = client * np.int64(max(len(topics), 1)) + topic
        order = np.argsort(key, kind="stable")
        key = key[order]
        is_last = np.ones(len(key), bool)
        is_last[:-1] = key[1:] != key[:-1]
        del key
        kept = order[is_last]
        kept = kept[said["is_on"].to_numpy()[kept]]
        named = [_without_idle(*one, kept) for one in ((clients, client), (topics, topic), (nodes, node))]
        return cls(*(names for names, _ in named), *(numbers for _, numbers in named))

    def __len__(self) -> int:
        return len(self.client)

    def rows(self) -> list[tuple[str, str, str]]:
        """(client, topic, node), for few."""
        columns = ((self.clients, self.client), (self.topics, self.topic), (self.nodes, self.node))
        return list(zip(*(names.take(pa.array(numbers)).to_pylist() for names, numbers in columns), strict=True))


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, I32]:
    names = pc.unique(column)
    names = names.take(pc.array_sort_indices(names))
    return names, pc.index_in(column, value_set=names).to_numpy()


def _without_idle(names: pa.Array, numbers: I32, kept: NDArray[np.int64]) -> tuple[pa.Array, I32]:
    numbers = numbers[kept]
    is_used = np.zeros(len(names), bool)
    is_used[numbers] = True
    if is_used.all():
        return names, numbers
    return names.filter(pa.array(is_used)), (np.cumsum(is_used, dtype=np.int32) - 1)[numbers]


@dataclass(frozen=True)
class StreamView:
    """Rates, wishes and a sample of publications as of the end of a window."""

    window: int
    window_s: float
    alpha: float
    wanted: StandingWishes
    topics: list[str]
    rates: NDArray[np.float64]  # events per window
    nodes: list[str]  # those that had said something by then, or that somebody is attached to
    sample: pa.Table


@dataclass
class Gathered:
    """The views of one micro-batch, each from the one before and what has changed.

    What grows with subscriptions stays in Arrow's memory, some hundred bytes for each (docs/PIPELINE.md has them).
    """

    window_s: float
    alpha: float
    spans: Mapping[str, Span | None]
    wishes: list[pa.RecordBatch] = field(default_factory=list)  # as told
    rates: dict[str, tuple[float, int]] = field(default_factory=dict)
    sample: dict[int, list[Sampled]] = field(default_factory=dict)

    def add(self, pieces: Iterable[bytes]) -> None:
        for piece in map(_told_of, pieces):
            if piece.wishes:
                columns = zip(zip(*piece.wishes, strict=True), WISH.types, strict=True)
                self.wishes.append(pa.record_batch([pa.array(column, kind) for column, kind in columns], schema=WISH))
            self.rates.update({topic: (rate, after) for topic, rate, after in piece.rates})
            for window, drawn in piece.sample:
                self.sample.setdefault(window, []).append(drawn)

    def view(self, window: int) -> StreamView:
        wanted = StandingWishes.of(pa.Table.from_batches(self.wishes, WISH))
        topics = sorted(self.rates)
        silent = np.array([window - self.rates[topic][1] for topic in topics], np.int64)
        rates = decayed(np.array([self.rates[topic][0] for topic in topics], np.float64), silent, self.alpha)
        lasting = np.flatnonzero(rates >= FORGOTTEN)
        end_us = (window + 1) * round(self.window_s * 1e6)
        said = {node for node, span in self.spans.items() if span is not None and span.first_us < end_us}
        return StreamView(
            window,
            self.window_s,
            self.alpha,
            wanted,
            [topics[index] for index in lasting],
            rates[lasting],
            sorted(said.union(wanted.nodes.to_pylist())),
            self._sample(window),
        )

    def _sample(self, window: int) -> pa.Table:
        inside = [one for one in sorted(self.sample) if window - SAMPLE_WINDOWS < one <= window]
        rows = [(one, *drawn) for one in inside for drawn in lowest(self.sample[one])]
        columns = list(zip(*rows, strict=True)) or [()] * len(SAMPLE)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, SAMPLE, strict=True)], schema=SAMPLE)
