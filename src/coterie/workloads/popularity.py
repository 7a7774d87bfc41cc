"""How popular topics are by rank, and interests drawn from it: distinct topics for each subscriber."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.interests.drawing import draw_in_modes, fill_guide
from coterie.model import Relation

Floats = NDArray[np.float64]


def zipf(count: int, exponent: float, shift: int = 0) -> Floats:
    """The i-th topic (from 1) weighs (i + shift)^-exponent."""
    return np.arange(1 + shift, count + 1 + shift, dtype=np.float64) ** -exponent


def exponential(count: int, share_of_top_tenth: float) -> Floats:
    """Weights that fall by one ratio, which gives the top tenth of the topics the stated share."""
    tenth = max(1, round(count / 10))
    low, high = 0.0, 1.0
    for _ in range(200):  # bisection; the share falls as the ratio rises
        ratio = (low + high) / 2
        share = _share_of_first(ratio, tenth, count)
        low, high = (ratio, high) if share > share_of_top_tenth else (low, ratio)
    return high ** np.arange(count, dtype=np.float64)


def _share_of_first(ratio: float, first: int, count: int) -> float:
    return (1 - ratio**first) / (1 - ratio**count) if ratio < 1 else first / count


def even_bounds(total: int, parts: int) -> NDArray[np.int64]:
    """Where `parts` neighbouring parts of `total` begin and end; sizes differ by one at most."""
    return np.arange(parts + 1, dtype=np.int64) * total // parts


def draw_interests(draw: np.random.Generator, weights: Floats, sizes: NDArray[np.int64]) -> Relation:
    """Row r: sizes[r] distinct topics, drawn one after the other by weight."""
    everything = np.zeros((len(sizes), 1), np.int32)
    return draw_modal_interests(draw, weights, sizes, everything, np.array([0, len(weights)]))


def draw_modal_interests(
    draw: np.random.Generator,
    weights: Floats,
    sizes: NDArray[np.int64],
    modes: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> Relation:
    """The same inside the modes of each row: topics bounds[m]:bounds[m + 1], the first the most popular."""
    room = np.diff(bounds)[modes].sum(axis=1)
    if np.any(sizes > room):
        row = int(np.argmax(sizes > room))
        raise ConfigError("subscriptions", int(sizes[row]), f"at most the {room[row]} topics there are to choose from")
    weights = np.maximum(weights, 1e-300)  # a weight that underflowed still takes part in the race for the last places
    upto = np.cumsum(weights / weights.sum())
    upto[-1] = 1.0
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    columns = draw_in_modes(draw, upto, fill_guide(upto), weights, modes, bounds, indptr)
    return Relation(indptr, columns, int(bounds[-1]))


def fixed_sizes(count: int, size: int) -> NDArray[np.int64]:
    return np.full(count, size, np.int64)
