"""Rings for tests: awkward positions, and slow obvious versions of what the kernels compute."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from coterie.substrate.identifiers import MASK, node_positions

# Random positions, positions that agree in many leading digits, and positions around 0.
_POSITION = st.one_of(
    st.integers(0, MASK),
    st.builds(lambda base, low: (base << 60) + low, st.integers(0, 15), st.integers(0, 300)),
    st.integers(-40, 40).map(lambda low: low & MASK),
)
POSITIONS = st.one_of(
    st.lists(_POSITION, min_size=1, max_size=60, unique=True).map(lambda found: np.array(found, np.uint64)),
    st.builds(node_positions, st.integers(1, 150), st.integers(0, 1000)),
)
KEYS = st.lists(_POSITION, min_size=1, max_size=20)


def clockwise_owner(positions: list[int], key: int) -> int:
    return min(range(len(positions)), key=lambda node: (positions[node] - key) & MASK)


def nearest_owner(positions: list[int], key: int) -> int:
    def distance(node: int) -> tuple[int, int]:
        upwards = (positions[node] - key) & MASK
        return min(upwards, MASK + 1 - upwards), upwards

    return min(range(len(positions)), key=distance)


def digits(position: int, bits: int) -> list[int]:
    text = f"{position:064b}"
    return [int(text[i : i + bits], 2) for i in range(0, 64, bits)]


def common_prefix(one: list[int], other: list[int]) -> int:
    shared = 0
    while shared < len(one) and one[shared] == other[shared]:
        shared += 1
    return shared
