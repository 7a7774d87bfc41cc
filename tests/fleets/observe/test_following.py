"""Log files as they live: growing, rotated, compressed, torn, unreadable; and runs that are stopped and go on."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from coterie.errors import ConfigError, InputError
from coterie.fleets.observe import brokerfiles, following, journalstore
from coterie.fleets.observe.following import LogObserver
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.places import BrokerPlace, places_of


def wish(number: int) -> str:
    return f"{1_700_000_000 + number}: client-{number} 0 t/{number}\n"


def observe(out: Path, *logs: Path) -> dict:
    with JournalStore(out, "mosquitto") as store:
        observer = LogObserver(store, [BrokerPlace(path.stem, str(path)) for path in logs])
        observer.observe()
        return {node: account.as_facts() for node, account in observer.totals.accounts.items()}


def told(out: Path) -> list[str]:
    lines = [json.loads(line) for path in sorted(out.glob("*/*.jsonl")) for line in path.read_text().splitlines()]
    return [line["topic"] for line in lines if line["kind"] == "subscribe"]


def wishes(count: int) -> list[str]:
    return [f"t/{number}" for number in range(count)]


def test_a_line_is_read_once_its_end_is_written(tmp_path):
    log, out = tmp_path / "b.log", tmp_path / "out"
    log.write_text(wish(0) + wish(1)[:-4])
    assert "no end yet" in observe(out, log)["b"]["notes"][0]
    assert told(out) == wishes(1)
    log.write_text(wish(0) + wish(1))
    observe(out, log)
    assert observe(out, log)["b"]["lines"] == 0
    assert told(out) == wishes(2)


def test_rotation_by_renaming_compressing_and_copying(tmp_path):
    log, out = tmp_path / "b.log", tmp_path / "out"
    log.write_text(wish(0) + wish(1))
    observe(out, log)
    with open(log, "a") as file:
        file.write(wish(2))  # written after our last look, then rotated away
    log.rename(tmp_path / "b.log.1")
    log.write_text(wish(3))
    observe(out, log)
    assert told(out) == wishes(4)
    (tmp_path / "b.log.2.gz").write_bytes(gzip.compress((tmp_path / "b.log.1").read_bytes()))
    shutil.copy(log, tmp_path / "b.log.1")  # copytruncate
    log.write_text(wish(4))
    observe(out, log)
    assert told(out) == wishes(5)
    assert observe(out, log)["b"]["lines"] == 0


def test_all_of_a_rotated_log_oldest_first(tmp_path):
    log, out = tmp_path / "b.log", tmp_path / "out"
    (tmp_path / "b.log.10.gz").write_bytes(gzip.compress(wish(0).encode()))
    (tmp_path / "b.log.2.gz").write_bytes(gzip.compress((wish(1) + wish(2)).encode()))
    (tmp_path / "b.log.1").write_text(wish(3))
    (tmp_path / "b.logical").write_text(wish(99))
    log.write_text(wish(4))
    facts = observe(out, log)
    assert told(out) == wishes(5)
    assert facts["b"]["not_understood"] == 0


def test_a_torn_end_of_a_closed_file_is_accounted_for_and_not_believed(tmp_path):
    log, out = tmp_path / "b.log", tmp_path / "out"
    (tmp_path / "b.log.1").write_text(wish(0) + "1700000009: client-7 0 t/to")
    log.write_text(wish(1))
    facts = observe(out, log)["b"]
    assert told(out) == wishes(2)
    assert (facts["not_understood"], facts["lines"]) == (1, 3)
    assert facts["examples"][0].startswith("a line torn by rotation")


def test_damaged_and_empty_files_are_noted_and_the_rest_is_read(tmp_path):
    log, out = tmp_path / "b.log", tmp_path / "out"
    data = gzip.compress("".join(map(wish, range(2000))).encode())
    (tmp_path / "b.log.2.gz").write_bytes(data[: len(data) // 2])
    (tmp_path / "b.log.1").write_text("")
    log.write_text(wish(5000))
    facts = observe(out, log)["b"]
    assert "t/5000" in told(out)
    assert any("empty" in note for note in facts["notes"])
    assert any("damaged" in note for note in facts["notes"])


def test_a_broker_that_nobody_used_has_a_folder(tmp_path):
    quiet, busy = tmp_path / "quiet.log", tmp_path / "busy.log"
    quiet.write_text("")
    busy.write_text(wish(0))
    observe(tmp_path / "out", quiet, busy)
    assert sorted(path.parent.name for path in (tmp_path / "out").glob("*/*.jsonl")) == ["busy", "quiet"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_says_so(tmp_path):
    log = tmp_path / "b.log"
    log.write_text(wish(0))
    log.chmod(0)
    with JournalStore(tmp_path / "out", "mosquitto") as store, pytest.raises(InputError, match="cannot be read"):
        LogObserver(store, [BrokerPlace("b", str(log))]).check_readable()


def test_what_cannot_be_opened_says_so(tmp_path):
    (tmp_path / "b.log").mkdir()
    with JournalStore(tmp_path / "out", "mosquitto") as store, pytest.raises(InputError, match="cannot be read"):
        LogObserver(store, [BrokerPlace("b", str(tmp_path / "b.log"))]).check_readable()


def test_small_batches_and_stops_anywhere_give_the_same_journal(tmp_path, monkeypatch):
    """Interrupted between any two writes of a commit, observing goes on with nothing lost and nothing twice."""
    logs = [tmp_path / f"b{number}.log" for number in range(2)]
    for number, log in enumerate(logs):
        log.write_text("".join(wish(2 * one + number) for one in range(200)))
    monkeypatch.setattr(following, "BATCH_BYTES", 2000)
    monkeypatch.setattr(brokerfiles, "line_blocks", lambda piece, **kw: _small_blocks(piece, kw["is_closed"]))
    monkeypatch.setattr(journalstore, "SEGMENT_BYTES_MAX", 4000)
    draw, real = random.Random(3), os.replace
    stops = 0

    def replace(source, target):
        if draw.random() < 0.3:
            raise KeyboardInterrupt
        real(source, target)
        if draw.random() < 0.3:
            raise KeyboardInterrupt

    for _ in range(200):
        monkeypatch.setattr(os, "replace", replace)
        try:
            observe(tmp_path / "out", *logs)
            break
        except KeyboardInterrupt:
            stops += 1
    monkeypatch.setattr(os, "replace", real)
    observe(tmp_path / "out", *logs)
    assert stops > 5
    assert sorted(told(tmp_path / "out"), key=lambda topic: int(topic[2:])) == wishes(400)
    assert not list((tmp_path / "out" / ".observe").glob("unplaced/*"))


def test_an_append_that_was_cut_short_is_finished(tmp_path):
    with JournalStore(tmp_path, "mosquitto") as store:
        store.commit({"b": [b"one\n"]})
        store._place = lambda: None  # the state is saved, the lines are not in place yet
        store.commit({"b": [b"two\n", b"three\n"]})
    target = tmp_path / "b" / "000000000001.jsonl"
    with open(target, "ab") as file:
        file.write(b"two\nth")  # and then the power fails
    JournalStore(tmp_path, "mosquitto").close()
    assert target.read_bytes() == b"one\ntwo\nthree\n"
    JournalStore(tmp_path, "mosquitto").close()
    assert target.read_bytes() == b"one\ntwo\nthree\n"


def _small_blocks(piece, is_closed):
    from coterie.pipeline.logfiles import line_blocks

    return line_blocks(piece, 300, is_closed)


def test_one_writer_at_a_time_and_one_kind_of_source(tmp_path):
    with JournalStore(tmp_path, "mosquitto") as store:
        store.commit({})
        with pytest.raises(ConfigError, match="no other"):
            JournalStore(tmp_path, "mosquitto")
    with pytest.raises(ConfigError, match="begun with"):
        JournalStore(tmp_path, "nats")
    (tmp_path / ".observe" / "state.json").write_text("nonsense")
    with pytest.raises(InputError, match="begin a new journal"):
        JournalStore(tmp_path, "mosquitto")


def test_a_log_that_says_too_little_is_told_what_to_say(tmp_path):
    texts = {"quiet": "".join(map(wish, range(200))), "other": "GET /index.html 200\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.log").write_text(text)
    with JournalStore(tmp_path / "out", "mosquitto") as store:
        observer = LogObserver(store, [BrokerPlace(name, str(tmp_path / f"{name}.log")) for name in texts])
        observer.observe()
        observer.advise()
    assert "log_type all" in observer.totals.accounts["quiet"].notes[0]
    assert "nothing here looks like" in observer.totals.accounts["other"].notes[0]


def test_places(tmp_path):
    for name in ("a.log", "a.log.1", "b.log-20260101.gz", "readme.txt"):
        (tmp_path / name).write_text("")
    found = places_of([str(tmp_path)], ["c=mqtt://host"], True)
    assert [place.node for place in found] == ["c", "a", "b"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.log").write_text("")
    with pytest.raises(ConfigError, match="different names"):
        places_of([str(tmp_path / "a.log"), str(tmp_path / "other" / "a.log")], [], True)
    for bad in ("x", "=y", "a/b=c", ".x=y"):
        with pytest.raises(ConfigError):
            places_of([], [bad], True)
    with pytest.raises(InputError, match="no such file"):
        places_of([str(tmp_path / "none")], [], True)
    with pytest.raises(ConfigError, match="at least one"):
        places_of([], [], True)
