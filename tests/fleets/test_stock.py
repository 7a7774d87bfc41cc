"""Real mosquittos behind a real HAProxy: a plan applied while everybody talks, taken back, and faults on the way."""

from __future__ import annotations

import json
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
from coterie.fleets.audience import Audience, JournalTail
from coterie.fleets.balancer import LiveBalancer
from coterie.fleets.crossing import Copies, flooded
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.layout import FleetLayout, read_layout
from coterie.fleets.measuring import Counted, MosquittoLogs
from coterie.fleets.outlook import as_seated, copies_under
from coterie.fleets.record import APPLYING, UNDONE, read_record
from coterie.mqtt.topics import filter_matches
from tests.fleets.plans import publish_plan
from tests.fleets.stock import Crowd, Stock, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]
UNDER_WAY_S = 1.0  # what was sent so shortly before a connection ends may be lost with it


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


def plan_from_logs(stock: Stock, folder: Path) -> Path:
    """With nothing but the brokers' own logs to go by; tests/fleets/test_howtos.py has `coterie plan` do it."""
    logs = [f"--broker={one.name}={one.log}" for one in stock.fleet.broker]
    seen = coterie("observe", *logs, "--out", str(folder / "journal"), "--json")
    assert seen.returncode == 0, seen.stderr
    assert not any(account["not_understood"] for account in json.loads(seen.stdout)["brokers"].values())
    audience = Audience()
    audience.take(JournalTail(folder / "journal").lines())
    found = audience.layout(stock.fleet.names, {})
    sent = {client: tuple(sorted(some)) for client, some in found.publishes.items()}
    publish_plan(folder / "plan", found.wishes, sent, stock.fleet.names, "star:crossing=wanted")
    return folder / "plan"


class Metronomes:
    """A publisher at every broker that nobody moves, with QoS 1 on every topic, until told to stop."""

    def __init__(self, stock: Stock, topics: list[str]) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.sent_s: list[float] = []
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
            self.sent_s.append(time.monotonic())
            turn += 1
            time.sleep(0.004)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        time.sleep(0.5)
        for client in self._clients:
            client.disconnect()
            client.loop_stop()
            client._reset_sockets()


def test_from_their_logs_to_a_third_of_the_copies_and_nothing_lost_for_who_was_not_asked_to_move(tmp_path):
    with Stock(tmp_path, 8) as stock:
        crowd = Crowd(80, 40, 8, seed=1, lasting=range(0, 80, 16))
        crowd.start(lambda name: stock.front)
        before = talk(stock, crowd, "before")
        assert before.predicted(Copies(flooded(stock.fleet.names, "b0"))) == before.copies

        plan = plan_from_logs(stock, tmp_path)
        layout = read_layout(plan, stock.fleet)
        assert layout.wishes == crowd.wishes
        assert {client: set(some) for client, some in layout.publishes.items()} == {
            client: set(some) for client, some in crowd.publishes.items()
        }
        assert layout.hub == "b0"
        crowd.forget()
        seats = LiveBalancer(stock.fleet.balancer).seats()
        asked_before = dict(crowd.connects)
        metronomes = Metronomes(stock, sorted({topic for some in crowd.wishes.values() for topic in some}))
        time.sleep(0.3)
        arguments = (str(plan), "--fleet", str(stock.path), "--out", str(tmp_path / "out"))
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
        for name, left_s in crowd.left_s.items():
            sent = zip(metronomes.sent, metronomes.sent_s, strict=True)
            early = {
                load for (topic, load), at_s in sent if at_s < left_s - UNDER_WAY_S and topic in crowd.wishes[name]
            }
            assert not early - set(crowd.got[name]), f"{name} missed something before it was asked to move"
        assert crowd.left_s
        assert crowd.twice() == 0

        after = talk(stock, crowd, "after")
        assert after.per_delivered <= before.per_delivered / 3
        now = LiveBalancer(stock.fleet.balancer).seats()
        assert all(now[name].broker == seats[name].broker for name in crowd.lasting)
        wanted = as_seated(layout, {name: seat.broker for name, seat in now.items()})
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


def test_a_tree_of_bridges_per_topic_makes_fewer_copies_than_any_star(tmp_path):
    with Stock(tmp_path, 8, has_star=False, patience_s=10.0) as stock:
        crowd = Crowd(80, 40, 8, seed=1)
        crowd.start(lambda name: stock.front)
        publish_plan(tmp_path / "plan", crowd.wishes, crowd.publishes, stock.fleet.names)
        wanted = read_layout(tmp_path / "plan", stock.fleet)
        targets = chosen_targets(["mosquitto-bridges"], stock.fleet)
        done = Application(stock.fleet, targets, tmp_path / "out", TARGETS).apply(wanted)
        until(lambda: len(crowd.subscribed) == 80, "everybody is back")
        assert done.wanted.home == wanted.home
        counted = talk(stock, crowd, "trees")
        assert counted.predicted(copies_under(stock.fleet, targets, wanted)) == counted.copies
        star = counted.predicted(copies_under(stock.fleet, [TARGETS["mosquitto-acl"]], wanted))
        bound = counted.predicted(copies_under(stock.fleet, [TARGETS["nats-users"]], wanted))
        assert bound <= counted.copies < star
        crowd.stop()


