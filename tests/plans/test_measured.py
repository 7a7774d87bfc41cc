"""The measured bill is a rate over the time a plan is in force, and stands beside what was predicted."""

from __future__ import annotations

import pytest

from coterie.plans import measured
from tests.plans.made import plan_of


class Counting:
    """Nodes that have counted so much, after so many seconds."""

    def __init__(self, *books: dict[str, float]) -> None:
        self._books = list(books)

    def ask(self, path: str) -> list[dict[str, object]]:
        assert path == "/ledger"
        book = self._books.pop(0)
        columns = dict.fromkeys(measured.SHOWN, 0.0) | {"dissemination.copies": book["rate"]}
        return [{"columns": columns, "in_force_s": book["s"], "deliveries": book["deliveries"]} for _ in range(2)]


def test_rates_are_of_all_nodes_since_the_plan_is_in_force() -> None:
    found = measured.measured(Counting({"rate": 3.0, "s": 10.0, "deliveries": 40}))  # type: ignore[arg-type]
    assert found["dissemination.copies"] == pytest.approx(6.0)
    assert found["loss.delivered"] == pytest.approx(8.0)


def test_over_the_coming_seconds_only_what_came_in_them_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured.time, "sleep", lambda seconds: None)
    books = Counting({"rate": 3.0, "s": 10.0, "deliveries": 40}, {"rate": 4.0, "s": 15.0, "deliveries": 60})
    found = measured.measured(books, 5.0)  # type: ignore[arg-type]
    assert found["dissemination.copies"] == pytest.approx(2 * (4.0 * 15 - 3.0 * 10) / 5)
    assert found["loss.delivered"] == pytest.approx(2 * 20 / 5)


def test_side_by_side_with_copies_per_delivery() -> None:
    plan = plan_of("mesh")
    assert plan.facts.predicted is not None
    rows = measured.side_by_side(plan, Counting({"rate": 3.0, "s": 10.0, "deliveries": 40}))  # type: ignore[arg-type]
    foretold = plan.facts.predicted
    assert rows["dissemination.copies"] == (foretold.dissemination.copies, pytest.approx(6.0))
    per_delivery = foretold.dissemination.copies / foretold.loss.delivered
    assert rows["copies per delivery"] == (pytest.approx(per_delivery), pytest.approx(6.0 / 8.0))
