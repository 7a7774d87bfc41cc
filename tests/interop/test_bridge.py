"""A node beside a real mosquitto: a migration step by step, through restarts of either, and never in circles."""

from __future__ import annotations

import asyncio
import getpass
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import ConfigError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.interop.fleet import free_ports, lone_config, run, until
from tests.interop.rivals import MOSQUITTO, listens

pytestmark = pytest.mark.interop


class OldBroker:
    """A mosquitto that keeps its sessions when it ends."""

    def __init__(self, folder: Path) -> None:
        if MOSQUITTO is None:
            pytest.skip("mosquitto is not installed")
        folder.mkdir()
        (self.port,) = free_ports(1)
        self._path = folder / "mosquitto.conf"
        self._path.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nuser {getpass.getuser()}\n"
        )

    async def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen([MOSQUITTO, "-c", str(self._path)], stderr=subprocess.DEVNULL)
        await listens(self.port)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def bridge(port: int, topics: list[dict[str, Any]], **keys: Any) -> list[dict[str, Any]]:
    return [{"name": "old", "server": f"127.0.0.1:{port}", "topics": topics, **keys}]


def node_at(folder: Path, bridges: list[dict[str, Any]]) -> LiveNode:
    folder.mkdir(exist_ok=True)
    return LiveNode(lone_config(folder, bridges=bridges), system_named("flooding"))


async def client(port: int, name: str, got: list[Any] | None = None, *filters: str) -> MqttClient:
    made = MqttClient("127.0.0.1", port, connect_packet(name), (got if got is not None else []).append)
    await made.start()
    if filters:
        await made.subscribe(*filters, qos=1)
    return made


@pytest.mark.parametrize("version", [4, 5])
def test_messages_pass_both_ways_and_wait_for_whoever_is_away(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        old = OldBroker(tmp_path / "old")
        await old.start()
        topics = [{"filter": "up/#", "direction": "in"}, {"filter": "down/#", "direction": "out"}]
        node = node_at(tmp_path / "node", bridge(old.port, topics, version=version))
        await node.start()
        await until(lambda: node.bridges[0].is_up)
        here: list[Any] = []
        there: list[Any] = []
        ours = await client(node.ports["mqtt"], "ours", here, "up/#")
        theirs = await client(old.port, "theirs", there, "down/#")
        for number in range(50):
            await ours.publish("down/x", b"%d" % number, 1)
            await theirs.publish("up/x", b"%d" % number, 1)
        await until(lambda: len(here) == 50 and len(there) == 50)
        await theirs.stop()
        old.stop()  # it keeps what it has for us; we keep what we have for it
        await until(lambda: not node.bridges[0].is_up)
        for number in range(50, 100):
            await ours.publish("down/x", b"%d" % number, 1)
        await old.start()
        theirs = await client(old.port, "theirs", there, "down/#")
        await until(lambda: len(there) >= 100)
        assert [int(one.payload) for one in there] == list(range(100))
        assert [int(one.payload) for one in here] == list(range(50))
        await ours.stop()
        await theirs.stop()
        await node.stop()
        old.stop()

    run(main)


def test_two_bridges_of_one_network_make_no_circle(tmp_path: Path) -> None:
    """Two nodes (here: two networks of one name) beside the same broker, everything in both directions."""

    async def main() -> None:
        old = OldBroker(tmp_path / "old")
        await old.start()
        topics = [{"filter": "#", "direction": "both"}]
        nodes = [
            node_at(tmp_path / f"node{number}", bridge(old.port, topics, client_id=f"bridge{number}"))
            for number in range(2)
        ]
        for node in nodes:
            await node.start()
        await until(lambda: all(node.bridges[0].is_up for node in nodes))
        got: list[Any] = []
        there = await client(old.port, "there", got, "#")
        here = await client(nodes[0].ports["mqtt"], "here", got, "#")
        await here.publish("a", b"from here", 1)
        await there.publish("b", b"from there", 1)
        await until(lambda: len(got) >= 4)
        await asyncio.sleep(0.3)
        assert sorted((one.topic, one.payload) for one in got) == [("a", b"from here")] * 2 + [("b", b"from there")] * 2
        assert nodes[1].bridges[0].counts.loops == 1  # what the first gave was not taken by the second
        for one in (here, there):
            await one.stop()
        for node in nodes:
            await node.stop()
        old.stop()

    run(main)


def test_a_bridge_has_the_rights_of_its_user_and_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        old = OldBroker(tmp_path / "old")
        await old.start()
        users = [{"name": "mover", "publish": ["up/#"], "subscribe": []}]
        rights = {"anonymous": "never", "users": users}
        made = bridge(old.port, [{"filter": "#", "direction": "in"}], local_user="mover")
        config = lone_config(tmp_path, access=rights, bridges=made)
        node = LiveNode(config, system_named("flooding"))
        await node.start()
        await until(lambda: node.bridges[0].is_up)
        theirs = await client(old.port, "theirs")
        await theirs.publish("up/x", b"", 1)
        await theirs.publish("other", b"", 1)
        await until(lambda: node.bridges[0].counts.refused == 1)
        assert node.bridges[0].counts.taken == 2
        assert node.broker.counts.published_refused == 1
        await theirs.stop()
        await node.stop()
        old.stop()
        nobody = bridge(old.port, [{"filter": "#"}])
        with pytest.raises(ConfigError, match="local_user"):
            LiveNode(lone_config(tmp_path, access=rights, bridges=nobody), system_named("flooding"))

    run(main)
