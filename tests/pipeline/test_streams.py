"""What a watch may follow: anybody's rows become lines, and what does not is told before anything starts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from coterie.errors import ConfigError, InputError, RunError
from coterie.pipeline import streams
from coterie.pipeline.watch import RETRY_FIRST_S, WatchLock


def test_what_a_user_means(tmp_path):
    (tmp_path / "a.avsc").write_text('{"type": "record"}')
    kafka = streams.lines_of("kafka://h1:9092,h2:9092/events?kafka.security.protocol=SSL", {"client": "user"})
    assert kafka == streams.KafkaLines(
        "h1:9092,h2:9092", "events", {"client": "user"}, options={"kafka.security.protocol": "SSL"}
    )
    assert streams.lines_of("kafka://h/t?format=csv&header=ts,user").header == ("ts", "user")
    assert streams.lines_of(f"kafka://h/t?format=avro&schema={tmp_path / 'a.avsc'}").avro_schema == '{"type": "record"}'
    assert streams.lines_of("table:spark_catalog.logs.events") == streams.TableLines("spark_catalog.logs.events")
    assert streams.lines_of("s3a://b/logs").format == "parquet"
    assert streams.lines_of(str(tmp_path)) == streams.JournalLines(tmp_path)


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("kafka://h:9092", {}, "kafka://host:port/topic"),
        ("kafka://h/t?format=xml", {}, "json, csv, avro"),
        ("kafka://h/t?format=csv", {}, "names of the CSV fields"),
        ("kafka://h/t?format=avro", {}, "schema of the messages"),
        ("kafka://h/t", {"user": "u"}, "one of time, node, kind, client"),
    ],
)
def test_what_cannot_be_meant_is_told(text, columns, said):
    with pytest.raises(ConfigError, match=said):
        streams.lines_of(text, columns)


def test_no_such_journal_is_told(tmp_path):
    with pytest.raises(InputError, match="no such journal folder"):
        streams.lines_of(str(tmp_path / "gone"))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
class TestLines:
    def lines(self, spark, rows, columns):
        from pyspark.sql import functions as sf

        schema = "ts string, user string, what string, page string, n string, size string"
        texts = [(row if isinstance(row, str) else json.dumps(row), index) for index, row in enumerate(rows)]
        frame = spark.createDataFrame(texts, "raw string, position long")
        parsed = frame.select(
            sf.from_json("raw", schema).alias("row"), "raw", sf.lit("events-000000000").alias("segment"), "position"
        )
        return streams.as_lines(parsed, columns).toArrow().to_pylist()

    def test_rows_of_others_become_lines_and_bad_ones_are_kept_as_text(self, spark):
        columns = {"time": "ts", "client": "user", "kind": "what", "topic": "page", "count": "n", "bytes": "size"}
        rows = [
            {"ts": 1_700_000_000, "user": "a", "what": "Subscribe", "page": "x/#"},
            {"ts": 1_700_000_000_000, "user": "b", "what": "publish", "page": "x/1", "n": 3, "size": 70},
            {"ts": "2023-11-14T22:13:20Z", "user": "c", "what": "publish", "page": "x/1"},
            {"ts": "yesterday", "user": "d", "what": "publish", "page": "x/1"},
            {"ts": 1, "user": "e", "what": "shout", "page": "x/1"},
            {"ts": 1, "user": "f", "what": "publish", "page": "x/1", "n": 0},
            "{torn",
        ]
        found = self.lines(spark, rows, columns)
        moment = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
        assert [row["time"] for row in found[:3]] == [moment] * 3
        assert [row["kind"] for row in found] == ["subscribe", "publish", "publish"] + ["malformed"] * 4
        assert (found[1]["count"], found[1]["bytes"], found[2]["count"], found[2]["bytes"]) == (3, 70, 1, None)
        assert {row["node"] for row in found} == {"events-000000000"}
        assert found[6]["detail"] == "{torn"
        assert [row["position"] for row in found] == list(range(7))

    def test_a_column_that_is_not_there_is_told(self, spark):
        with pytest.raises(ConfigError, match="one of n, page, size, ts, user, what"):
            self.lines(spark, [{"ts": 1}], {"time": "when"})

    def test_kafka_without_its_jar_says_what_to_add(self, spark):
        with pytest.raises(ConfigError, match="spark-sql-kafka-0-10"):
            streams.lines_of("kafka://localhost:1/t").lines(spark)


class TestTryingAgain:
    def watcher(self, failures: list[int], retries: int = 3) -> tuple[WatchLock, list[float]]:
        """`failures[i]`: batches done before the i-th failure."""
        from types import SimpleNamespace

        watcher, waited = object.__new__(WatchLock), []
        watcher.watch = SimpleNamespace(retries=retries)
        watcher._taken, watcher._pause = 0, waited.append
        left = iter(failures)

        def run(is_following):
            taken = next(left, None)
            if taken is None:
                return False
            watcher._taken += taken
            raise RunError("the stream stopped")

        watcher._run = run
        return watcher, waited

    def test_later_each_time_until_something_was_done(self):
        watcher, waited = self.watcher([0, 0, 2, 0])
        watcher._persist(is_following=True)
        assert waited == [RETRY_FIRST_S * step for step in (1, 2, 1, 2)]

    def test_given_up_in_the_end(self):
        watcher, waited = self.watcher([0] * 9)
        with pytest.raises(RunError, match="the stream stopped"):
            watcher._persist(is_following=True)
        assert len(waited) == 3
