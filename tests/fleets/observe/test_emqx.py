"""EMQX: pages of its REST interface and lines of its rule engine."""

from __future__ import annotations

import json
from pathlib import Path

from coterie.fleets.observe.emqx import ELSEWHERE
from coterie.fleets.observe.following import Totals
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.live import observe_live
from coterie.fleets.observe.places import BrokerPlace

N1, N2 = "emqx@n1", "emqx@n2"


def observe(out: Path, *files: Path) -> Totals:
    totals = Totals()
    with JournalStore(out, "emqx") as store:
        observe_live(store, "emqx", [BrokerPlace("", str(file)) for file in files], 0.1, 0.1, totals)
    return totals


def told(out: Path, kind: str) -> list[tuple]:
    lines = [json.loads(line) for path in sorted(out.glob("*/*.jsonl")) for line in path.read_text().splitlines()]
    return [(line["node"], line["client"], line["topic"]) for line in lines if line["kind"] == kind]


def page(path: Path, rows: list[dict], count: int) -> Path:
    path.write_text(json.dumps({"data": rows, "meta": {"page": 1, "limit": 100, "count": count}}, indent=1))
    return path


def row(node: str, client: str, topic: str) -> dict:
    return {"node": node, "clientid": client, "topic": topic, "qos": 1}


def test_pages_are_pictures(tmp_path):
    first = page(tmp_path / "1.json", [row(N1, "ann", "x"), row(N1, "bob", "$share/g/y")], 3)
    second = page(tmp_path / "2.json", [row(N2, "eve", "z/#")], 3)
    clients = page(tmp_path / "c.json", [{"node": N1, "clientid": "ann", "connected": True, "clean_start": False}], 1)
    out = tmp_path / "out"
    observe(out, first, second, clients)
    assert told(out, "subscribe") == [(N1, "ann", "x"), (N1, "bob", "$share/g/y"), (N2, "eve", "z/#")]
    half = page(tmp_path / "1.json", [row(N1, "ann", "x")], 3)
    totals = observe(out, half)
    assert told(out, "unsubscribe") == [], "half a picture ends nobody"
    assert "pages are missing: 1 of 3" in totals.accounts[N1].notes[0]
    observe(out, page(tmp_path / "1.json", [row(N1, "ann", "x")], 1))
    assert told(out, "unsubscribe") == [(N1, "bob", "$share/g/y"), (N2, "eve", "z/#")]


def test_lines_of_the_rule_engine(tmp_path):
    def event(kind: str, t: int, **more) -> str:
        return json.dumps({"event": kind, "node": N1, "clientid": "ann", "timestamp": t * 1000, **more}) + "\n"

    file, out = tmp_path / "events.jsonl", tmp_path / "out"
    lines = [
        event("client.connected", 1, clean_start=True, expiry_interval=0),
        event("session.subscribed", 2, topic="x", qos=1),
        event("message.publish", 3, topic="x", payload="häl", flags={"dup": False}),
        event("message.publish", 3, topic="x", payload="häl", flags={"dup": True}),
        event("message.publish", 4, topic="x", payload_size=100),
        event("message.publish", 4, topic="$SYS/x", payload=""),
        event("client.disconnected", 9), "nonsense\n", '{"event": "message.publish"}\n', "17\n",
    ]  # fmt: skip
    file.write_text("".join(lines[:5]) + lines[5][:10])
    observe(out, file)
    file.write_text("".join(lines))
    totals = observe(out, file)
    assert told(out, "subscribe") == [(N1, "ann", "x")]
    assert told(out, "unsubscribe") == [(N1, "ann", "x")]
    sizes = [
        json.loads(line)["bytes"]
        for path in out.glob("*/*")
        for line in path.read_text().splitlines()
        if "publish" in line
    ]
    assert sizes == [4, 100]
    assert totals.accounts[N1].counts == {"own topics": 1, "connections": 1}
    assert totals.accounts[ELSEWHERE].as_facts()["not_understood"] == 3
    assert not (out / ELSEWHERE).exists()
