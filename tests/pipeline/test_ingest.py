"""Files in, canonical table and quarantine out, every row accounted for."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import ConfigError, InputError, RunError
from coterie.pipeline import files
from coterie.pipeline import ingest as ingests
from coterie.pipeline.mapping import Source
from coterie.pipeline.reading import Split, read_split
from coterie.pipeline.schemas import QUARANTINE, table_schema
from coterie.pipeline.steps import Step, run_steps
from coterie.pipeline.tasks import run_tasks

pytestmark = pytest.mark.spark

NOW_S = 1_700_000_000.0
EDITS = {"subscriber": "user", "topic": "page", "since": "t"}


def run(spark, out, *paths, strict=False, **source):
    described = Source(tuple(str(path) for path in paths), **{"columns": EDITS, **source})
    return ingests.ingest(spark, [described], out, strict=strict, now_s=NOW_S)


def rows_of(out: Path, table="subscriptions") -> list[tuple]:
    found = pa.concat_tables([pq.read_table(path) for path in sorted((out / table).glob("*.parquet"))])
    return sorted(tuple(row.values()) for row in found.to_pylist())


def quarantined(out: Path) -> list[tuple[str, int, str, str]]:
    parts = [pq.read_table(path) for path in sorted((out / "quarantine").glob("*/*.parquet"))]
    for part in parts:
        assert part.schema.names == QUARANTINE.names
    rows = [row for part in parts for row in part.to_pylist()]
    return sorted((Path(row["file"]).name, row["line"], row["reason"], row["raw"]) for row in rows)


def pairs(out: Path) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in rows_of(out)]


def test_clean_csv_becomes_the_canonical_table(spark, tmp_path):
    (tmp_path / "in.csv").write_text("user,page,t\nann,news,10\nbob,news,2000-01-01T00:00:00Z\n")
    account = run(spark, tmp_path / "out", tmp_path / "in.csv")
    assert (account.rows_in, account.kept, account.quarantined) == (2, 2, 0)
    first = next((tmp_path / "out/subscriptions").glob("*.parquet"))
    assert pq.read_schema(first).names == table_schema("subscriptions").names
    assert rows_of(tmp_path / "out") == [
        ("ann", "news", datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC), None),
        ("bob", "news", datetime(2000, 1, 1, tzinfo=UTC), None),
    ]


def test_every_kind_of_bad_line_is_set_aside_with_its_line_and_reason(spark, tmp_path):
    (tmp_path / "in.csv").write_bytes(
        b"user,page,t\n"
        b"ann,news,10\n"  # 2
        b"\n"
        b",news,10\n"  # 4
        b"bob,,10\n"  # 5
        b"bob,sport,soon\n"  # 6
        b"bob,sport\n"  # 7
        b"bob,spo\xffrt,10\n"  # 8
        b'bob,"spo,10\n'  # 9
        b"ann,news,10\n"  # 10
        b"bob,news,1800000000\n"  # 11
        b'"o\'hara, ann","a ""b""",20\n'  # 12
        b"bob,sport,10"  # 13
    )
    account = run(spark, tmp_path / "out", tmp_path / "in.csv")
    bad = quarantined(tmp_path / "out")
    assert [(line, reason) for _, line, reason, _ in bad] == [
        (4, "subscriber is missing"),
        (5, "topic is missing"),
        (6, "since is not a time: 'soon'"),
        (7, "2 fields instead of 3"),
        (8, "not valid UTF-8"),
        (9, "broken quoting (unexpected end of data)"),
        (10, "duplicate row"),
        (11, "since lies in the future"),
    ]
    assert bad[2][3] == "bob,sport,soon"
    assert bad[4][3] == "bob,spo\\xffrt,10"
    assert (account.rows_in, account.kept, account.quarantined) == (11, 3, 8)
    assert account.reasons["duplicate row"] == 1
    assert pairs(tmp_path / "out") == [("ann", "news"), ("bob", "sport"), ("o'hara, ann", 'a "b"')]