STRANGE = ("a b", 'quote"d', "ünïcode/€", "#hash", "per%20cent", "semi;colon", "~._-*!'()", "x" * 300)


def test_clients_of_any_name_wildcards_lasting_sessions_and_strangers(tmp_path):
    """Asked to, lasting sessions move too; who is not in the plan is sent to the hub and misses nothing."""
    with Stock(tmp_path, 3, unknown="hub") as stock:
        crowd = Crowd(12, 12, 3, seed=2, lasting=[4])
        for number, name in enumerate(STRANGE):
            crowd.wishes[name] = (f"mode{number % 3}/+", "alarm/#") if number % 2 else (f"mode{number % 3}/#",)
            crowd.publishes[name], crowd.got[name] = (f"mode{number % 3}/0", "alarm/1"), type(crowd.got["client 0"])()
        planned = {name: some for name, some in crowd.wishes.items() if name != "client 7"}
        publishes = {name: crowd.publishes[name] for name in planned}
        crowd.start(lambda name: stock.front)
        seats = LiveBalancer(stock.fleet.balancer).seats()
        assert set(seats) == set(crowd.wishes)
        assert {seat.broker for seat in seats.values()} == {"b0"}  # nobody has a place yet
        assert seats["client 4"].is_lasting
        publish_plan(tmp_path / "plan", planned, publishes, stock.fleet.names, "star:crossing=wanted")
        layout = read_layout(tmp_path / "plan", stock.fleet)
        targets = chosen_targets(["mosquitto-acl"], stock.fleet)
        done = Application(stock.fleet, targets, tmp_path / "out", TARGETS).apply(layout, lasting=True)
        assert (done.journey.late, done.lasting, done.strangers) == ([], 0, 1)
        until(lambda: len(crowd.subscribed) == len(crowd.wishes), "everybody is back")
        now = {name: seat.broker for name, seat in LiveBalancer(stock.fleet.balancer).seats().items()}
        assert now == {**layout.home, "client 7": "b0"}
        assert len(set(now.values())) == 3
        wild = {name: [one for one in crowd.wishes[name] if not one[-1].isdigit()] for name in STRANGE}
        crowd.publish(2, 0, "any name")
        expected = {
            name: {payload for topic, payload in crowd.messages if any(filter_matches(one, topic) for one in some)}
            for name, some in {**crowd.wishes, **wild}.items()
        }
        until(lambda: all(expected[name] <= set(got) for name, got in crowd.got.items()), "everything has arrived")
        assert crowd.twice() == 0
        crowd.stop()


# --- faults ---


