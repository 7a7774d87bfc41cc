"""What journald kept: every form of `journalctl -o`, with and without mosquitto's own stamps."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from coterie.fleets.observe.following import LogObserver
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.places import BrokerPlace

SECOND = 1_700_000_000  # 2023-11-14T22:13:20Z
MESSAGES = ["Received SUBSCRIBE from ann", "\tx (QoS 0)", "ann 0 x", "ünï 1 y"]


def export(messages: list[str], program: str = "mosquitto") -> bytes:
    data = b""
    for index, message in enumerate(messages):
        data += f"__CURSOR=c{index}\n__REALTIME_TIMESTAMP={SECOND}000250\nSYSLOG_IDENTIFIER={program}\n".encode()
        encoded = message.encode()
        if index % 2:  # fields with any bytes carry their length
            data += b"MESSAGE\n" + struct.pack("<Q", len(encoded)) + encoded + b"\n"
        else:
            data += b"MESSAGE=" + encoded + b"\n"
        data += b"\n"
    return data


def as_json(messages: list[str], program: str = "mosquitto") -> bytes:
    rows = []
    for index, message in enumerate(messages):
        told = list(message.encode()) if index % 2 else message
        rows.append({"__REALTIME_TIMESTAMP": f"{SECOND}000250", "SYSLOG_IDENTIFIER": program, "MESSAGE": told})
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def short(stamp: str):
    def write(messages: list[str], program: str = "mosquitto") -> bytes:
        return "".join(f"{stamp} host {program}[77]: {message}\n" for message in messages).encode()

    return write


FORMS = {
    "export": export,
    "json": as_json,
    "short": short("Nov 14 22:13:20"),
    "short-iso": short("2023-11-14T23:13:20+0100"),
    "short-unix": short("1700000000.000250"),
}


def observe(out: Path, log: Path):
    with JournalStore(out, "mosquitto") as store:
        observer = LogObserver(store, [BrokerPlace("b", str(log))])
        observer.observe()
        return observer.totals.accounts["b"]


def told(out: Path) -> list[tuple]:
    lines = [json.loads(line) for path in sorted(out.glob("*/*.jsonl")) for line in path.read_text().splitlines()]
    return [(int(line["t"]), line["client"], line["topic"]) for line in lines if line["kind"] == "subscribe"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("own_stamp", [True, False])
def test_every_form(tmp_path, form, own_stamp):
    log = tmp_path / "b.log"
    messages = [f"{SECOND}: {message}" if own_stamp else message for message in MESSAGES]
    whole = FORMS[form](messages) + FORMS[form](["something else 0 x"], "cron")
    later = FORMS[form]([f"{SECOND}: late 0 z"])
    log.write_bytes(whole + later[:-5])  # the last one is still being written
    os.utime(log, (SECOND + 1000, SECOND + 1000))
    account = observe(tmp_path / "out", log)
    assert told(tmp_path / "out") == [(SECOND, "ann", "x"), (SECOND, "ünï", "y")]
    assert account.lines == len(MESSAGES) + 1
    assert account.as_facts()["not_understood"] == 0
    log.write_bytes(whole + later)
    os.utime(log, (SECOND + 1000, SECOND + 1000))
    observe(tmp_path / "out", log)
    assert told(tmp_path / "out")[2:] == [(SECOND, "late", "z")]


def test_a_year_that_is_not_written_is_the_one_before_the_file_changed(tmp_path):
    log = tmp_path / "b.log"
    log.write_bytes(short("Dec 31 23:59:59")(["ann 0 x"]))
    os.utime(log, (SECOND + 60 * 86_400, SECOND + 60 * 86_400))  # in January 2024
    observe(tmp_path / "out", log)
    assert told(tmp_path / "out")[0][0] == 1_704_067_199
