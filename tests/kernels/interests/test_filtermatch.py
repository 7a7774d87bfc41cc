"""Filter matching against set inclusion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.kernels.interests import cosubscription, filtermatch
from tests.kernels.interests.rows import csr


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    cosubscription.warm()
    filtermatch.warm()


@given(
    st.lists(st.sets(st.integers(0, 7)), max_size=15),
    st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=4), max_size=15),
)
def test_a_filter_matches_exactly_the_documents_that_contain_it(documents, filters):
    f_indptr, f_columns = csr(filters)
    keyword_indptr, keyword_filters, _ = cosubscription.transpose(f_indptr, f_columns, 8)
    args = (*csr(documents), keyword_indptr, keyword_filters, np.diff(f_indptr))
    split = len(documents) // 2
    parts = [filtermatch.match_filters(*args, 0, split), filtermatch.match_filters(*args, split, len(documents))]
    found = [pair for docs, which in parts for pair in zip(docs.tolist(), which.tolist(), strict=True)]
    assert found == [(d, f) for d, doc in enumerate(documents) for f, wanted in enumerate(filters) if wanted <= doc]