def test_json_lines_with_wrong_types_and_broken_lines(spark, tmp_path):
    lines = [
        '{"user": "ann", "page": 7, "t": 10}',
        '{"user": "ann", "page": "x", "t": "2000-01-01T00:00:00Z"}',
        '{"user": {"name": "ann"}, "page": "x"}',
        '{"user": "ann", "page": true}',
        "[1, 2]",
        '{"user": "ann",',
        '{"page": "x"}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    account = run(spark, tmp_path / "out", tmp_path / "in.jsonl")
    assert pairs(tmp_path / "out") == [("ann", "7"), ("ann", "x")]
    assert [(line, reason.split(" (")[0]) for _, line, reason, _ in quarantined(tmp_path / "out")] == [
        (3, "subscriber has the wrong type"),
        (4, "topic has the wrong type"),
        (5, "not a JSON object"),
        (6, "broken JSON"),
        (7, "subscriber is missing"),
    ]
    assert account.rows_in == 7


@pytest.mark.parametrize("pack", ["gz", "bz2", "zst", "members"])
def test_compressed_files_are_known_by_their_content(spark, tmp_path, pack):
    data = b"user,page,t\n" + b"".join(b"u%d,p,1\n" % number for number in range(50))
    packed = {
        "gz": lambda: gzip.compress(data),
        "bz2": lambda: bz2.compress(data),
        "zst": lambda: pa.Codec("zstd").compress(data, asbytes=True),
        "members": lambda: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    }[pack]()
    (tmp_path / "in.csv.packed").write_bytes(packed)
    assert run(spark, tmp_path / "out", tmp_path / "in.csv.packed").kept == 50


@pytest.mark.parametrize("pack", ["gz", "bz2"])
def test_rows_before_a_tear_are_kept_and_the_tear_is_told(spark, tmp_path, pack):
    lines = [b"user,page,t\n"] + [b"u%d,page-%d,%d\n" % (n, n * n, n) for n in range(60_000)]
    pack_it = gzip.compress if pack == "gz" else bz2.compress
    packed = pack_it(b"".join(lines))
    (tmp_path / "torn.csv.gz").write_bytes(packed[: len(packed) * 3 // 4])
    account = run(spark, tmp_path / "out", tmp_path / "torn.csv.gz")
    assert 10_000 < account.kept < 60_000
    assert account.files[0].note == f"truncated {pack} data"
    kept = pairs(tmp_path / "out")
    assert sorted(kept) == sorted((f"u{n}", f"page-{n * n}") for n in range(account.kept))
    bad = quarantined(tmp_path / "out")
    assert len(bad) <= 1
    if bad:
        assert bad[0][1] == account.kept + 2
        assert bad[0][2] == f"the file is torn here: truncated {pack} data"


def test_a_folder_of_mixed_schemas_and_odd_files(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("user,page,t\nann,p,1\n")
    (folder / "b.csv").write_text("t;page;user\n1;q;ann\n")
    (folder / "c.csv").write_text("name,place\nann,there\nbob,here\n")
    (folder / "d.csv").write_bytes(b"")
    (folder / "e.jsonl").write_text('{"user": "ann", "page": "r", "t": 1}\n')
    (folder / "f.csv.gz").write_bytes(gzip.compress(b"user,page,t\nann,s,1\n")[:9])
    (folder / "g.parquet").write_bytes(b"PAR1 but not really")
    (folder / "_SUCCESS").write_bytes(b"")
    pq.write_table(pa.table({"user": ["ann"], "page": ["t"], "t": [1]}), folder / "h.parquet")
    pq.write_table(pa.table({"user": [5], "page": ["u"], "t": ["1970-01-01"]}), folder / "i.parquet")
    pq.write_table(pa.table({"who": [5, 6]}), folder / "j.parquet")
    account = run(spark, tmp_path / "out", folder)
    assert [topic for _, topic in sorted(pairs(tmp_path / "out"), key=lambda p: p[1])] == ["p", "q", "r", "t", "u"]
    told = {Path(file.path).name: (file.rows, file.quarantined, file.note.split(":")[0]) for file in account.files}
    assert told == {
        "a.csv": (1, 0, ""),
        "b.csv": (1, 0, ""),
        "c.csv": (2, 2, ""),
        "d.csv": (0, 0, "empty file"),
        "e.jsonl": (1, 0, ""),
        "f.csv.gz": (0, 0, "unreadable"),
        "g.parquet": (0, 0, "unreadable"),
        "h.parquet": (1, 0, ""),
        "i.parquet": (1, 0, ""),
        "j.parquet": (2, 2, ""),
    }
    assert account.reasons == {"the file has no column user": 4}


def test_bad_rows_of_parquet_are_told_by_file_and_row(spark, tmp_path):
    folder = tmp_path / "in put"
    folder.mkdir()
    times = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
    late = pa.array([1_800_000_000], pa.int64())
    good = {"user": ["a", "b", "a"], "page": ["x", None, "x"]}
    pq.write_table(pa.table({**good, "t": times}), folder / "one.parquet")
    pq.write_table(pa.table({"user": ["c"], "page": ["x"], "t": late}), folder / "two.parquet")
    pq.write_table(pa.table({"user": ["a"], "page": ["x"], "t": times[:1]}), folder / "zzz.parquet")
    account = run(spark, tmp_path / "out", folder)
    bad = quarantined(tmp_path / "out")
    assert [(file, line, reason) for file, line, reason, _ in bad if reason != "duplicate row"] == [
        ("one.parquet", 2, "topic is missing"),
        ("two.parquet", 1, "since lies in the future"),
    ]
    assert json.loads(bad[0][3])["user"] == "b"
    assert account.reasons["duplicate row"] == 1
    assert (account.rows_in, account.kept) == (5, 2)


def test_epoch_numbers_mean_the_same_in_text_and_parquet(spark, tmp_path):
    numbers = [1_600_000_000, 1_600_000_000_000, 1_600_000_000_000_000, -5, 36]
    (tmp_path / "in.csv").write_text("user,page,t\n" + "".join(f"u{i},p,{n}\n" for i, n in enumerate(numbers)))
    users = [f"u{i}" for i in range(len(numbers))]
    pq.write_table(pa.table({"user": users, "page": ["p"] * len(users), "t": numbers}), tmp_path / "in.parquet")
    run(spark, tmp_path / "a", tmp_path / "in.csv")
    run(spark, tmp_path / "b", tmp_path / "in.parquet")
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")


def test_the_order_of_files_and_the_cut_into_ranges_do_not_change_the_table(spark, tmp_path, monkeypatch):
    lines = [f"u{n % 97},t{n % 13},{n % 50}\n" for n in range(3000)] + ["broken\n"]
    (tmp_path / "in.csv").write_text("user,page,t\n" + "".join(lines))
    run(spark, tmp_path / "whole", tmp_path / "in.csv")
    monkeypatch.setattr(ingests, "SPLIT_BYTES", 4999)
    run(spark, tmp_path / "cut", tmp_path / "in.csv")
    for folder in ("subscriptions", "quarantine/subscriptions"):
        assert (tmp_path / "whole" / folder / "part-00000.parquet").read_bytes() == (
            tmp_path / "cut" / folder / "part-00000.parquet"
        ).read_bytes()
    assert quarantined(tmp_path / "cut")[-1][1:3] == (3002, "1 fields instead of 3")


def test_strict_stops_at_the_first_bad_line_and_leaves_nothing(spark, tmp_path):
    (tmp_path / "a.csv").write_text("user,page,t\nann,p,1\n")
    (tmp_path / "b.csv").write_text("user,page,t\nann,q,1\nann,r,later\nann,,1\n")
    with pytest.raises(InputError, match=r"b\.csv, line 3: since is not a time: '.+'"):
        run(spark, tmp_path / "out", tmp_path / "a.csv", tmp_path / "b.csv", strict=True)
    assert not (tmp_path / "out/subscriptions").exists()
    assert run(spark, tmp_path / "out", tmp_path / "a.csv", strict=True).kept == 1


def test_equal_publications_are_two_events_unless_told_otherwise(spark, tmp_path):
    (tmp_path / "in.csv").write_text("user,page,t\nann,p,1\nann,p,1\n")
    source = {"table": "publications", "columns": {"publisher": "user", "topic": "page", "time": "t"}}
    assert run(spark, tmp_path / "a", tmp_path / "in.csv", **source).kept == 2
    account = run(spark, tmp_path / "b", tmp_path / "in.csv", duplicates="quarantine", **source)
    assert (account.kept, account.reasons) == (1, {"duplicate row": 1})
    assert rows_of(tmp_path / "b", "publications")[0][3] == 1


def test_what_is_no_filter_is_set_aside_and_plain_names_may_be_anything(spark, tmp_path):
    names = ["a/+/b", "#", "$share/g/x/#", "a/#/b", "a+", "g++", "$share/g", "a\0b", ""]
    (tmp_path / "in.csv").write_text("user,page,t\n" + "".join(f"ann,{name},1\n" for name in names))
    account = run(spark, tmp_path / "a", tmp_path / "in.csv")
    assert pairs(tmp_path / "a") == [("ann", "#"), ("ann", "$share/g/x/#"), ("ann", "a/+/b")]
    assert account.rows_in == account.kept + account.quarantined == len(names)
    told = {line: reason for _, line, reason, _ in quarantined(tmp_path / "a")}
    assert "# must be the last level" in told[5]
    assert all("+ must be alone in its level" in told[line] for line in (6, 7))
    assert "$share/group/filter" in told[8]
    assert "NUL" in told[9]
    assert told[10] == "topic is missing"
    assert not ingests.has_plain_topics(tmp_path / "a" / "subscriptions")
    assert run(spark, tmp_path / "b", tmp_path / "in.csv", topics="plain").kept == len(names) - 1
    assert ingests.has_plain_topics(tmp_path / "b" / "subscriptions")
    source = {"table": "publications", "columns": {"publisher": "user", "topic": "page", "time": "t"}}
    published = run(spark, tmp_path / "c", tmp_path / "in.csv", **source)
    assert published.kept == 1  # $share/g alone is a name like any other


def test_positions_outside_of_the_globe_and_documents_without_words(spark, tmp_path):
    (tmp_path / "p.csv").write_text("subscriber,time,lat,lon\na,1,48.2,16.4\na,2,91,0\na,3,0,nan\na,4,x,0\n")
    account = run(spark, tmp_path / "p", tmp_path / "p.csv", table="positions", columns={})
    assert account.reasons == {
        "lat is above 90": 1,
        "lat is not a number, such as 'x'": 1,
        "lon is not a number, such as 'nan'": 1,
    }
    (tmp_path / "d.jsonl").write_text(
        '{"document": 1, "keywords": ["a", "b"]}\n{"document": 2, "keywords": []}\n{"document": 3, "keywords": "c d"}\n'
    )
    account = run(spark, tmp_path / "d", tmp_path / "d.jsonl", table="documents", columns={})
    assert account.reasons == {"keywords is missing": 1}
    assert [row[3] for row in rows_of(tmp_path / "d", "documents")] == [["a", "b"], ["c", "d"]]


def test_nothing_but_empty_files_gives_an_empty_table(spark, tmp_path):
    (tmp_path / "in.csv").write_bytes(b"")
    assert run(spark, tmp_path / "out", tmp_path / "in.csv").rows_in == 0
    assert rows_of(tmp_path / "out") == []


def test_a_path_that_matches_nothing_is_an_input_error(spark, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        run(spark, tmp_path / "out", tmp_path / "none*.csv")
    with pytest.raises(ConfigError, match="one table"):
        ingests.ingest(spark, [Source(("a",)), Source(("b",), table="nodes")], tmp_path / "out")


def test_one_row_in_another_encoding_does_not_end_the_run(spark, tmp_path):
    names = [f"новость{number} н" for number in range(399)]  # the last letter ends in BD, others in BB and BF
    names += ["аллл", "ппп", "нп"]
    good = "".join(f"ann,{name},1\n" for name in names).encode()
    (tmp_path / "in.csv").write_bytes("\ufeffuser,page,t\n".encode() + good + "ann,caf\u00e9,1\n".encode("latin-1"))
    account = run(spark, tmp_path / "out", tmp_path / "in.csv")
    assert account.reasons == {"not valid UTF-8": 1}
    assert sorted(row[1] for row in rows_of(tmp_path / "out")) == sorted(names)


def test_another_encoding_can_be_named(spark, tmp_path):
    (tmp_path / "in.csv").write_bytes("user,page,t\nann,caf\u00e9,1\nbob,p,2\n".encode("latin-1"))
    assert run(spark, tmp_path / "a", tmp_path / "in.csv", encoding="latin-1").kept == 2
    assert pairs(tmp_path / "a")[0] == ("ann", "caf\u00e9")
    with pytest.raises(ConfigError, match="encoding"):
        Source(("x",), encoding="utf-16")
    (tmp_path / "wide.csv").write_bytes("user,page,t\nann,p,1\n".encode("utf-16"))
    assert "UTF-16" in run(spark, tmp_path / "b", tmp_path / "wide.csv").files[0].note


def test_a_json_array_has_a_row_for_each_element(spark, tmp_path):
    rows = [{"user": "ann", "page": f"p{n}", "t": n} for n in range(5)] + [{"user": "bob"}, 7]
    (tmp_path / "in.json").write_text(json.dumps(rows, indent=2))
    (tmp_path / "in2.json").write_text("[]")
    (tmp_path / "torn.json").write_text(json.dumps(rows)[:40])
    account = run(spark, tmp_path / "out", tmp_path / "in.json", tmp_path / "in2.json")
    assert (account.rows_in, account.kept) == (7, 5)
    assert [(line, reason) for _, line, reason, _ in quarantined(tmp_path / "out")] == [
        (6, "topic is missing"),
        (7, "not a JSON object"),
    ]
    torn = run(spark, tmp_path / "torn", tmp_path / "torn.json")
    assert (torn.rows_in, torn.kept) == (1, 0)
    assert "broken JSON array" in next(iter(torn.reasons))


def test_a_quoted_line_break_does_not_end_a_row(spark, tmp_path):
    text = (
        'user,page,t\n"o\'hara\n\nann",news,1\nbob,"a ""b""\n,c",2\ncid,5" disk,3\n'
        'dan,p,4\neve,"x\ny",5\nfay,"never closed,6\ngus,q,7\n'
    )
    (tmp_path / "in.csv").write_text(text)
    account = run(spark, tmp_path / "out", tmp_path / "in.csv")
    assert pairs(tmp_path / "out") == [
        ("bob", 'a "b"\n,c'),
        ("cid", '5" disk'),
        ("dan", "p"),
        ("eve", "x\ny"),
        ("gus", "q"),
        ("o'hara\n\nann", "news"),
    ]
    assert account.rows_in == 7
    assert [line for _, line, _, _ in quarantined(tmp_path / "out")] == [11]


def test_relative_paths_mean_the_same_to_every_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("user,page\nann,p\n")
    found = files.find_files(Source(("in.csv",)))[0]
    assert (found.path, found.place) == ("in.csv", str(tmp_path / "in.csv"))
    monkeypatch.chdir(tmp_path.parent)
    split = Split(0, found, 0, Source(("in.csv",), columns=EDITS))
    assert [len(table) for table in read_split(split, round(NOW_S * 1e6))] == [1, 1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_inside_a_task_is_one_sentence(spark, tmp_path):
    def fill(task: int) -> pa.Table:
        with open("/dev/full", "w") as file:
            file.write("x")
        return pa.table({"n": [task]})

    step = Step("tables", lambda out, inputs: {"rows": len(run_tasks(spark, [1], fill, "n long"))})
    with pytest.raises(RunError, match=r"step tables in .*: a disk is full") as caught:
        run_steps([step], tmp_path)
    assert "\n" not in str(caught.value)


def test_a_big_file_that_cannot_be_split_is_told_and_is_no_fault(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(ingests, "WHOLE_BYTES", 10)
    with gzip.open(tmp_path / "subs.csv.gz", "wt") as file:
        file.write("subscriber,topic\na,t\nb,t\n")
    source = Source((str(tmp_path / "subs.csv.gz"),))
    account = ingests.ingest(spark, [source], tmp_path / "out", strict=True)
    assert account.kept == 2
    assert account.files[0].note.startswith("read by one task: gz cannot be split")


def test_many_small_files_keep_their_order(tmp_path):
    for number in range(300):
        (tmp_path / f"{number:03d}.csv").write_text(f"subscriber,topic\nu{number},t\n")
    found = files.find_files(Source((str(tmp_path),)))
    assert [Path(file.path).stem for file in found] == [f"{number:03d}" for number in range(300)]


def test_files_are_listed_in_order_without_a_look_into_them(tmp_path, monkeypatch):
    names = ["b.csv", "a/z.csv", "a.d/c.csv", "a/.hidden.csv", "_temporary/x.csv", "a/_SUCCESS", "a/b/c.csv"]
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("subscriber,topic\nann,p\n")
    monkeypatch.setattr(files, "look_into", None)
    monkeypatch.chdir(tmp_path / "in")
    expected = ["a/b/c.csv", "a/z.csv", "a.d/c.csv", "b.csv"]
    assert [one.where for one in files.list_files(Source((".",)))] == expected
    assert [one.where for one in files.list_files(Source(("*.csv", "a")))] == ["b.csv", "a/b/c.csv", "a/z.csv"]
    listed = files.list_files(Source((str(tmp_path / "in"),)))
    assert [(one.where, one.status.st_size) for one in listed] == [(f"{tmp_path}/in/{name}", 23) for name in expected]
    assert [one.where for one in files.list_files(Source(("a/.hidden.csv",)))] == ["a/.hidden.csv"]  # by its own name


def test_tasks_look_into_files_that_are_very_many(spark, tmp_path, monkeypatch):
    texts = ["subscriber,topic\nann,p\nbob\n", "", '{"subscriber": "cid", "topic": "q"}\n', "subscriber;topic\ndan;r\n"]
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for number, text in enumerate(texts * 3):
        Path(f"in/{number:02d}").write_text(text)
    source = Source(("in",), duplicates="keep")
    few = ingests.ingest(spark, [source], tmp_path / "few")
    monkeypatch.setattr(ingests, "LOOKED_HERE", 2)
    assert ingests.find_files(source, lambda *what: ingests._looked(spark, *what)) == files.find_files(source)
    many = ingests.ingest(spark, [source], tmp_path / "many")
    assert many == few
    assert (many.kept, many.quarantined, len(many.files)) == (9, 3, 12)
    assert quarantined(tmp_path / "many") == quarantined(tmp_path / "few")


def test_an_account_of_very_many_files_names_those_with_something_to_say(monkeypatch):
    monkeypatch.setattr(ingests, "FILES_MAX", 3)
    some = tuple(
        ingests.FileAccount(f"{number}.csv", 1, int(number == 2), "torn" * (number == 4)) for number in range(6)
    )
    told = ingests.Account("subscriptions", 6, 5, 1, files=some).as_facts()
    assert [file["path"] for file in told["files"]] == ["2.csv", "4.csv"]
    assert told["file_count"] == 6
    few = ingests.Account("subscriptions", 3, 3, 0, files=some[:3]).as_facts()
    assert [file["path"] for file in few["files"]] == ["0.csv", "1.csv", "2.csv"]
