"""`coterie compare` and `coterie plan` on small files, run in this process over one shared Spark session."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from coterie.cli import watching
from coterie.errors import ConfigError
from coterie.pipeline import latesession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

BAD = {  # line number -> what stands there
    50: b"u1,,100\n",
    120: b"u2,t\xff\xfe,100\n",
    170: b"u3,t4,yesterday\n",
    190: b"u0,t0,0\n",  # once more what line 2 says
}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The session of the whole run: whoever asks next gets the same one, so it is not stopped here."""
    from coterie.pipeline.session import open_session

    return open_session("local[1]", profile="test", work_dir=tmp_path_factory.mktemp("spark"))


@pytest.fixture
def coterie(session, monkeypatch, typed):
    class Kept:
        """The session without its end."""

        def __getattr__(self, name: str) -> object:
            return (lambda: None) if name == "stop" else getattr(session, name)

    monkeypatch.setattr(latesession, "_open", lambda master: Kept())
    monkeypatch.setattr("coterie.pipeline.session.open_session", lambda master: Kept())
    return typed


def write_files(folder: Path, bad: dict[int, bytes]) -> tuple[str, str]:
    lines = [b"user,topic,since\n", *(f"u{i % 25},t{i * i % 11 + i // 25},{i * 5}\n".encode() for i in range(200))]
    for number, line in bad.items():
        lines[number - 1] = line
    (folder / "subs.csv").write_bytes(b"".join(lines))
    events = [f"t{i % 11},{i * 10}\n" for i in range(100)]
    (folder / "pubs.csv").write_text("topic,time\n" + "".join(events))
    return f"subscriptions={folder / 'subs.csv'}", f"publications={folder / 'pubs.csv'}"


SYSTEMS = ("-s", "flooding", "-s", "scribe:leaves=8", "--map", "subscriber=user")


def test_one_in_a_hundred_bad_rows_is_told_and_the_rest_is_planned(coterie, tmp_path):
    files = write_files(tmp_path, BAD)
    code, out, err = coterie("compare", *files, *SYSTEMS, "--out", str(tmp_path / "out"), "--json")
    assert code == 0, err
    told = json.loads(out)
    account = told["accounts"]["subscriptions"]
    assert (account["rows_in"], account["kept"], account["quarantined"]) == (200, 196, 4)
    assert sum(account["reasons"].values()) == 4
    assert set(told["systems"]) == {
        f"{name} ({way})" for name in ("mesh", "flooding", "scribe") for way in ("stay", "placed")
    }
    assert told["against"] == "mesh (stay)"
    bill = told["systems"]["scribe (stay)"]["later"]
    assert bill["loss.owed"] == bill["loss.delivered"] > 0
    assert told["plan"] is None
    assert Path(told["report"]).read_text().startswith("<!doctype html>")
    code, out, _ = coterie("compare", *files, *SYSTEMS, "--out", str(tmp_path / "out"))
    assert code == 0
    assert "4 of 200 rows set aside" in out
    assert "topic is missing" in out
    assert "scribe" in out
    assert "report.html" in out


@pytest.mark.parametrize(("line", "reason"), [(50, "topic is missing"), (170, "since is not a time")])
def test_strict_stops_with_file_and_line(coterie, tmp_path, line, reason):
    files = write_files(tmp_path, {line: BAD[line]})
    code, out, err = coterie("compare", *files, *SYSTEMS, "--out", str(tmp_path / "out"), "--strict")
    assert code == 3
    assert not out
    told = " ".join(err.split())
    assert f"subs.csv, line {line}: " in told
    assert reason in told
    assert "Traceback" not in err


