"""The journal source: torn lines, segments, admission, batch == stream, restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from coterie.errors import InputError
from coterie.pipeline import journal as journals


def line(t, kind="publish", client="ann", topic="x", **more) -> str:
    return json.dumps({"t": t, "kind": kind, "client": client, "topic": topic, **more}) + "\n"


def write(root: Path, node: str, segment: int, text: str) -> Path:
    path = root / node / f"{segment:012d}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)
    return path


def rows(root: Path, start, end) -> list[dict]:
    pieces = journals.ranges(str(root), start, end)
    return [row for piece in pieces for batch in journals.read_range(piece) for row in batch.to_pylist()]


def everything(root: Path) -> list[dict]:
    return rows(root, {}, journals.ends(str(root), {}, None))


def test_a_line_exists_once_its_newline_is_written(tmp_path):
    path = write(tmp_path, "a", 1, line(1) + line(2)[:10])
    assert [row["time"].timestamp() for row in everything(tmp_path)] == [1]
    before = journals.ends(str(tmp_path), {}, None)
    path.write_text(path.read_text() + line(2)[10:])
    assert [row["time"].timestamp() for row in rows(tmp_path, before, journals.ends(str(tmp_path), before, None))] == [
        2
    ]


def test_a_torn_line_in_a_closed_segment_is_malformed_and_nothing_else_is_lost(tmp_path):
    write(tmp_path, "a", 1, line(1) + '{"t": 2, "ki')
    write(tmp_path, "a", 2, line(3) + "nonsense\n" + '{"t": "x", "kind": "publish"}\n')
    found = everything(tmp_path)
    assert [row["kind"] for row in found] == ["publish", "malformed", "publish", "malformed", "malformed"]
    assert found[1]["detail"] == '{"t": 2, "ki'
    assert found[3]["detail"] == "nonsense"
    assert [row["position"] for row in found[:2]] == [0, len(line(1))]


def test_counters_keep_their_object_and_the_folder_names_the_node(tmp_path):
    write(tmp_path, "a", 1, '{"t": 1.5, "kind": "counters", "counters": {"sent": 4}, "new": [1]}\n')
    (found,) = everything(tmp_path)
    assert (found["node"], json.loads(found["detail"])) == ("a", {"sent": 4})


def test_a_line_may_stand_for_many_messages(spark, tmp_path):
    text = line(1, bytes=10) + line(2, bytes=10, count=7) + line(3, count=0) + line(4, count=1 << 60)
    write(tmp_path, "a", 1, text)
    events = journals.read_journal(spark, tmp_path)
    assert [row.kind for row in events.orderBy("position").collect()] == ["publish"] * 2 + ["malformed"] * 2
    found = journals.publications_of(events).orderBy("time").collect()
    assert [(row["count"], row["bytes"]) for row in found] == [(1, 10), (7, 70)]


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.lists(st.integers(0, 40), max_size=8), max_size=3), max_size=3),
    st.integers(1, 400),
    st.integers(1, 300),
)
def test_any_limit_gives_every_line_once_and_in_order(tmp_path_factory, content, budget, range_bytes):
    root = tmp_path_factory.mktemp("journal")
    expected: dict[str, list[str]] = {}
    for node, segments in content.items():
        for index, lengths in enumerate(segments):
            topics = [f"{index}-{n}-" + "x" * length for n, length in enumerate(lengths)]
            write(root, node, index, "".join(line(1, topic=topic) for topic in topics))
            expected.setdefault(node, []).extend(topics)
    stream = journals.JournalStream(str(root), budget)
    offset, found = stream.initialOffset(), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "RANGE_BYTES", range_bytes)
        for _ in range(500):
            following = stream.latestOffset(offset, ReadMaxBytes(budget))
            if following == offset:
                break
            for piece in stream.partitions(offset, following):
                for batch in stream.read(piece):
                    for row in batch.to_pylist():
                        found.setdefault(row["node"], []).append(row["topic"])
            offset = following
    assert found == {node: topics for node, topics in expected.items() if topics}
    assert stream.latestOffset(offset, ReadAllAvailable()) == offset


def test_available_now_stops_at_what_was_there_when_it_began(tmp_path):
    write(tmp_path, "a", 1, line(1))
    stream = journals.JournalStream(str(tmp_path), 1 << 20)
    stream.prepareForTriggerAvailableNow()
    write(tmp_path, "a", 1, line(2))
    write(tmp_path, "b", 1, line(3))
    offset = stream.latestOffset({}, ReadMaxBytes(1 << 20))
    assert offset == {"a": f"{1:012d}:{len(line(1))}"}
    assert stream.latestOffset(offset, ReadMaxBytes(1 << 20)) == offset


def test_a_missing_folder_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such journal folder"):
        journals.JournalSource({"path": str(tmp_path / "none")}).reader(None)


@pytest.mark.spark
def test_batch_and_interrupted_stream_give_the_same_tables(spark, tmp_path):
    root = tmp_path / "journal"
    write(root, "a", 1, line(1, "subscribe") + line(2, "subscribe") + line(5, "unsubscribe") + line(6, bytes=7))
    write(root, "b", 1, line(3, "unsubscribe", "bob") + line(4, "subscribe", "bob") + line(7, "publish", "bob", "y"))
    batch = journals.read_journal(spark, root)
    found = sorted(map(tuple, journals.subscriptions_of(batch).collect()), key=str)
    assert [(row[0], row[1], *(t and t.timestamp() for t in row[2:])) for row in found] == [
        ("ann", "x", 1, 5),
        ("bob", "x", None, 3),
        ("bob", "x", 4, None),
    ]
    assert sorted((r["publisher"], r["topic"], r["bytes"]) for r in journals.publications_of(batch).collect()) == [
        ("ann", "x", 7),
        ("bob", "y", None),
    ]
    for late in (None, line(8, topic="late")):
        if late:
            write(root, "b", 2, late)
        events = journals.stream_journal(spark, root, max_bytes=400)
        query = (
            journals.publications_of(events)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "sink"))
        )
        assert query.awaitTermination(60)
    streamed = spark.read.parquet(str(tmp_path / "sink")).collect()
    expected = journals.publications_of(journals.read_journal(spark, root)).collect()
    assert sorted(map(str, streamed)) == sorted(map(str, expected))
    assert len(streamed) == 3