class Small:
    """Three brokers, a dozen clients on three subjects, a plan that moves most of them."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.folder = folder
        self.stock = Stock(folder, 3, **{"moves_per_s": 6.0, "patience_s": 2.0, **limits})
        self.crowd = Crowd(12, 12, 3, seed=2)

    def __enter__(self) -> Small:
        self.stock.__enter__()
        self.crowd.start(lambda name: self.stock.front)
        now = {name: seat.broker for name, seat in LiveBalancer(self.stock.fleet.balancer).seats().items()}
        home = {name: f"b{(int(broker[1:]) + 1) % 3}" for name, broker in now.items()}  # everybody moves
        self.seats, self.wanted = now, FleetLayout(self.stock.fleet.names, home, self.crowd.wishes, version=3)
        targets = chosen_targets(["mosquitto-acl"], self.stock.fleet)
        self.application = Application(self.stock.fleet, targets, self.folder / "out", TARGETS)
        self.acl = (self.folder / "b0" / "acl").read_text()
        return self

    def __exit__(self, *error: object) -> None:
        self.crowd.stop()
        self.stock.__exit__()

    def apply_and(self, disturb: Any) -> BaseException | None:
        """Apply, and when a client has been moved do something terrible."""
        problem: list[BaseException] = []

        def run() -> None:
            try:
                self.application.apply(self.wanted)
            except CoterieError as error:
                problem.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: bool((record := read_record(self.folder / "out")) and record.moved), "the first client has moved")
        disturb()
        thread.join(60)
        assert not thread.is_alive()
        return problem[0] if problem else None

    def is_as_before(self) -> bool:
        balancer = LiveBalancer(self.stock.fleet.balancer)
        files = (self.folder / "b0" / "acl").read_text() == self.acl, (self.folder / "clients.map").read_text() == ""
        return all(files) and balancer.homes() == {}


def test_a_broker_that_dies_while_applying_takes_the_plan_back(tmp_path):
    with Small(tmp_path) as small:
        problem = small.apply_and(lambda: small.stock.stop("b2", signal.SIGKILL))
        assert isinstance(problem, RunError)
        assert "plan 3 was not applied, everything is as before" in str(problem)
        assert "b2" in str(problem)
        assert small.is_as_before()
        record = read_record(tmp_path / "out")
        assert record is not None
        assert record.state == UNDONE
        small.stock.start("b2")
        until(lambda: LiveBalancer(small.stock.fleet.balancer).up()["b2"], "b2 is back")


def test_haproxy_that_restarts_while_applying_is_waited_for(tmp_path):
    with Small(tmp_path, patience_s=8.0) as small:

        def restart() -> None:
            small.stock.stop("haproxy", signal.SIGKILL)
            small.stock.start_haproxy()

        assert small.apply_and(restart) is None
        until(lambda: len(small.crowd.subscribed) == 12, "everybody is back")
        seats = LiveBalancer(small.stock.fleet.balancer).seats()
        assert {name: seat.broker for name, seat in seats.items()} == small.wanted.home


def test_haproxy_that_is_gone_leaves_a_mark_until_the_rollback_is_complete(tmp_path):
    with Small(tmp_path) as small:
        problem = small.apply_and(lambda: small.stock.stop("haproxy", signal.SIGKILL))
        assert "could not be taken back" in str(problem)
        assert "haproxy.sock" in str(problem)
        record = read_record(tmp_path / "out")
        assert record is not None
        assert record.state == APPLYING
        with pytest.raises(RunError, match="half-applied; take it back first with --rollback"):
            small.application.apply(small.wanted)
        small.stock.start_haproxy()
        until(lambda: len(small.crowd.subscribed) == 12, "everybody is back")
        roll_back(small.stock.fleet, tmp_path / "out", TARGETS)
        assert small.is_as_before()
        with pytest.raises(InputError, match="taken back already"):
            roll_back(small.stock.fleet, tmp_path / "out", TARGETS)


def test_a_process_killed_half_way_is_noticed_and_undone(tmp_path):
    with Small(tmp_path) as small:
        publish_plan(tmp_path / "plan", small.crowd.wishes, small.crowd.publishes, small.stock.fleet.names, "star")
        arguments = ["export", str(tmp_path / "plan"), "--to", "mosquitto-acl", "--fleet", str(small.stock.path)]
        command = [sys.executable, "-m", "coterie", *arguments, "--out", str(tmp_path / "out"), "--apply"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: bool((record := read_record(tmp_path / "out")) and record.moved), "the first client has moved")
        child.kill()
        child.wait()
        assert not small.is_as_before()
        with pytest.raises(RunError, match="half-applied"):
            small.application.apply(small.wanted)
        roll_back(small.stock.fleet, tmp_path / "out", TARGETS)
        assert small.is_as_before()


def test_what_can_be_known_to_fail_fails_before_anything_changes(tmp_path):
    with Small(tmp_path) as small:
        fleet = small.stock.fleet
        acl = tmp_path / "b0" / "acl"
        acl.rename(tmp_path / "b0" / "kept")
        acl.mkdir()
        with pytest.raises(InputError, match="acl: cannot be written: it is not a file"):
            small.application.apply(small.wanted)
        acl.rmdir()
        (tmp_path / "b0" / "kept").rename(acl)
        (tmp_path / "b0" / "pid").rename(tmp_path / "b0" / "no-pid")
        with pytest.raises(InputError, match="pid file of b0: cannot be read"):
            small.application.apply(small.wanted)
        (tmp_path / "b0" / "no-pid").rename(tmp_path / "b0" / "pid")
        small.stock.stop("b1", signal.SIGKILL)
        with pytest.raises(RunError, match="does not answer"):
            small.application.apply(small.wanted)
        small.stock.start("b1")
        assert read_record(tmp_path / "out") is None
        assert small.is_as_before()
        assert fleet.balancer is not None
        with socket.socket(socket.AF_UNIX) as deaf:
            fleet.balancer.socket.unlink()
            deaf.bind(str(fleet.balancer.socket))
            with pytest.raises(RunError, match=r"haproxy\.sock: HAProxy does not answer"):
                small.application.apply(small.wanted)
        assert read_record(tmp_path / "out") is None
