"""Times in every form we promise to read."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.times import parse_times

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)  # 1_700_000_000 s


@pytest.mark.parametrize(
    "text",
    [
        "1700000000",
        "1700000000000",
        "1700000000000000",
        "1700000000000000000",
        "1.7e9",
        "+1700000000",
        "2023-11-14T22:13:20Z",
        "2023-11-14 22:13:20",
        "2023-11-14T23:13:20+01:00",
        "2023-11-14T23:13:20+0100",
        "2023-11-14T22:13:20.000000000Z",
        " 2023-11-14T17:13:20-05 ",
    ],
)
def test_auto_reads_every_common_form(text):
    assert parse_times(pa.array([text, None]), "auto", "UTC").to_pylist() == [MOMENT, None]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_declared_units_hold_for_numbers_and_text(unit, factor):
    number = 1_700_000_000 * factor
    assert parse_times(pa.array([number]), unit, "UTC").to_pylist() == [MOMENT]
    assert parse_times(pa.array([str(number)]), unit, "UTC").to_pylist() == [MOMENT]


def test_naive_times_are_in_the_declared_zone():
    naive = pa.array(["2023-11-14 23:13:20", "2023-07-01T02:00:00"])
    found = parse_times(naive, "auto", "Europe/Vienna").to_pylist()
    assert found == [MOMENT, datetime(2023, 7, 1, tzinfo=UTC)]
    assert parse_times(pa.array([datetime(2023, 11, 14, 23, 13, 20)]), "auto", "Europe/Vienna").to_pylist() == [MOMENT]


@pytest.mark.parametrize(
    "text", ["yesterday", "2023-02-30", "2023-13-01T00:00:00Z", "", "1e400", "9999999999999999999999"]
)
def test_what_is_no_time_becomes_null_and_spares_its_neighbours(text):
    found = parse_times(pa.array([text, "2023-11-14T22:13:20Z"]), "auto", "UTC").to_pylist()
    assert found == [None, MOMENT]


def test_small_seconds_stay_seconds_when_declared():
    assert parse_times(pa.array(["36"]), "s", "UTC").to_pylist() == [datetime(1970, 1, 1, 0, 0, 36, tzinfo=UTC)]


@given(st.integers(-(10**15), 2 * 10**15))
def test_microseconds_survive_exactly(us):
    found = parse_times(pa.array([us]), "us", "UTC").cast(pa.int64()).to_pylist()
    text = parse_times(pa.array([str(us)]), "us", "UTC").cast(pa.int64()).to_pylist()
    assert found == text == [us]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%d.%m.%Y %H:%M:%S", "14.11.2023 23:13:20"),
        ("%m/%d/%Y %I:%M:%S %p", "11/14/2023 11:13:20 PM"),
        ("%d.%m.%Y %H:%M:%S.%f", "14.11.2023 23:13:20.000"),
        ("%d/%b/%Y:%H:%M:%S %z", "14/Nov/2023:22:13:20 +0000"),
    ],
)
def test_a_pattern_reads_local_times_and_nothing_else(pattern, text):
    found = parse_times(pa.array([text, "2023-11-14T22:13:20Z", "gestern", None]), pattern, "Europe/Vienna")
    assert found.to_pylist() == [MOMENT, None, None, None]


def test_a_pattern_reads_numbers_that_are_dates():
    day = parse_times(pa.array([20231114]), "%Y%m%d", "UTC")
    assert day.to_pylist() == [datetime(2023, 11, 14, tzinfo=UTC)]
