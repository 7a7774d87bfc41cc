"""Rows of column numbers as kernels take them."""

from __future__ import annotations

import numpy as np


def csr(rows: list[set[int]]) -> tuple[np.ndarray, np.ndarray]:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return indptr, np.array([column for row in rows for column in sorted(row)], np.int32)
