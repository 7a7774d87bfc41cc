"""Finds which keyword filters each document satisfies: a filter matches when the document has all of its keywords."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import grown
from coterie.kernels.jit import kernel

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@kernel
def match_filters(
    document_indptr: I64,
    document_keywords: I32,
    keyword_indptr: I64,
    keyword_filters: I32,
    filter_sizes: I64,
    start: int,
    stop: int,
) -> tuple[I32, I32]:
    """Pairs (document, filter) for documents start..stop, sorted; keyword_* is keyword -> filters that name it.

    Counts, per document, how many of its keywords each filter names: O(sum over documents of filters met).

    >>> one = np.array([0, 2], np.int64)
    >>> match_filters(one, np.array([0, 1], np.int32), np.array([0, 1, 2]), np.array([0, 0], np.int32),
    ...               np.array([2]), 0, 1)[1].tolist()
    [0]
    """
    met = np.zeros(len(filter_sizes), np.int32)
    touched = np.empty(len(filter_sizes), np.int32)
    documents, filters = np.empty(1024, np.int32), np.empty(1024, np.int32)
    found = 0
    for document in range(start, stop):
        touched_count = 0
        for position in range(document_indptr[document], document_indptr[document + 1]):
            keyword = document_keywords[position]
            for at in range(keyword_indptr[keyword], keyword_indptr[keyword + 1]):
                which = keyword_filters[at]
                if met[which] == 0:
                    touched[touched_count] = which
                    touched_count += 1
                met[which] += 1
        touched[:touched_count].sort()
        documents, filters = grown(documents, found, touched_count), grown(filters, found, touched_count)
        for at in range(touched_count):
            if met[touched[at]] == filter_sizes[touched[at]]:
                documents[found] = document
                filters[found] = touched[at]
                found += 1
            met[touched[at]] = 0
    return documents[:found], filters[:found]


def warm() -> None:
    """Compile for the argument types that the pipeline uses."""
    indptr, columns = np.array([0, 1], np.int64), np.zeros(1, np.int32)
    match_filters(indptr, columns, indptr, columns, np.ones(1, np.int64), 0, 1)
