"""How things stand after a window, as the shards tell it: what a decision is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
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
_told_of = msgspec.msgpack.Decoder(ViewPiece).decode


@dataclass(frozen=True)
class StreamView:
    """Rates, wishes and a sample of publications as of the end of a window."""

    window: int
    window_s: float
    alpha: float
    wanted: list[tuple[str, str, str]]  # (client, topic, node) of every subscription, in order
    topics: list[str]
    rates: NDArray[np.float64]  # events per window
    nodes: list[str]  # those that had said something by then, or that somebody is attached to
    sample: pa.Table


@dataclass
class Gathered:
    """The views of one micro-batch, each from the one before and what has changed."""

    window_s: float
    alpha: float
    spans: Mapping[str, Span | None]
    wishes: dict[tuple[str, str], str] = field(default_factory=dict)
    rates: dict[str, tuple[float, int]] = field(default_factory=dict)
    sample: dict[int, list[Sampled]] = field(default_factory=dict)

    def add(self, pieces: Iterable[bytes]) -> None:
        for piece in map(_told_of, pieces):
            for client, topic, node, is_on in piece.wishes:
                if is_on:
                    self.wishes[client, topic] = node
                else:
                    self.wishes.pop((client, topic), None)
            self.rates.update({topic: (rate, after) for topic, rate, after in piece.rates})
            for window, drawn in piece.sample:
                self.sample.setdefault(window, []).append(drawn)

    def view(self, window: int) -> StreamView:
        wanted = sorted((client, topic, node) for (client, topic), node in self.wishes.items())
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
            sorted(said | {node for _, _, node in wanted}),
            self._sample(window),
        )

    def _sample(self, window: int) -> pa.Table:
        inside = [one for one in sorted(self.sample) if window - SAMPLE_WINDOWS < one <= window]
        rows = [(one, *drawn) for one in inside for drawn in lowest(self.sample[one])]
        columns = list(zip(*rows, strict=True)) or [()] * len(SAMPLE)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, SAMPLE, strict=True)], schema=SAMPLE)
