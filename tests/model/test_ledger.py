"""Sums of the bill: every column is in the total that it belongs to."""

from __future__ import annotations

from coterie.model.ledger import Dissemination, Ledger, Maintenance


def test_every_kind_of_upkeep_counts() -> None:
    assert Maintenance(tree_keepalives=1.0, link_keepalives=10.0, associations=100.0).upkeep == 111.0


def test_overall_is_upkeep_and_copies() -> None:
    upkeep, copies = Maintenance(associations=100.0), Dissemination(wanted=1.0, relayed=2.0, duplicate=4.0)
    assert Ledger(maintenance=upkeep, dissemination=copies).overall == 107.0
