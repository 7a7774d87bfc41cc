"""Tables of a catalog go in as files do, and bills come out as tables, one partition a run."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import ConfigError, InputError
from coterie.pipeline import catalogs, job
from coterie.pipeline.mapping import Source
from coterie.pipeline.storage import write_rows
from coterie.pipeline.tasks import part_files, part_name
from coterie.pipeline.windows import WindowChoices
from coterie.systems import SYSTEMS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def logs(spark):
    rows = [("a", "t1", 10), ("b", "t1", 20), ("b", "t2", 30), ("c", None, 40)]
    spark.createDataFrame(rows, "user string, page string, first long").write.saveAsTable("subs", mode="overwrite")
    said = [("a", "t1", "1970-01-01T00:01:00Z", 100), ("z", "t2", "1970-01-01T00:02:00Z", 7)]
    schema = "publisher string, topic string, time string, bytes string"
    rows = [(one, two, three, str(four)) for one, two, three, four in said]
    spark.createDataFrame(rows, schema).write.saveAsTable("pubs", mode="overwrite")
    yield
    for name in ("subs", "pubs", "bills", "seats"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def request() -> job.Request:
    columns = {"subscriber": "user", "topic": "page", "since": "first"}
    sources = (Source(("table:subs",), "subscriptions", columns), Source(("table:pubs",), "publications"))
    return job.Request("tables", sources=sources, windows=WindowChoices(brokers=2), against="mesh")


def test_a_log_of_tables_is_planned_and_kept_until_they_change(spark, logs, tmp_path):
    mesh = [job.Candidate(SYSTEMS["mesh"], SYSTEMS["mesh"].parameters())]
    outcome = job.run_job(spark, request(), mesh, tmp_path)
    assert (outcome.facts["subscribers"], outcome.facts["topics"], outcome.facts["subscriptions"]) == (2, 2, 3)
    assert outcome.accounts["subscriptions"]["quarantined"] == 1
    (tables,) = (tmp_path / "work" / "tables").iterdir()
    (part,) = part_files(tables / "publications")
    assert [moment.timestamp() for moment in pq.read_table(part)["time"].to_pylist()] == [60.0, 120.0]
    job.run_job(spark, request(), mesh, tmp_path)
    assert list((tmp_path / "work" / "tables").iterdir()) == [tables]
    spark.sql("INSERT INTO subs VALUES ('d', 't2', 50)")
    assert job.run_job(spark, request(), mesh, tmp_path).facts["subscribers"] == 3


def test_bills_and_seats_are_tables_with_a_partition_a_run(spark, logs, tmp_path):
    mesh = [job.Candidate(SYSTEMS["mesh"], SYSTEMS["mesh"].parameters())]
    job.run_job(spark, request(), mesh, tmp_path)
    for run in ("one", "two", "one"):
        catalogs.save_bills(spark, tmp_path / job.LEDGERS, run, "bills")
    rows = pq.read_table(tmp_path / job.LEDGERS).num_rows
    found = spark.table("bills").groupBy("run").count().toArrow().to_pylist()
    assert sorted((row["run"], row["count"]) for row in found) == [("one", rows), ("two", rows)]
    seats = pa.table({"client": ["a"], "node": pa.array([1], pa.int32()), "was": pa.array([0], pa.int32())})
    write_rows(seats, tmp_path / "p" / part_name(0))
    catalogs.save_placement(spark, tmp_path / "p", "one", "seats")
    assert spark.table("seats").select("client", "node", "was").toArrow().to_pylist() == [
        {"client": "a", "node": 1, "was": 0}
    ]


def test_what_is_not_there_is_told(spark, logs, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        catalogs.read_tables(spark, Source(("table:nowhere.subs",), "subscriptions"), tmp_path)
    with pytest.raises(InputError, match="no column subscriber for subscriber; its columns are user, page, first"):
        catalogs.read_tables(spark, Source(("table:subs",), "subscriptions"), tmp_path)
    with pytest.raises(ConfigError, match="not both"):
        catalogs.tables_of(replace(request().sources[0], paths=("table:subs", "subs.csv")))
    with pytest.raises(ConfigError, match="delta's package"):
        catalogs.save_bills(spark, tmp_path, "one", "bills", "delta")
    with pytest.raises(ConfigError, match="parquet, delta, iceberg"):
        catalogs.save_bills(spark, tmp_path, "one", "bills", "orc")
