"""What is observed of real mosquittos is what their clients did."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fleets.observe.real_mosquitto import Paho, RealMosquitto, needs_mosquitto

pytestmark = [pytest.mark.interop, needs_mosquitto]
IDS = ["with space", 'quo\'te "x"', "ünï ☃", "a 1 b", "Client 7"]


def coterie(*words: str) -> dict:
    command = [sys.executable, "-m", "coterie", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lines(out: Path) -> list[dict]:
    told = [json.loads(line) for path in sorted(out.glob("*/*.jsonl")) for line in path.read_text().split("\n")[:-1]]
    return sorted(told, key=lambda line: line["t"])


def test_every_subscription_and_every_publication(tmp_path):
    """Two brokers with a bridge, 40 clients: 320 subscriptions, 2,000 publications, some clients leave."""
    draw = random.Random(1)
    with RealMosquitto(tmp_path, "b0") as b0:
        bridge = f"log_type all\nconnection up\naddress 127.0.0.1:{b0.port}\ntopic # both 0"
        with RealMosquitto(tmp_path, "b1", bridge) as b1:
            clients, wanted, sent = [], Counter(), Counter()
            for number in range(40):
                name, broker = (IDS[number] if number < len(IDS) else f"client-{number}"), number % 2
                client = Paho((b0, b1)[broker].port, name, clean=number % 3 > 0, version=5 if number % 4 == 1 else 4)
                filters = draw.sample([f"t/{topic}" for topic in range(30)] + ["t/+", "deep/#", "$share/g/t/1"], 8)
                client.subscribe(*filters[:5])
                client.subscribe(*filters[5:])
                wanted.update((f"b{broker}", name, one) for one in filters)
                clients.append(client)
            for number in range(100):
                client = clients[number % 40]
                topic, size = f"t/{draw.randrange(30)}", draw.randrange(100)
                client.publish(topic, b"x" * size, 20)
                sent[f"b{number % 40 % 2}", client.name, topic, size] += 20
            for client in clients[:20]:
                client.leave()
            time.sleep(0.2)
            told = coterie("observe", str(b0.log), str(b1.log), "--out", str(tmp_path / "out"))
            for client in clients[20:]:
                client.leave()
    found = lines(tmp_path / "out")
    assert Counter((one["node"], one["client"], one["topic"]) for one in found if one["kind"] == "subscribe") == wanted
    assert wanted.total() == 320
    published: Counter[tuple] = Counter()
    for one in found:
        if one["kind"] == "publish":
            published[one["node"], one["client"], one["topic"], one["bytes"]] += one.get("count", 1)
    assert published == sent
    assert published.total() == 2000
    left = {client.name for number, client in enumerate(clients[:20]) if number % 3 or number % 4 == 1}
    assert {one["client"] for one in found if one["kind"] == "unsubscribe"} == left, "only clean sessions end"
    for account in told["brokers"].values():
        assert account["not_understood"] == 0
        assert account["by_category"]["bridges"] > 0


def test_logging_that_was_switched_on_late_and_only_some_of_it(tmp_path):
    """Who was there before shows by deliveries, `log_type subscribe` alone shows wishes, who moves keeps its own."""
    quiet = "log_type notice\nlog_type subscribe\nlog_type unsubscribe"
    with RealMosquitto(tmp_path, "b0") as b0, RealMosquitto(tmp_path, "b1", quiet) as b1:
        early = Paho(b0.port, "early")
        early.subscribe("t/1", "t/2")
        start = b0.log.stat().st_size
        early.publish("t/1", b"x")
        mover = Paho(b1.port, "with space")
        mover.subscribe("t/1", "t/3")
        mover.unsubscribe("t/3")
        mover.leave()
        again = Paho(b0.port, "with space")
        again.subscribe("t/1")
        late = tmp_path / "late.log"
        late.write_bytes(b0.log.read_bytes()[start:])  # as if it had been switched on only now
        coterie("observe", "-b", f"b0={late}", "-b", f"b1={b1.log}", "--out", str(tmp_path / "out"))
        early.leave()
        again.leave()
    found = [(one["node"], one["kind"], one["client"], one["topic"], one.get("seen")) for one in lines(tmp_path / "out")
             if one["kind"] in ("subscribe", "unsubscribe")]  # fmt: skip
    assert ("b0", "subscribe", "early", "t/1", "delivery") in found
    assert not [one for one in found if one[2:4] == ("early", "t/2")], "nothing was delivered there"
    mine = [one[:2] + one[3:4] for one in found if one[2] == "with space"]
    assert sorted(mine) == [
        ("b0", "subscribe", "t/1"), ("b1", "subscribe", "t/1"), ("b1", "subscribe", "t/3"),
        ("b1", "unsubscribe", "t/3"),
    ]  # fmt: skip


def test_the_log_by_topic_and_a_tap(tmp_path):
    with RealMosquitto(tmp_path, "b0", "log_type all\nsys_interval 1", log="log_dest topic") as b0:
        helper = Paho(b0.port, "helper")
        helper.subscribe("$SYS/broker/log/M/subscribe")
        commands = []
        for kind in ("mosquitto", "tap"):
            words = ["observe", "--as", kind, "-b", f"b0=mqtt://127.0.0.1:{b0.port}", "--out", str(tmp_path / kind)]
            words += ["--seconds", "3", "--every", "0.5", "--json"]
            commands.append(subprocess.Popen([sys.executable, "-m", "coterie", *words], stdout=subprocess.PIPE))
        for _ in range(400):  # until both listen
            if sum(b"coterie-observe" in payload for _, payload in helper.got) == 3:
                break
            time.sleep(0.05)
        client = Paho(b0.port, "with space")
        client.subscribe("t/1", "x y")
        client.publish("t/1", b"x" * 10, 7)
        client.publish("x y", b"x" * 20, 5)
        client.unsubscribe("x y")
        client.leave()
        told = [json.loads(command.communicate(timeout=60)[0]) for command in commands]
        helper.leave()
    wishes = [
        (one["kind"], one["client"], one["topic"]) for one in lines(tmp_path / "mosquitto") if one["kind"] != "counters"
    ]
    assert wishes[:3] == [
        ("subscribe", "with space", "t/1"),
        ("subscribe", "with space", "x y"),
        ("unsubscribe", "with space", "x y"),
    ]
    counted: Counter[tuple] = Counter()
    for one in lines(tmp_path / "tap"):
        if one["kind"] == "publish":
            assert "client" not in one
            counted[one["topic"], one["bytes"]] += one.get("count", 1)
    assert counted == {("t/1", 10): 7, ("x y", 20): 5}
    assert "not who publishes" in told[1]["brokers"]["b0"]["notes"][0]


def test_an_address_where_nobody_is_says_so(tmp_path):
    command = [
        sys.executable,
        "-m",
        "coterie",
        "observe",
        "--as",
        "tap",
        "mqtt://u:secret@127.0.0.1:1",
        "-o",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
    assert "secret" not in done.stderr
