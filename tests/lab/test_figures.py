"""Figures: our means with intervals, the paper's points with their reading error, and the numbers of both."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from coterie.lab.experiment import Plot, Row
from coterie.lab.figures import drawn
from coterie.lab.printed import printed_points
from coterie.lab.registry import PAPERS, experiments

PLOT = Plot("Degree", "nodes", "degree", "kind", figure="fig12")
ROWS = [
    Row("spidercast/fig12", {"nodes": nodes, "kind": "spidercast"}, seed, {"degree": nodes / 1000 + seed})
    for nodes in (1000, 2000)
    for seed in (1, 2, 3)
]


def test_a_figure_shows_both_and_keeps_the_numbers():
    figure = drawn("spidercast", PLOT, ROWS)
    assert figure.svg.startswith("<svg")
    found = list(csv.DictReader(io.StringIO(figure.csv)))
    ours = [row for row in found if row["who"] == "coterie"]
    assert [(row["x"], row["y"], row["seeds"]) for row in ours] == [("1000.0", "3.0", "3"), ("2000.0", "4.0", "3")]
    assert float(ours[0]["error"]) == pytest.approx(2.484, abs=1e-3)
    paper = [row for row in found if row["who"] == "paper"]
    assert (paper[0]["x"], paper[0]["y"]) == ("1000.0", "10.81")


def test_names_on_the_axis_and_a_line_that_is_only_printed():
    rows = [Row("tamara/table2", {"rates": rates}, 1, {"oc": 1.0}) for rates in ("average", "frequent")]
    figure = drawn("tamara", Plot("Cost", "rates", "oc"), rows)
    assert [spot.x for spot in figure.ours[""]] == ["average", "frequent"]
    assert figure.svg.startswith("<svg")


def test_a_share_is_of_the_same_run_and_nothing_is_no_share():
    rows = [Row("t/f", {"x": at}, 1, {"a": 6.0, "b": over}) for at, over in ((1, 3.0), (2, 0.0))]
    figure = drawn("tamara", Plot("Share", "x", "a", over="b"), [*rows, Row("t/f", {"x": 3}, 1, {"a": 6.0})])
    assert [(spot.x, spot.y) for spot in figure.ours[""]] == [(1.0, 2.0)]


def test_points_that_are_read_off_belong_to_a_plot():
    """A figure nobody draws would be read off in vain."""
    for paper in PAPERS:
        wanted = {plot.figure for experiment in experiments(paper) for plot in experiment.plots if plot.figure}
        for figure in wanted:
            assert printed_points(paper, figure), f"{paper}: {figure} is drawn, but points/{paper}.csv has none of it"
            assert all(point.error >= 0 for point in printed_points(paper, figure))


def test_a_paper_without_points_has_none():
    assert printed_points("nobody", "fig1") == []


def test_a_figure_of_smaller_sizes_says_so():
    """The axis shows the paper's sizes, and so do the names of lines."""
    small = [replace(row, is_small=True) for row in ROWS]
    assert "(measured smaller)" in drawn("spidercast", PLOT, small).picture(is_lettered=True)
    assert "(measured smaller)" not in drawn("spidercast", PLOT, ROWS).picture(is_lettered=True)
