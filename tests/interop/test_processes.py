"""Several processes behind one port: found, linked, served and spoken for as one node."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import ConfigError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.config import NodeConfig, config_of
from coterie.live.processes import check_processes, count_of, process_config, socket_of
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, Connect, Publish, Subscribe, Subscription
from tests.interop.fleet import free_ports, run

pytestmark = pytest.mark.interop


def table(**more: Any) -> dict[str, Any]:
    return {
        "node": {"processes": 2, "data": "data"},
        "mqtt": {"port": 1883},
        "links": {"port": 3883},
        "admin": {"port": 2883, "token": "the token"},
        **more,
    }


def test_a_machine_by_itself_founds_a_network_of_its_processes(tmp_path):
    config = config_of(table(), str(tmp_path))
    made = [process_config(config, process) for process in range(2)]
    assert [(one.node.id, one.name, one.links.port, one.admin.port) for one in made] == [
        (0, "node-0", 3883, 2884), (512, "node-0-1", 3884, 2885),
    ]  # fmt: skip
    assert [[peer.id for peer in one.network.peers] for one in made] == [[0, 512]] * 2
    assert made[0].data == config.data.resolve()  # what a single process kept is served
    assert made[0].keys() == made[1].keys() != ()
    assert [one.durability.copies for one in made] == [1, 1]
    assert socket_of(made[0], 512) == str(tmp_path / "data" / "links-1.sock")
    assert socket_of(made[0], 1) == socket_of(made[0], 513) == ""  # other machines


def test_in_a_larger_network_the_further_ones_join_it(tmp_path):
    peers = [{"id": 0, "host": "10.0.0.1", "port": 3883}, {"id": 1, "host": "10.0.0.2", "port": 3883}]
    config = config_of(table(network={"key": "k", "slice": "slice.json", "peers": peers}), str(tmp_path))
    first, second = (process_config(config, process) for process in range(2))
    assert (first.node.id, first.network.join, len(first.network.peers)) == (0, [], 2)
    assert (second.node.id, second.network.join) == (512, ["10.0.0.1:3883"])
    assert first.durability.copies == 2


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"node.processes: expected 1 to 8, got 9"):
        config_of(table(node={"processes": 9}), str(tmp_path))
    check_processes(config_of(table(), str(tmp_path)))
    with pytest.raises(ConfigError, match=r"node.processes: expected mqtt.port, links.port and admin.port set"):
        check_processes(config_of(table(admin={}), str(tmp_path)))
    (tmp_path / "data" / "process-3").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"expected at least 4, for .*process-3 holds sessions.*drain node-0-3"):
        check_processes(config_of(table(), str(tmp_path)))
    assert count_of(NodeConfig()) == 1


@contextmanager
def started(folder: Path) -> Iterator[tuple[int, int, subprocess.Popen[bytes]]]:
    mqtt, links, _, admin, _, _ = _run_of_ports()
    (folder / "node.toml").write_text(
        f"[node]\nprocesses = 2\n[mqtt]\nport = {mqtt}\n[links]\nport = {links}\n[admin]\nport = {admin}\n"
        'token = "the token"\n[network]\nsystem = "mesh"\n'
    )
    with open(folder / "log", "wb") as log:
        command = [sys.executable, "-m", "coterie", "node", "--config", str(folder / "node.toml")]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _until(lambda: _asked(admin, "/ready") is not None, process, folder)
        yield mqtt, admin, process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, (folder / "log").read_text()


def _run_of_ports() -> list[int]:
    """A client port, two in a row for links, three in a row for the admin interface."""
    while True:
        mqtt, links, admin = free_ports(3)
        further = (links + 1, admin + 1, admin + 2)
        if len({mqtt, links, admin, *further}) == 6 and all(_is_free(port) for port in further):
            return [mqtt, links, links + 1, admin, admin + 1, admin + 2]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _asked(admin: int, path: str) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{admin}{path}", headers={"Authorization": "Bearer the token"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return None
    except OSError:
        return None
    return json.loads(text) if text.startswith("{") else text


def _until(condition: Any, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline_s, (folder / "log").read_text()
        time.sleep(0.1)


def test_clients_of_both_talk_and_a_killed_one_comes_back(tmp_path):
    async def talk(port: int, admin: int) -> list[int]:
        got: list[list[Any]] = [[] for _ in range(12)]
        readers = []
        for number, sink in enumerate(got):
            readers.append(MqttClient("127.0.0.1", port, connect_packet(f"r{number}"), sink.append))
            await readers[-1].start()
            await readers[-1].subscribe("news/#", qos=1)
        writer = MqttClient("127.0.0.1", port, connect_packet("writer"), lambda message: None)
        await writer.start()
        for number in range(20):
            await writer.publish(f"news/{number}", b"", 1)
        async with asyncio.timeout(20):
            while any(len(one) < 20 for one in got):
                await asyncio.sleep(0.02)
        assert all([one.topic for one in sink] == [f"news/{number}" for number in range(20)] for sink in got)
        health = await asyncio.to_thread(_asked, admin, "/health")
        page = await asyncio.to_thread(_asked, admin, "/metrics")
        clients = [
            int(float(line.split()[-1])) for line in page.splitlines() if line.startswith("coterie_clients{")
        ]  # fmt: skip
        assert sum(clients) == 13
        assert (await asyncio.to_thread(_asked, admin, "/totals"))["clients"] == 13
        for one in (*readers, writer):
            await one.stop()
        return [one["pid"] for one in health["processes"].values()]

    with started(tmp_path) as (port, admin, process):
        pids = run(lambda: talk(port, admin))
        os.kill(pids[1], signal.SIGKILL)
        _until(lambda: _asked(admin, "/ready") is None, process, tmp_path)
        _until(lambda: _asked(admin, "/ready") is not None, process, tmp_path)
        again = [one["pid"] for one in _asked(admin, "/health")["processes"].values()]
        assert again[0] == pids[0]
        assert again[1] != pids[1]


PAIRS = 12


def _places(admin: int) -> dict[str, int]:
    """Which process each client is in, by its own word."""
    found: dict[str, int] = {}
    for process in range(2):
        for name in (f"{what}{number}" for number in range(PAIRS) for what in ("reader", "writer")):
            told = _asked(admin + 1 + process, f"/inspect?client={name}")
            if told is not None and told["session"] is not None:
                assert name not in found
                found[name] = process
    return found


def test_a_publisher_goes_to_the_process_where_its_topic_is_wanted_and_says_all_in_order(tmp_path):
    async def talk(port: int, admin: int) -> tuple[dict[str, int], dict[str, int]]:
        got: list[list[bytes]] = [[] for _ in range(PAIRS)]
        readers, writers = [], []
        for number, sink in enumerate(got):
            packet = connect_packet(f"reader{number}")
            readers.append(MqttClient("127.0.0.1", port, packet, lambda one, sink=sink: sink.append(one.payload)))
            await readers[-1].start()
            await readers[-1].subscribe(f"t/{number}", qos=1)
            writers.append(MqttClient("127.0.0.1", port, connect_packet(f"writer{number}"), lambda message: None))
            await writers[-1].start()
        before = await asyncio.to_thread(_places, admin)
        answers = [
            writer.send(f"t/{number}", b"%d" % message, 1)
            for message in range(200)
            for number, writer in enumerate(writers)
        ]
        await asyncio.gather(*answers)
        async with asyncio.timeout(20):
            while any(len(one) < 200 for one in got):
                await asyncio.sleep(0.02)
        assert got == [[b"%d" % message for message in range(200)]] * PAIRS
        after = await asyncio.to_thread(_places, admin)
        for one in (*readers, *writers):
            await one.stop()
        return before, after

    with started(tmp_path) as (port, admin, _):
        before, after = run(lambda: talk(port, admin))
    crossed = [number for number in range(PAIRS) if before[f"writer{number}"] != before[f"reader{number}"]]
    moved = [number for number in range(PAIRS) if before[f"writer{number}"] != after[f"writer{number}"]]
    assert moved == crossed
    assert all(after[f"reader{number}"] == before[f"reader{number}"] for number in range(PAIRS))


def test_a_process_that_is_killed_while_sockets_come_to_it_leaves_nobody_waiting(tmp_path):
    """Its clients' connections end with it, also those of sockets that it had not taken; the others are served."""

    def connected(port: int, name: str) -> socket.socket:
        one = socket.create_connection(("127.0.0.1", port), 10)
        one.sendall(encode_packet(Connect(name, MQTT_3), MQTT_3))
        assert one.recv(4)[3] == 0
        return one

    with started(tmp_path) as (port, admin, process):
        pids = [one["pid"] for one in _asked(admin, "/health")["processes"].values()]
        for is_stopped in (True, False):
            readers = [connected(port, f"reader{number}") for number in range(PAIRS)]
            for number, one in enumerate(readers):
                one.sendall(encode_packet(Subscribe(1, (Subscription(f"t/{number}", 0),)), MQTT_3))
                assert one.recv(5)[0] == 0x90
            writers = [connected(port, f"writer{number}") for number in range(PAIRS)]
            time.sleep(0.3)
            if is_stopped:
                os.kill(pids[1], signal.SIGSTOP)  # what it is asked now it never answers
            for number, one in enumerate(writers):
                one.sendall(encode_packet(Publish(f"t/{number}", b"", 1, packet_id=1), MQTT_3))
            os.kill(pids[1], signal.SIGKILL)
            for one in writers:
                one.settimeout(10)
                try:
                    told = one.recv(4)
                except ConnectionResetError:
                    told = b""
                assert told in (b"", b"\x40\x02\x00\x01")
                one.close()
            for one in readers:
                one.close()
            _until(lambda: _asked(admin, "/ready") is None, process, tmp_path)
            _until(lambda: _asked(admin, "/ready") is not None, process, tmp_path)
            pids = [one["pid"] for one in _asked(admin, "/health")["processes"].values()]
