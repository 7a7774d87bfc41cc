"""There and back with a table format of a lakehouse: a log of its tables, planned; bills as one, a partition a run.

Runs in an environment whose Spark the format has packages for (`make lakes`), started by test_lakes: NAME JARS FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from coterie.pipeline import catalogs, job
from coterie.pipeline.mapping import Source
from coterie.pipeline.session import open_session
from coterie.pipeline.windows import WindowChoices
from coterie.systems import SYSTEMS

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}


def main(name: str, jars: Path, folder: Path) -> None:
    packages = {"spark.jars": ",".join(str(one) for one in sorted(jars.glob(f"*{name}*.jar")))}
    settings = DELTA if name == "delta" else {**ICEBERG, "spark.sql.catalog.lake.warehouse": str(folder / "lake")}
    spark = open_session("local[1]", profile="test", work_dir=folder / "spark", conf=packages | settings)
    home = "lake.db." if name == "iceberg" else ""
    rows = [("a", "t1", 10), ("b", "t1", 20), ("b", "t2", 30)]
    schema = "user string, page string, first long"
    spark.createDataFrame(rows, schema).write.format(name).saveAsTable(f"{home}subs")
    said = [("a", "t1", "1970-01-01T00:01:00Z", "100"), ("z", "t2", "1970-01-01T00:02:00Z", "7")]
    schema = "publisher string, topic string, time string, bytes string"
    spark.createDataFrame(said, schema).write.format(name).saveAsTable(f"{home}pubs")
    columns = {"subscriber": "user", "topic": "page", "since": "first"}
    sources = (
        Source((f"table:{home}subs",), "subscriptions", columns),
        Source((f"table:{home}pubs",), "publications"),
    )
    request = job.Request("lake", sources=sources, windows=WindowChoices(brokers=2), against="mesh")
    mesh = [job.Candidate(SYSTEMS["mesh"], SYSTEMS["mesh"].parameters())]
    assert job.run_job(spark, request, mesh, folder / "out").facts["subscribers"] == 2
    for run in ("one", "two", "one"):
        catalogs.save_bills(spark, folder / "out" / job.LEDGERS, run, f"{home}bills", name)
    lines = pq.read_table(folder / "out" / job.LEDGERS).num_rows
    found = spark.table(f"{home}bills").groupBy("run").count().toArrow().to_pylist()
    assert {row["run"]: row["count"] for row in found} == {"one": lines, "two": lines}
    spark.sql(f"INSERT INTO {home}subs VALUES ('d', 't2', 50)")
    assert job.run_job(spark, request, mesh, folder / "out").facts["subscribers"] == 3  # what has changed is seen
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