def test_a_file_that_has_changed_and_does_not_show_it_is_seen_if_asked(coterie, tmp_path):
    inputs, asked = write_files(tmp_path, {}), ("--json", "--out", str(tmp_path / "out"), *SYSTEMS)
    subs = tmp_path / "subs.csv"
    before, first = subs.stat(), coterie("compare", *inputs, *asked)[1]
    subs.write_bytes(subs.read_bytes().replace(b"u24,", b"u23,"))
    os.utime(subs, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert subs.stat().st_size == before.st_size
    assert coterie("compare", *inputs, *asked)[1] == first
    again = coterie("compare", *inputs, *asked, "--by-content")[1]
    clients = [json.loads(text)["about"]["clients"] for text in (first, again)]
    assert clients == [clients[0], clients[0] - 1]


def test_bills_and_places_are_tables_of_a_catalog_if_asked(coterie, session, tmp_path):
    inputs = write_files(tmp_path, {})
    asked = (*inputs, "--json", "--out", str(tmp_path / "out"), "--tables", "fleet", *SYSTEMS)
    try:
        told = json.loads(coterie("compare", *asked)[1])
        assert told["tables"] == ["fleet.bills"]
        for _ in range(2):  # rows of the same log give way
            told = json.loads(coterie("plan", *asked)[1])
            assert told["tables"] == ["fleet.bills", "fleet.placement"]
        bills = session.table("fleet.bills").toArrow().to_pylist()
        later = {row["system"] for row in bills if row["window"] == "later" and row["column"] == "volume.copies"}
        assert {"flooding", "scribe"} <= later
        kinds = [row[name] for row in bills for name in ("system", "placement", "window", "column")]
        assert len(bills) * 4 == len(kinds)
        assert len({tuple(kinds[at : at + 4]) for at in range(0, len(kinds), 4)}) == len(bills)
        seats = session.table("fleet.placement").toArrow().to_pylist()
        assert {row["client"] for row in seats} >= {f"u{number}" for number in range(25)}
        assert len(seats) == told["about"]["clients"]
        code, _, said = coterie("compare", *asked, "--table-format", "delta")
        assert code == 2
        assert "delta's package" in said
    finally:
        session.sql("DROP SCHEMA IF EXISTS fleet CASCADE")


def test_plan_publishes_one_version_for_one_input(coterie, tmp_path):
    files = write_files(tmp_path, {})
    for _ in range(2):
        code, out, err = coterie("plan", *files, *SYSTEMS, "--out", str(tmp_path / "out"), "--json")
        assert code == 0, err
        assert json.loads(out)["plan"] == 1
    plans = tmp_path / "out" / "subs" / "plans"
    assert (plans / "CURRENT").read_text() == "1\n"
    assert [entry.name for entry in plans.iterdir() if entry.is_dir()] == ["000001"]
    manifest = json.loads((plans / "000001" / "manifest.json").read_text())
    assert json.loads(out)["cheapest"].startswith(manifest["system"])
    assert manifest["predicted"]["loss"]["owed"] == pytest.approx(manifest["predicted"]["loss"]["delivered"])


def test_a_journal_folder_is_an_input(coterie, tmp_path):
    node = tmp_path / "journal" / "node-a"
    node.mkdir(parents=True)
    lines = [{"t": 1000 + i, "kind": "subscribe", "client": f"c{i % 6}", "topic": f"t{i % 4}"} for i in range(24)]
    lines += [{"t": 1100 + i, "kind": "publish", "client": "c0", "topic": f"t{i % 4}", "bytes": 5} for i in range(40)]
    (node / "000000000001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = coterie(
        "plan", str(tmp_path / "journal"), "-s", "flooding", "--out", str(tmp_path / "out"), "--json"
    )
    assert code == 0, err
    assert json.loads(out)["about"]["topics"] == 4
    assert json.loads(out)["plan"] == 1


def test_watch_tells_one_line_per_decision_and_goes_on_where_it_was(coterie, tmp_path, capsys):
    node = tmp_path / "journal" / "node-a"
    node.mkdir(parents=True)
    lines = [{"t": 1000 + i, "kind": "subscribe", "client": f"c{i}", "topic": f"t{i % 4}"} for i in range(12)]
    lines += [{"t": 1020 + i, "kind": "publish", "client": "c0", "topic": f"t{i % 4}", "bytes": 5} for i in range(60)]
    segment = node / "000000000001.jsonl"
    segment.write_text("".join(json.dumps(line) + "\n" for line in lines) + "nonsense\n")
    choices = {"out_folder": tmp_path / "out", "systems": ["flooding"], "window": 10.0, "period": 20.0, "late": 0.0}
    watching.watch_command(str(tmp_path / "journal"), once=True, as_json=True, **choices)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["is_published"] for entry in told] == [True, *[False] * (len(told) - 1)]
    assert len(told) > 2
    assert all(entry["reason"] for entry in told)
    with open(segment, "a") as file:
        file.write(json.dumps({"t": 1120, "kind": "publish", "client": "c0", "topic": "t0"}) + "\n")
    watching.watch_command(str(tmp_path / "journal"), until_idle=True, **choices)
    said = capsys.readouterr().out
    assert "1970-01-01 00:18:00 plan 1 kept: " in said
    assert "1970-01-01 00:17:00" not in said  # what was decided is not decided again
    assert "74 lines of 1 nodes, complete up to 1970-01-01 00:18:40" in said
    assert "1 lines unreadable" in said
    with pytest.raises(ConfigError, match="alpha"):
        watching.watch_command(str(tmp_path / "journal"), once=True, alpha=0.9, **choices)


