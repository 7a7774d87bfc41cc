"""Sums of the bill: every column is in the total that it belongs to."""

from __future__ import annotations

import pytest

from coterie.model.ledger import Dissemination, Ledger, Loss, Maintenance


def test_every_kind_of_upkeep_counts() -> None:
    assert Maintenance(tree_keepalives=1.0, link_keepalives=10.0, associations=100.0).upkeep == 111.0


def test_overall_is_upkeep_and_copies() -> None:
    upkeep, copies = Maintenance(associations=100.0), Dissemination(wanted=1.0, relayed=2.0, duplicate=4.0)
    assert Ledger(maintenance=upkeep, dissemination=copies).overall == 107.0


@pytest.mark.parametrize(("delivered", "lost"), [(0.1 + 0.2, 0.0), (0.3 * (1 + 1e-12), 0.0), (0.2, 0.1), (0.3, 0.0)])
def test_what_sums_of_fractions_leave_is_no_loss(delivered: float, lost: float) -> None:
    assert Loss(owed=0.3, delivered=delivered).lost == pytest.approx(lost)
    assert str(Loss(owed=2.0e6 / 3, delivered=sum([2.0 / 3] * 1_000_000)).lost) == "0.0"
