"""The frontier: what is marked as best, and that a point is a design that can be had again by its words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.api.comparing import Comparison, compare
from coterie.api.frontier import Frontier, frontier
from coterie.api.frontier_report import cells, shown
from coterie.api.logs import log_of
from coterie.model import Workload
from tests.systems.test_choosing import fleet

SYSTEMS = ["mesh", "scribe", "star"]


def demand() -> Workload:
    return replace(fleet(8, 0.5), zone_of=np.arange(8, dtype=np.int32) % 2, zones=("a", "b"))


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(log_of(demand()), systems=SYSTEMS)


@pytest.fixture(scope="module")
def found(compared: Comparison) -> Frontier:
    return frontier(compared)


def test_best_is_what_nothing_beats_in_all_respects(found: Frontier) -> None:
    assert found.best
    for point in found.points:
        beaten = [other for other in found.points if other.beats(point)]
        assert point.is_best == (not beaten)
    for number in range(4):  # whoever is best in one respect is on it, or as good as somebody who is
        least = min(point.aims[number] for point in found.points)
        assert any(point.aims[number] == pytest.approx(least, abs=1e-12) for point in found.best)
    assert {0.0} < {point.moves for point in found.best}


def test_other_systems_are_in_the_picture_and_what_runs_now_is_named(found: Frontier) -> None:
    labels = [point.label for point in found.points]
    assert "scribe" in labels
    assert "scribe (placed)" in labels
    assert sum("(now)" in label for label in labels) == 1
    assert len(labels) == len(set(labels))


def test_a_point_is_made_again_by_its_words(found: Frontier) -> None:
    for point in found.points:
        if point.is_ours and point.is_best:
            again = compare(log_of(demand()), systems=[point.system])
            assert again.best is not None
            assert again.best.later == point.later, point.system


def test_the_table_is_no_wider_than_a_terminal(found: Frontier) -> None:
    rows = [cells(point)[:-1] for point in shown(found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    assert 2 + sum(widths) + len(widths) <= 80


def test_the_page_has_the_picture_and_the_words(found: Frontier, tmp_path: object) -> None:
    from pathlib import Path

    text = found.report().write(Path(str(tmp_path)) / "frontier.html").read_text()
    assert "<svg" in text
    assert all(point.system in text for point in found.best)


def test_the_document_says_it_all(found: Frontier) -> None:
    document = found.document()
    assert document["schema"] == 1
    assert len(document["points"]) == len(found.points)
    assert {"system", "bytes_per_s", "hops", "cut_by_node", "moves", "is_best"} <= set(document["points"][0])
