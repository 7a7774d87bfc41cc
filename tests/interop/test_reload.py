"""A running node takes a new configuration: rights bite, certificates change, and what is wrong changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.reloading import reload_command
from coterie.errors import ConfigError, RunError
from coterie.live.config import load_config
from coterie.live.node import LiveNode
from coterie.mqtt.reasons import Reason
from coterie.systems import system_named
from tests.interop.fleet import TOKEN, Processes, free_ports, run, to_toml, until, write_configs
from tests.interop.rivals import users_of
from tests.interop.test_clients import certificates, certify
from tests.interop.test_permissions import client

pytestmark = pytest.mark.interop


def write(path: Path, users: dict[str, dict[str, Any]], **sections: dict[str, Any]) -> Path:
    table = {"node": {"data": "."}, "mqtt": {"port": 0}, "admin": {"token": TOKEN},
             "access": {"anonymous": "never", "users": users_of(users)}}  # fmt: skip
    for section, keys in sections.items():
        table[section] = {**table.get(section, {}), **keys}
    path.write_text(to_toml(table))
    return path


ALL: dict[str, Any] = {"publish": ["#"], "subscribe": ["#"]}


def test_rights_bite_on_sessions_that_run_and_on_those_that_wait(tmp_path: Path) -> None:
    path = write(tmp_path / "node.toml", {"ann": ALL, "bob": ALL, "eve": ALL, "root": ALL})

    async def main() -> None:
        node = LiveNode(load_config(path), system_named("flooding"))
        node.reread = lambda: load_config(path)
        await node.start()
        port, got = node.ports["mqtt"], []  # type: ignore[var-annotated]
        ann = client(port, "ann", "ann", got, lasting=True)
        await ann.start()
        await ann.subscribe("secret/#", "public/#", qos=1)
        away: list[Any] = []
        async with client(port, "bob", "bob", away, lasting=True) as bob:
            await bob.subscribe("secret/#", "public/#", qos=1)
        eve = client(port, "eve", "eve", [])
        await eve.start()
        root = client(port, "root", "root", [])
        await root.start()
        for topic in ("secret/1", "public/1"):
            await root.publish(topic, topic.encode(), qos=1)
        await until(lambda: len(got) == 2)
        await ann.stop()
        ann = client(port, "ann", "ann", got, lasting=True)
        await ann.start()
        first = node.broker.sessions.of["ann"].connection
        fewer: dict[str, Any] = {"publish": ["public/#"], "subscribe": ["public/#"]}
        write(path, {"ann": fewer, "bob": fewer, "root": ALL}, store={"sync": "full"})
        assert node.reload() == {"taken": ["access.users"], "needs_restart": ["store.sync"]}
        assert set(node.broker.sessions.of["ann"].subscriptions) == {"public/#"}
        assert first is not None
        await until(lambda: node.broker.sessions.of["ann"].connection not in (None, first))  # told to go, and back
        for topic in ("secret/2", "public/2"):
            await root.publish(topic, topic.encode(), qos=1)
        await until(lambda: len(got) == 3)
        assert got[-1].payload == b"public/2"
        assert await ann.publish("secret/3", b"x", qos=1) == Reason.NOT_AUTHORIZED
        async with client(port, "bob", "bob", away, lasting=True):
            await until(lambda: [one.payload for one in away] == [b"public/1", b"public/2"])
        await until(lambda: not node.broker.sessions.of.get("eve") or not node.broker.sessions.of["eve"].is_online)
        with pytest.raises(RunError, match="bad user name"):
            await client(port, "eve", "eve", []).start()
        for one in (ann, eve, root):
            await one.stop()
        await node.stop()

    run(main)


def test_what_is_wrong_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "node.toml", {"ann": ALL})

    async def main() -> None:
        node = LiveNode(load_config(path), system_named("flooding"), said.append)
        node.reread = lambda: load_config(path)
        await node.start()
        write(path, {"ann": {"publish": ["a/#/b"], "subscribe": []}}, limits={"connects_per_s": 1.0})
        with pytest.raises(ConfigError, match="a/#/b"):
            node.reload()
        path.write_text("[access\n")
        node.on_hangup()
        assert "was not taken" in said[-1]
        assert node.config.limits.connects_per_s == 0.0
        async with client(node.ports["mqtt"], "ann", "ann", []) as ann:
            assert await ann.publish("anything", b"x", qos=1) == 0
        write(path, {"ann": ALL}, limits={"publishes_per_s_client": 1.0, "publishes_burst_client": 2.0})
        node.reload()
        assert node.broker.gate.watches_publishes
        write(path, {"ann": ALL}, node={"data": ".", "log_level": "error"})
        node.reload()
        count = len(said)
        node.reload()
        assert len(said) == count
        await node.stop()

    said: list[str] = []
    run(main)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_are_renewed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        certificates(tmp_path / name)
    (tls_port,) = free_ports(1)
    chosen = {"port": 0, "tls_port": tls_port, "certificate": "cert.pem", "certificate_key": "cert.key"}
    path = write(tmp_path / "node.toml", {"ann": ALL}, mqtt=chosen)

    async def greeted(authority: str) -> bool:
        context = ssl.create_default_context(cafile=str(tmp_path / authority / "ca.pem"))
        try:
            _, writer = await asyncio.open_connection("localhost", tls_port, ssl=context)
        except ssl.SSLError:
            return False
        writer.close()
        return True

    def lay(name: str) -> None:
        for end in ("pem", "key"):
            shutil.copy(tmp_path / name / f"localhost.{end}", tmp_path / f"cert.{end}")

    async def main() -> None:
        node = LiveNode(load_config(path), system_named("flooding"))
        await node.start()
        assert [await greeted("old"), await greeted("new")] == [True, False]
        lay("new")
        node.reload()
        assert [await greeted("old"), await greeted("new")] == [False, True]
        (tmp_path / "cert.pem").write_text("nonsense")
        with pytest.raises(ConfigError, match=r"mqtt\.certificate"):
            node.reload()
        assert await greeted("new")
        await node.stop()

    lay("old")
    run(main)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_of_links_are_renewed_by_a_signal(tmp_path: Path) -> None:
    """Links that are made afterwards show the new ones; messages pass before and behind it."""
    certificates(tmp_path)
    named = {"certificate": "../node-0.pem", "certificate_key": "../node-0.key", "authority": "../ca.pem"}
    paths = write_configs(tmp_path, "flooding", 2, network={"key": ""}, links=named)
    paths[1].write_text(paths[1].read_text().replace("node-0.", "node-1."))
    processes = Processes(paths)

    async def shown(node: int) -> str:
        """The serial number of the certificate on a node's link port."""
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(tmp_path / "node-1.pem", tmp_path / "node-1.key")
        port = processes.configs[node].links.port
        _, line = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=f"node-{node}")
        serial: str = line.get_extra_info("peercert")["serialNumber"]
        line.transport.abort()
        return serial

    async def passes(text: bytes) -> None:
        got: list[Any] = []
        here, there = (one.mqtt.port for one in processes.configs)
        async with client(here, "", f"reader {text!r}", got) as reader, client(there, "", "writer", []) as writer:
            await reader.subscribe("t", qos=1)
            await writer.publish("t", text, qos=1)
            await until(lambda: [one.payload for one in got] == [text])

    async def main() -> None:
        for node in (0, 1):
            processes.start(node)
        await processes.healthy([0, 1])
        await passes(b"before")
        before = [await shown(node) for node in (0, 1)]
        for node in (0, 1):
            certify(tmp_path, f"node-{node}")
            os.kill(processes.running[node], signal.SIGHUP)
        for node in (0, 1):
            await until(lambda node=node: "configuration" in (paths[node].parent / "log").read_text())  # type: ignore[misc]
        after = [await shown(node) for node in (0, 1)]
        assert not set(before) & set(after)
        for peers in ("?peers=1", ""):  # the link is cut, and made anew
            await asyncio.to_thread(processes.ask, 0, f"/block{peers}", "POST")
        await passes(b"behind")

    try:
        run(main)
    finally:
        processes.stop()


def test_a_signal_and_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGHUP ended the node."""
    (path,) = write_configs(tmp_path, "flooding", 1, access={"anonymous": "always"})
    processes = Processes([path])

    async def main() -> None:
        processes.start(0)
        await processes.healthy([0])
        path.write_text(path.read_text().replace('"always"', '"never"'))
        os.kill(processes.running[0], signal.SIGHUP)
        port = processes.configs[0].mqtt.port
        await until(lambda: "access.anonymous" in (path.parent / "log").read_text())
        with pytest.raises(RunError, match="not authorized"):
            await client(port, "", "c", []).start()
        path.write_text(path.read_text().replace('"never"', '"always"'))
        place = f"127.0.0.1:{processes.configs[0].admin.port}"
        await asyncio.to_thread(reload_command, NetworkOptions(admin=[place], token=TOKEN))
        assert processes.health(0)["ready"]

    try:
        run(main)
    finally:
        processes.stop()
    said = capsys.readouterr().out
    assert "changed access.anonymous" in said