@pytest.mark.parametrize(
    "wrong",
    [{"once": True, "until_idle": True}, {"window": 0.0}, {"beta": -1.0}, {"systems": ["x"]}],
)
def test_watch_refuses_what_makes_no_sense(tmp_path, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong)).rstrip("s")):
        watching.watch_command(str(tmp_path), out_folder=tmp_path / "out", **wrong)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nothing.csv"], 3, "nothing.csv"),
        (["people=subs.csv"], 2, "TABLE=PATH"),
        (["SUBS", "--map", "colour=red"], 2, "NAME=COLUMN with a name of"),
        (["SUBS", "--system", "gossip"], 2, "one of flooding, mesh"),
        (["SUBS", "--system", "scribe:wings=2"], 2, "wings"),
        (["SUBS", "--brokers", "-3"], 2, "brokers: expected at least 1"),
        (["SUBS", "--learn-share", "2"], 2, "share: expected a number between 0 and 1"),
        (["SUBS", "--zone", "Mars"], 2, "time zone"),
        (["SUBS", "-s", "scribe", "-s", "scribe"], 2, "each system once"),
        (["--mapping", "no.toml"], 2, "no.toml"),
    ],
)
def test_mistakes_get_one_clear_sentence(coterie, tmp_path, arguments, code, says):
    subs, _ = write_files(tmp_path, {})
    given = [word for one in arguments for word in ((subs, "--map", "subscriber=user") if one == "SUBS" else (one,))]
    found, _, err = coterie("compare", *given, "--out", str(tmp_path / "out"))
    assert says in " ".join(err.split())
    assert found == code
    assert "Traceback" not in err


@pytest.mark.parametrize("content", ["", "user,topic,since\n"])
def test_an_input_without_rows_is_named(coterie, tmp_path, content):
    (tmp_path / "none.csv").write_text(content)
    _, pubs = write_files(tmp_path, {})
    code, _, err = coterie(
        "compare", f"subscriptions={tmp_path / 'none.csv'}", pubs, "--map", "subscriber=user", "--out",
        str(tmp_path / "out"),
    )  # fmt: skip
    assert code == 3
    assert "none.csv: holds no subscriptions" in " ".join(err.split())


def test_a_point_of_the_frontier_is_picked_and_planned(coterie, tmp_path):
    files = write_files(tmp_path, {})
    common = ("--map", "subscriber=user", "--brokers", "4", "--out", str(tmp_path / "out"))
    code, out, err = coterie("frontier", *files, "-s", "scribe", *common, "--json")
    assert code == 0, err
    points = json.loads(out)["points"]
    assert {"scribe", "scribe (placed)"} <= {point["label"] for point in points}
    assert Path(json.loads(out)["report"]).read_text().count("<svg") == 1
    picked = next(point for point in points if point["is_best"] and "coterie:" in point["system"] and point["moves"])
    code, out, err = coterie("plan", *files, "-s", picked["system"], *common, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["cheapest"] == "coterie (placed)"
    assert told["systems"]["coterie (placed)"]["later"]["volume.total"] == pytest.approx(picked["bytes_per_s"])
    code, out, _ = coterie("frontier", *files, "-s", "scribe", *common)
    assert code == 0
    table = out.split("To make one of them")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert picked["system"] in out


def test_limits_are_kept_or_what_can_be_had_is_said(coterie, tmp_path):
    files = write_files(tmp_path, {})
    common = ("--map", "subscriber=user", "--brokers", "6", "--out", str(tmp_path / "out"), "--limit", "hops_p99=1")
    code, out, err = coterie("plan", *files, "-s", "coterie", "-s", "scribe", *common, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["systems"][told["cheapest"]]["later"]["delay.hops.p99"] <= 1
    code, out, err = coterie("plan", *files, "-s", "coterie", *common, "--limit", "links_max=2")
    assert code == 3
    assert "Nothing keeps to hops_p99=1, links_max=2. The closest: " in " ".join(err.split())
    code, _, err = coterie("compare", *files, *common, "--limit", "hops=1")
    assert code == 2
    assert "hops_mean" in err
