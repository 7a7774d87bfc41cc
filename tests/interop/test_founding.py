"""From `coterie init` to a secured network that works, as its page says; a backup of a running node, put back."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coterie.live.client import MqttClient, connect_packet

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("founding")]
HOSTS = {"a": "127.0.0.21", "b": "127.0.0.22", "c": "127.0.0.23"}


def coterie(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "coterie", *map(str, words)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(folder: Path, *hosts: str) -> Iterator[None]:
    """Their nodes, until all are ready."""
    started = []
    try:
        for host in hosts:
            with open(folder / f"{host}.log", "ab") as log:
                command = [sys.executable, "-m", "coterie", "node", "--config", str(folder / host / "node.toml")]
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
        deadline_s = time.monotonic() + 90
        while not all(is_ready(HOSTS[host]) for host in hosts):
            assert all(one.poll() is None for one in started), "\n".join(
                (folder / f"{host}.log").read_text() for host in hosts
            )
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        yield
    finally:
        for one in started:
            one.send_signal(signal.SIGTERM)
        for one in started:
            one.wait(30)


def is_ready(address: str) -> bool:
    said = answer_of(address)
    return said is not None and said[0] == 200


def answer_of(address: str) -> tuple[int, dict] | None:
    """What /ready says to anybody; None if nobody is there."""
    try:
        with urllib.request.urlopen(f"http://{address}:12883/ready", timeout=2) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)
    except OSError:
        return None


@pytest.fixture(scope="module")
def net(tmp_path_factory) -> Path:
    for address in HOSTS.values():
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                pytest.skip(f"{address} cannot be used here")
    folder = tmp_path_factory.mktemp("founding") / "net"
    told = ",".join(f"{name}={address}" for name, address in HOSTS.items())
    ports = ("--tls-port", 18883, "--link-port", 13883, "--admin-port", 12883)
    coterie("init", "--hosts", told, "--tls", "--users", "ann,bob", "--out", folder, *ports)
    return folder


def client(folder: Path, host: str, user: str, on_message=lambda message: None, **more) -> MqttClient:
    word = dict(line.split() for line in (folder / "passwords.txt").read_text().splitlines())[user]
    context = ssl.create_default_context(cafile=str(folder / host / "authority.pem"))
    packet = connect_packet(more.pop("identifier", ""), username=user, password=word, **more)
    return MqttClient(HOSTS[host], 18883, packet, on_message, tls=context, give_up_s=20)


def test_three_hosts_are_a_secured_network(net):
    got: list[bytes] = []

    async def talk() -> None:
        async with (
            client(net, "a", "ann", lambda message: got.append(message.payload)) as reader,
            client(net, "c", "bob") as writer,
        ):
            await reader.subscribe("hello/#", qos=1)
            await writer.publish("hello/world", b"it works", 1)
            async with asyncio.timeout(20):
                while not got:
                    await asyncio.sleep(0.05)

    with running(net, *HOSTS):
        asyncio.run(talk())
        assert got == [b"it works"]
        for address in HOSTS.values():
            with pytest.raises(ConnectionRefusedError), socket.create_connection((address, 1883), timeout=2):
                pass  # passwords never go over plain TCP
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{address}:12883/metrics", timeout=2)
            assert refused.value.code == 401
            refused.value.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(
                socket.create_connection((HOSTS["a"], 18883)), server_hostname=HOSTS["a"]
            )


def test_anybody_s_whereabouts_can_be_asked(net):
    admins = [word for address in HOSTS.values() for word in ("--admin", f"{address}:12883")]
    token = ("--token", (net / "a" / "admin.token").read_text().strip())
    told: dict[str, str] = {}

    async def talk() -> None:
        async with client(net, "b", "ann", identifier="ann-1") as reader:
            await reader.subscribe("news/#", qos=1)
            for subject, name in (("client", "ann-1"), ("topic", "news/vienna"), ("link", "0"), ("client", "nobody")):
                told[name] = await asyncio.to_thread(coterie, "inspect", subject, name, *admins, *token)

    with running(net, *HOSTS):
        asyncio.run(talk())
    assert "ann-1: connected at b (node 1), user ann" in told["ann-1"]
    assert "subscribes to news/# (QoS 1)" in told["ann-1"]
    assert "1 subscriber at 1 of 3 nodes" in told["news/vienna"]
    links = told["0"].splitlines()[1:]  # they may still be catching up
    assert [one.partition(";")[0] for one in links] == ["  b (node 1): connected", "  c (node 2): connected"]
    assert "no node has a session" in told["nobody"]


def test_a_node_that_misses_its_peers_is_not_ready(net):
    with open(net / "a.log", "ab") as log:
        alone = subprocess.Popen(
            [sys.executable, "-m", "coterie", "node", "--config", str(net / "a" / "node.toml")], stdout=log, stderr=log
        )
    try:
        said = None
        deadline_s = time.monotonic() + 60
        while said is None and time.monotonic() < deadline_s:
            said = answer_of(HOSTS["a"])
            time.sleep(0.2)
        assert said == (503, {"status": "ok", "ready": False})
    finally:
        alone.terminate()
        alone.wait(30)


def test_a_backup_of_a_running_node_brings_a_lost_disk_back(net, tmp_path):
    """A lasting session with messages that wait for it."""
    got: list[bytes] = []
    session = {"identifier": "lasting", "clean": False, "expiry_s": 3600}

    async def begin() -> None:
        async with client(net, "b", "ann", **session) as reader:
            await reader.subscribe("kept/#", qos=1)
        async with client(net, "b", "bob") as writer:
            for number in range(20):
                await writer.publish(f"kept/{number}", str(number).encode(), 1)

    async def come_back() -> None:
        async with client(net, "b", "ann", lambda message: got.append(message.payload), **session):
            async with asyncio.timeout(20):
                while len(got) < 20:
                    await asyncio.sleep(0.05)

    with running(net, *HOSTS):
        asyncio.run(begin())
        coterie("backup", "--config", net / "b" / "node.toml", "--out", tmp_path / "b.sqlite")
    shutil.rmtree(net / "b" / "data")
    coterie("restore", tmp_path / "b.sqlite", "--config", net / "b" / "node.toml")
    with running(net, *HOSTS):
        asyncio.run(come_back())
    assert got == [str(number).encode() for number in range(20)]
