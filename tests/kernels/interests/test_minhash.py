"""MinHash neighbours against all pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.kernels.interests import minhash as kernels
from tests.kernels.interests.rows import csr

INTERESTS = st.lists(st.sets(st.integers(0, 9)), max_size=20)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    kernels.warm()


def neighbours(rows, bands=8, rows_per_band=1, bucket_max=50, reach=3, similarity_min=0.0, size_min=1):
    indptr, columns = csr(rows)
    seeds = kernels.band_seeds(bands, rows_per_band, 1)
    hashes = np.array([kernels.band_hashes(indptr, columns, band, size_min) for band in seeds]).reshape(bands, -1)
    layout = [kernels.bucket_order(band, bucket_max) for band in hashes]
    ranks = np.array([rank for _, rank, _ in layout]).reshape(bands, -1)
    crowded = np.array([crowd for _, _, crowd in layout]).reshape(bands, -1)
    found = []
    for band, (order, _, _) in enumerate(layout):
        args = (indptr, columns, hashes, ranks, crowded, order, band, reach, similarity_min)
        triple = kernels.neighbours_in_band(*args)
        found += list(zip(*(array.tolist() for array in triple), strict=True))
    return found


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b)


@given(INTERESTS, st.integers(2, 6))
def test_every_pair_comes_once_with_its_exact_similarity(rows, bucket_max):
    found = neighbours(rows, bucket_max=bucket_max)
    assert len({(a, b) for a, b, _ in found}) == len(found)
    for a, b, similarity in found:
        assert a < b
        assert similarity == np.float32(jaccard(rows[a], rows[b]))


@given(INTERESTS)
def test_in_roomy_buckets_pairs_that_agree_in_a_band_are_all_found(rows):
    indptr, columns = csr(rows)
    hashes = [kernels.band_hashes(indptr, columns, band, 1) for band in kernels.band_seeds(8, 1, 1)]
    agreeing = {(a, b) for a, b in combinations(range(len(rows)), 2) if any(h[a] == h[b] != 0 for h in hashes)}
    assert {(a, b) for a, b, _ in neighbours(rows)} == agreeing


@given(st.sets(st.integers(0, 9), min_size=1), st.integers(4, 40))
def test_a_crowd_of_equals_costs_linear_work_and_nobody_stays_alone(interest, crowd):
    found = neighbours([interest] * crowd, bucket_max=3, reach=2)
    assert len(found) <= 2 * crowd
    assert {row for a, b, _ in found for row in (a, b)} == set(range(crowd))


def test_small_interests_and_weak_pairs_are_left_out():
    rows = [{1, 2, 3}, {1, 2, 3}, {1}, {1}, {1, 2, 3, 4, 5, 6, 7, 8}]
    found = neighbours(rows, size_min=2, similarity_min=0.9)
    assert [(a, b) for a, b, _ in found] == [(0, 1)]


def test_agreement_in_one_hash_estimates_similarity():
    draw = np.random.default_rng(5)
    a = set(range(0, 60))
    b = set(range(30, 90))
    indptr, columns = csr([a, b])
    seeds = draw.integers(1, 2**63, size=(4000, 1), dtype=np.uint64)
    agree = np.mean([np.ptp(kernels.band_hashes(indptr, columns, seed, 1)) == 0 for seed in seeds])
    assert abs(agree - 1 / 3) < 0.03
