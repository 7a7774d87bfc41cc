"""Data in memory is taken as it is, whoever's it is; what cannot be used is set aside and told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import coterie as ct
from coterie.errors import ConfigError, InputError
from tests.api.logs import rows


def as_pandas(found: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(found)


def as_polars(found: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(found)


def as_duckdb(found: list[dict[str, Any]]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    table = pa.Table.from_pylist(found)
    return duckdb.connect().from_arrow(table)


def as_arrow(found: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(found)


@pytest.mark.parametrize("kind", [as_pandas, as_polars, as_duckdb, as_arrow])
def test_every_kind_of_frame_is_the_same_log(kind: Any) -> None:
    subscriptions, publications = rows()
    plain = ct.read_log(subscriptions, publications).demand()
    other = ct.read_log(kind(subscriptions), kind(publications)).demand()
    assert other.clients.equals(plain.clients)
    assert other.workload.interests == plain.workload.interests
    assert np.array_equal(other.workload.publications.rate, plain.workload.publications.rate)
    assert np.array_equal(other.workload.publications.size, plain.workload.publications.size)


def test_times_may_be_timestamps_and_columns_have_other_names() -> None:
    pandas = pytest.importorskip("pandas")
    subscriptions, publications = rows()
    renamed = as_pandas(subscriptions).rename(columns={"subscriber": "user"})
    timed = as_pandas(publications)
    timed["time"] = pandas.to_datetime(timed["time"], unit="s", utc=True)
    log = ct.read_log(renamed, timed, columns={"subscriber": "user"})
    plain = ct.read_log(subscriptions, publications)
    assert log.demand().workload.publications.rate.sum() == plain.demand().workload.publications.rate.sum()


def test_rows_that_cannot_be_used_are_counted_by_reason() -> None:
    bad = [{"subscriber": None, "topic": "a"}, {"subscriber": "x", "topic": "a/#/b"}, {"subscriber": "y", "topic": ""}]
    subscriptions, publications = rows()
    log = ct.read_log([*subscriptions, *bad], publications)
    account = log.accounts["subscriptions"]
    assert account["rows_in"] - account["kept"] == account["quarantined"] == sum(account["reasons"].values()) == 3
    assert {"subscriber is missing", "topic is missing"} < set(account["reasons"])
    with pytest.raises(InputError, match="all 3 rows were set aside"):
        ct.read_log(bad)
    with pytest.raises(InputError, match=rf"subscriptions, row {len(subscriptions) + 1}: subscriber is missing"):
        ct.read_log([*subscriptions, *bad], publications, strict=True)
    assert ct.read_log(subscriptions, publications, strict=True).accounts["subscriptions"]["quarantined"] == 0


def test_wrong_columns_are_told_with_those_that_are_there() -> None:
    with pytest.raises(ConfigError, match=r"expected one of the columns it has: user, topic, got 'subscriber'"):
        ct.read_log([{"user": "ann", "topic": "a"}])
    with pytest.raises(ConfigError, match=r"one of .*subscriber"):
        ct.read_log([{"subscriber": "ann", "topic": "a"}], columns={"colour": "red"})
    with pytest.raises(ConfigError, match="all tables as files, or all of them in memory"):
        ct.read_log([{"subscriber": "ann", "topic": "a"}], publications="pubs.csv")
    with pytest.raises(ConfigError, match="a path, or a data frame"):
        ct.read_log(object())


def test_filters_and_groups_are_understood() -> None:
    subscriptions = [
        {"subscriber": "ann", "topic": "site/+/temp"},
        {"subscriber": "bob", "topic": "$share/g/site/#"},
        {"subscriber": "cid", "topic": "$share/g/site/#"},
    ]
    publications = [{"publisher": "p", "topic": topic, "time": at} for at, topic in enumerate(["site/1/temp", "other"])]
    found = ct.read_log(subscriptions, publications).demand()
    assert found.topics.to_pylist() == ["site/1/temp"]
    assert found.clients.to_pylist() == ["ann", "bob", "cid", "p"]
    assert found.workload.weights is not None
    assert found.workload.weights.tolist() == [1.0, 0.5, 0.5]
    plain = ct.read_log(subscriptions, publications, topics="plain").demand()
    assert len(plain.topics) == 2


def test_rows_in_memory_are_checked_as_rows_of_files_are() -> None:
    subscriptions, publications = rows()
    worded = [{**row, "bytes": "many" if number == 3 else str(row["bytes"])} for number, row in enumerate(publications)]
    late = {"subscriber": "x", "topic": "a", "since": "yesterday"}
    log = ct.read_log([*subscriptions, late], worded)
    assert log.accounts["subscriptions"]["reasons"] == {"since is not a time": 1}
    assert log.accounts["publications"]["reasons"] == {"bytes is not a whole number": 1}
    with pytest.raises(InputError, match=r"since is not a time, such as '31\.1\.2026'; see time_unit="):
        ct.read_log([{"subscriber": "x", "topic": "a", "since": "31.1.2026"}])
