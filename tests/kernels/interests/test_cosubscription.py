"""The co-subscription kernel against the obvious count."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.kernels.interests import cosubscription as kernels
from tests.kernels.interests.rows import csr

INTERESTS = st.lists(st.sets(st.integers(0, 11)), max_size=25)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    kernels.warm()


def obvious_pairs(rows: list[set[int]], count_min: int) -> list[tuple[int, int, int]]:
    counts: dict[tuple[int, int], int] = {}
    for row in rows:
        for pair in combinations(sorted(row), 2):
            counts[pair] = counts.get(pair, 0) + 1
    return [(*pair, count) for pair, count in sorted(counts.items()) if count >= count_min]


@given(INTERESTS, st.integers(1, 4), st.integers(1, 5))
def test_pairs_of_all_ranges_together_are_the_obvious_pairs(rows, count_min, parts):
    indptr, columns = csr(rows)
    turned = kernels.transpose(indptr, columns, 12)
    found = []
    for start, stop in kernels.ranges_of_equal_work(kernels.pair_work(indptr, columns, 12), parts):
        triple = kernels.count_pairs(indptr, columns, *turned, start, stop, count_min)
        found += list(zip(*(array.tolist() for array in triple), strict=True))
    assert found == obvious_pairs(rows, count_min)


@given(INTERESTS)
def test_the_work_of_a_topic_is_one_for_each_later_topic_of_each_of_its_rows(rows):
    indptr, columns = csr(rows)
    later = [sum(sum(other > topic for other in row) for row in rows if topic in row) for topic in range(12)]
    assert kernels.pair_work(indptr, columns, 12).tolist() == later


@given(INTERESTS)
def test_pruning_rare_topics_loses_no_pair(rows):
    indptr, columns = csr(rows)
    keep = np.bincount(columns, minlength=12) >= 3
    indptr, columns = kernels.without_columns(indptr, columns, keep)
    triple = kernels.count_pairs(indptr, columns, *kernels.transpose(indptr, columns, 12), 0, 12, 3)
    assert list(zip(*(array.tolist() for array in triple), strict=True)) == obvious_pairs(rows, 3)


@given(INTERESTS)
def test_transposing_twice_gives_the_relation_back(rows):
    indptr, columns = csr(rows)
    t_indptr, t_rows, places = kernels.transpose(indptr, columns, 12)
    assert np.array_equal(columns[indptr[t_rows] + places], np.repeat(np.arange(12), np.diff(t_indptr)))
    back_indptr, back_columns, _ = kernels.transpose(t_indptr, t_rows, len(rows))
    assert np.array_equal(back_indptr, indptr)
    assert np.array_equal(back_columns, columns)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 8))
def test_ranges_cover_every_topic_once_and_no_light_range_hides_a_heavy_one(work, parts):
    ranges = kernels.ranges_of_equal_work(np.array(work, np.int64), parts)
    assert [topic for start, stop in ranges for topic in range(start, stop)] == list(range(len(work)))
    fair = (sum(work) + len(work)) / parts + max(work) + 1
    assert all(sum(work[start:stop]) + stop - start <= fair + 1 for start, stop in ranges)
