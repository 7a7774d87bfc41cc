"""Row hashes: equal rows agree, different ones rarely, and a good spread over parts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coterie.kernels.interests import texthash


def hashed(texts: list[str], numbers: list[int]) -> list[int]:
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int32)
    rows = np.zeros(len(texts), np.uint64)
    texthash.hash_texts(offsets, np.frombuffer(b"".join(encoded) + b" ", np.uint8).copy(), rows)
    texthash.hash_numbers(np.array(numbers, np.int64).view(np.uint64), rows)
    return rows.tolist()


@given(st.lists(st.tuples(st.text(max_size=6), st.integers(-5, 5)), min_size=1, max_size=30))
def test_rows_agree_exactly_when_they_are_equal_wherever_they_stand(rows):
    together = hashed([text for text, _ in rows], [number for _, number in rows])
    alone = [hashed([text], [number])[0] for text, number in rows]
    assert together == alone
    assert len(set(together)) == len(set(rows))


def test_names_that_differ_in_a_digit_spread_evenly():
    rows = hashed([f"user-{number:07d}" for number in range(80_000)], [0] * 80_000)
    counts = np.bincount(np.array(rows, np.uint64) % np.uint64(8))
    assert counts.min() > 9_500
    assert counts.max() < 10_500
