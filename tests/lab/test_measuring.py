"""What claims read from rows: one number per seed, in ascending order of seeds, whatever order the rows are in."""

from __future__ import annotations

from coterie.lab.experiment import Row, by_seed, matching
from coterie.lab.measuring import along, curve, each_seed, falling, rising, throughout, value, worst


def row(seed: int, nodes: int, **values: float) -> Row:
    return Row("paper/fig", {"nodes": nodes, "ties": "random"}, seed, values)


ROWS = [row(1, 20, y=5.0), row(0, 30, y=1.0), row(1, 10, y=7.0), row(0, 10, y=2.0), row(0, 20), row(2, 10, y=4.0)]


def test_rows_are_told_apart_by_seed_and_point() -> None:
    assert [[one.point["nodes"] for one in own] for own in by_seed(ROWS)] == [[30, 10, 20], [20, 10], [10]]
    assert [one.seed for one in matching(ROWS, nodes=20, ties="random")] == [1, 0]
    assert matching(ROWS, ties="first") == []


def test_a_measure_says_one_number_per_seed() -> None:
    assert value("y", nodes=10)(ROWS) == [2.0, 7.0, 4.0]
    assert worst("y")(ROWS) == [2.0, 7.0, 4.0]
    assert worst("y", nodes=20)(ROWS) == [5.0]  # seed 0 has no value there, seed 2 no row
    assert throughout("y", lambda found: found < 5, nodes=10)(ROWS) == [1.0, 0.0, 1.0]
    assert each_seed(len)(ROWS) == [3.0, 2.0, 1.0]
    assert each_seed(lambda own: any(one.point["nodes"] == 20 for one in own))(ROWS) == [1.0, 1.0, 0.0]


def test_a_curve_follows_its_parameter_and_one_value_has_no_order() -> None:
    assert curve(by_seed(ROWS)[0], "y", "nodes") == [2.0, 1.0]
    assert along("y", "nodes", falling)(ROWS) == [1.0, 1.0]
    assert along("y", "nodes", rising)(ROWS) == [0.0, 0.0]
