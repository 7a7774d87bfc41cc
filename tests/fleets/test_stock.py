"""Real mosquittos behind a real HAProxy: a plan applied while everybody talks, taken back, and every fault on the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest

from coterie.errors import CoterieError, InputError, RunError
from coterie.fleets.applying import Application, roll_back
from coterie.fleets.balancer import LiveBalancer
from coterie.fleets.crossing import Copies, flooded
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.measuring import Counted, MosquittoLogs
from coterie.fleets.outlook import copies_under
from coterie.fleets.record import APPLYING, UNDONE, read_record
from coterie.fleets.wanted import Wanted
from tests.fleets.plans import publish_plan
from tests.fleets.stock import Crowd, Stock, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


def coterie(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coterie", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def talk(stock: Stock, crowd: Crowd, mark: str) -> Counted:
    """Everybody says something, once with QoS 0 and once with QoS 1; what the brokers' logs say of it."""
    crowd.forget()
    logs = MosquittoLogs(stock.fleet)
    crowd.publish(2, 0, f"{mark}, no receipt")
    crowd.publish(1, 1, f"{mark}, receipt")
    crowd.settle()
    assert (crowd.missing(), crowd.twice()) == (0, 0), mark
    time.sleep(0.2)  # acknowledgements of the last copies
    return logs.count()


class Metronomes:
    """A publisher at every broker that nobody moves, with QoS 1 on every topic, until told to stop."""

    def __init__(self, stock: Stock, topics: list[str]) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self._clients = []
        for port in stock.ports:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"metronome-{port}")
            client.connect("127.0.0.1", port)
            client.loop_start()
            self._clients.append(client)
        self._topics, self._is_over = topics, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        turn = 0
        while not self._is_over.is_set():
            client, topic = self._clients[turn % len(self._clients)], self._topics[turn % len(self._topics)]
            payload = f"tick {turn}".encode()
            client.publish(topic, payload, 1)
            self.sent.append((topic, payload))
            turn += 1
            time.sleep(0.004)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        time.sleep(0.5)
        for client in self._clients:
            client.disconnect()
            client.loop_stop()


def test_a_third_of_the_copies_and_nothing_lost_for_who_was_not_asked_to_move(tmp_path):
    with Stock(tmp_path, 8) as stock:
        crowd = Crowd(80, 40, 8, seed=1, lasting=range(0, 80, 16))
        crowd.start(lambda name: stock.front)
        before = talk(stock, crowd, "before")
        assert before.predicted(Copies(flooded(stock.fleet.names, "b0"))) == before.copies

        publish_plan(tmp_path / "plan", crowd.wishes, crowd.publishes, stock.fleet.names)
        crowd.forget()
        seats = LiveBalancer(stock.fleet.balancer).seats()
        asked_before = dict(crowd.connects)
        metronomes = Metronomes(stock, sorted({topic for some in crowd.wishes.values() for topic in some}))
        time.sleep(0.3)
        arguments = (str(tmp_path / "plan"), "--fleet", str(stock.path), "--out", str(tmp_path / "out"))
        done = coterie("export", *arguments, "--to", "mosquitto-acl", "--apply", "--json", "--over", "1")
        metronomes.stop()
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert summary["copies_measured"] > 0
        assert summary["clients_late"] == 0
        assert summary["lasting_sessions_left"] > 0

        stayed = [name for name in crowd.wishes if crowd.connects[name] == asked_before[name]]
        assert crowd.lasting <= set(stayed)
        assert len(stayed) == 80 - summary["clients_moved"]
        crowd.messages += metronomes.sent
        until(lambda: len(crowd.subscribed) == 80, "everybody is back")
        for name in stayed:
            assert not crowd.expected(name) - set(crowd.got[name]), f"{name} was not asked to move and missed something"
        assert crowd.twice() == 0

        after = talk(stock, crowd, "after")
        assert after.per_delivered <= before.per_delivered / 3
        now = LiveBalancer(stock.fleet.balancer).seats()
        assert all(now[name].broker == seats[name].broker for name in crowd.lasting)
        wanted = Wanted(stock.fleet.names, {name: seat.broker for name, seat in now.items()}, crowd.wishes)
        assert after.predicted(copies_under(stock.fleet, [TARGETS["mosquitto-acl"]], wanted)) == after.copies

        again = coterie("export", *arguments, "--to", "mosquitto-acl", "--apply", "--json", "--over", "0")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["clients_moved"] == 0
        back = coterie("export", "--fleet", str(stock.path), "--out", str(tmp_path / "out"), "--rollback")
        assert back.returncode == 0, back.stderr
        until(lambda: len(crowd.subscribed) == 80, "everybody is back")
        restored = talk(stock, crowd, "rolled back")
        assert restored.copies == before.copies
        assert {name: seat.broker for name, seat in LiveBalancer(stock.fleet.balancer).seats().items()} == {
            name: seat.broker for name, seat in seats.items()
        }
        crowd.stop()
