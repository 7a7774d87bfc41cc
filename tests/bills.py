"""Two ledgers side by side: what differs, by name, instead of two dumps."""

from __future__ import annotations

import pytest

from coterie.model import Ledger


def differing(one: Ledger, other: Ledger, but: tuple[str, ...] = ()) -> dict[str, tuple[float, float]]:
    """The columns that are not the same but for the last digits (counts divided by seconds, and sums of rates)."""
    ours, theirs = one.columns(), other.columns()
    return {
        name: (ours[name], theirs[name])
        for name in theirs
        if not name.startswith(but) and ours[name] != pytest.approx(theirs[name], rel=1e-9, abs=1e-12)
    }
