"""What is in memory and what is in files is the same log: the arrays made here equal those that Spark makes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import coterie as ct
from coterie.pipeline import here, latesession
from coterie.plans.tables import NamedWorkload
from tests.api.logs import rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    class Kept:
        def __getattr__(self, name: str) -> object:
            return (lambda: None) if name == "stop" else getattr(spark, name)

    monkeypatch.setattr(latesession, "_open", lambda master: Kept())
    return spark


def by_name(found: NamedWorkload) -> dict[str, Any]:
    """Ids differ, names do not."""
    demand, topics, clients = found.workload, found.topics.to_pylist(), found.clients.to_pylist()
    wants: dict[str, set[str]] = defaultdict(set)
    for row, column in zip(demand.interests.rows.tolist(), demand.interests.columns.tolist(), strict=True):
        wants[clients[row]].add(topics[column])
    sent = demand.publications
    rates = {
        (clients[who], topics[what]): (pytest.approx(rate), pytest.approx(size))
        for who, what, rate, size in zip(
            sent.publisher.tolist(), sent.topic.tolist(), sent.rate.tolist(), sent.size.tolist(), strict=True
        )
    }
    return {"wants": dict(wants), "rates": rates, "nodes": demand.node_count, "zones": demand.zones}


@pytest.mark.parametrize("is_small", [False, True])
def test_both_ways_make_the_same_windows(
    session: Any, tmp_path: Path, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here, "is_small", lambda request: is_small)
    subscriptions, publications = rows(events=400)
    for number, one in enumerate(subscriptions):  # some come later, some leave
        one |= {"since": 1_700_000_000 + 3 * number, "until": None if number % 3 else 1_700_002_500}
    subscriptions += [{"subscriber": "wild", "topic": "g1/+", "since": None, "until": None}]
    for name, found in (("subs", subscriptions), ("pubs", publications)):
        pq.write_table(pa.Table.from_pylist(found), tmp_path / f"{name}.parquet")
    files = ct.read_log(tmp_path / "subs.parquet", tmp_path / "pubs.parquet", brokers=5, folder=tmp_path / "out")
    memory = ct.read_log(subscriptions, publications, brokers=5)
    for one, other in zip(files.split(0.4), memory.split(0.4), strict=True):
        assert by_name(one.demand()) == by_name(other.demand())
        left, right = one.demand().workload.stays, other.demand().workload.stays
        assert left is not None
        assert right is not None
        assert sorted(left.begin_s.tolist()) == sorted(right.begin_s.tolist())
        assert sorted(left.end_s.tolist()) == sorted(right.end_s.tolist())
    again = ct.read_log(tmp_path / "subs.parquet", tmp_path / "pubs.parquet", brokers=5, folder=tmp_path / "out")

    def no_spark(master: str) -> Any:
        raise AssertionError("a second look starts nothing")

    latesession._open = no_spark  # type: ignore[assignment]  # the fixture puts it back
    assert by_name(again.split(0.4)[0].demand()) == by_name(files.split(0.4)[0].demand())


def test_a_session_is_opened_once_and_late() -> None:
    opened: list[str] = []

    class Session:
        version = "4.1"

        def stop(self) -> None:
            opened.append("stopped")

    def open_one(master: str) -> Any:
        opened.append(master)
        return Session()

    late = latesession.LateSession("local[1]", open_one)
    late.stop()
    assert not opened
    assert not late.is_open
    assert (late.version, late.version) == ("4.1", "4.1")
    assert late.is_open
    late.stop()
    assert opened == ["local[1]", "stopped"]
