"""Members that come, leave and die while clients talk: real nodes and sockets; torture has the rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coterie.broker.commands import Drain, Remove
from coterie.errors import ConfigError, RunError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.config import NodeConfig, load_config
from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.interop.fleet import FAST_RECOVERY, TOKEN, Network, free_ports, run, to_toml, until

pytestmark = pytest.mark.interop


def newcomer(
    folder: Path, like: NodeConfig, number: int, certified: dict[str, Any] | None = None, **network: Any
) -> NodeConfig:
    """The configuration of a node that asks the one that is like it."""
    folder.mkdir(parents=True, exist_ok=True)
    links, mqtt, admin = free_ports(3)
    table = {
        "node": {"id": number, "data": "."},
        "mqtt": {"port": mqtt},
        "admin": {"port": admin, "token": TOKEN},
        "links": {"port": links, "heartbeat_s": 0.5, "silence_s": 3.0, "backoff_s_max": 0.5, **(certified or {})},
        "network": {"system": like.network.system, "key": "test", "join": [f"127.0.0.1:{like.links.port}"], **network},
        "recovery": FAST_RECOVERY,
    }
    (folder / "node.toml").write_text(to_toml(table))
    return load_config(folder / "node.toml")


@asynccontextmanager
async def node_of(config: NodeConfig, say: Callable[[str], None] = print) -> AsyncIterator[LiveNode]:
    """Made, not started; stopped whatever happens."""
    node = LiveNode(config, system_named(config.network.system), say, system_named)
    try:
        yield node
    finally:
        await node.stop()


async def client(node: LiveNode, name: str, got: list[Any] | None = None, **packet: Any) -> MqttClient:
    sink = [] if got is None else got
    one = MqttClient("127.0.0.1", node.ports["mqtt"], connect_packet(name, **packet), sink.append)
    await one.start()
    return one


def states(node: LiveNode) -> list[str]:
    return [one.state for one in node.broker.membership.members.entries]


@pytest.mark.parametrize("system", ["mesh", "spidercast"])
def test_a_node_joins_talks_and_leaves_again_and_its_session_is_elsewhere(tmp_path, system):
    async def main() -> None:
        lasting = {"clean": False, "expiry_s": 3600}
        async with Network(tmp_path, system, 3) as network:
            config = newcomer(tmp_path / "late", load_config(network.paths[1]), 3)
            async with node_of(config) as late:
                await late.start()
                await until(lambda: all(len(states(one)) == 4 for one in network.nodes))
                await until(lambda: late.broker.membership.is_settled)
                got: list[Any] = []
                there: list[Any] = []
                reader = await client(late, "reader", got, **lasting)
                await reader.subscribe("news/+", qos=1)
                other = await network.client(0, "other", there)
                await other.subscribe("late/#", qos=1)
                writer = await network.client(2, "writer")
                mine = await client(late, "mine")
                for number in range(20):
                    await writer.publish(f"news/{number}", b"", 1)
                    await mine.publish(f"late/{number}", b"", 1)
                await until(lambda: len(got) == len(there) == 20)
                await reader.stop()
                await mine.stop()
                for number in range(20, 40):
                    await writer.publish(f"news/{number}", b"", 1)
                late.driver.take(Drain())
                await until(late.left.done, 30)
            await until(lambda: all(states(one) == ["in", "in", "in", "removed"] for one in network.nodes))
            back = await network.client(0, "reader", got, **lasting)
            await until(lambda: len(got) >= 40)
            assert [one.topic for one in got] == [f"news/{number}" for number in range(40)]
            await asyncio.gather(back.stop(), other.stop(), writer.stop())
            async with node_of(config) as again:
                await again.start()  # it knows that it has left, and ends as soon as the others say that they know
                await until(again.left.done, 30)
            async with node_of(newcomer(tmp_path / "same", load_config(network.paths[1]), 3)) as same:
                with pytest.raises(RunError, match=r"node 3 was removed, and no number is used twice; set node.id = 4"):
                    await same.start()

    run(main)


def test_a_newcomer_is_a_leaf_until_the_network_has_made_a_plan_for_it_too(tmp_path):
    async def main() -> None:
        async with Network(tmp_path, "scribe", 3, network={"renew_s": 0.5}) as network:
            async with node_of(newcomer(tmp_path / "late", load_config(network.paths[1]), 3, renew_s=0.5)) as late:
                await late.start()
                await until(lambda: late.broker.membership.is_settled)
                assert late.broker.planes.in_use.system.name == "leaf"
                got: list[Any] = []
                reader = await client(late, "reader", got)
                await reader.subscribe("news/+", qos=1)
                nodes = [*network.nodes, late]
                await until(lambda: all(one.broker.planes.part.made_for == (0, 1, 2, 3) for one in nodes), 30)
                assert {one.broker.planes.in_use.system.name for one in nodes} == {"scribe"}
                assert not late.broker.planes.document()["is_applied"]
                writer = await network.client(2, "writer")
                for number in range(10):
                    await writer.publish(f"news/{number}", b"", 1)
                await until(lambda: len(got) >= 10)
                await reader.stop()
                await writer.stop()
                late.driver.take(Drain())
                await until(late.left.done, 30)
            await until(lambda: all(one.broker.planes.part.made_for == (0, 1, 2) for one in network.nodes), 30)
            assert {one.broker.planes.generation for one in network.nodes} == {4}

    run(main)


def test_a_dead_node_is_removed_and_its_sessions_are_not_lost(tmp_path):
    async def main() -> None:
        async with Network(tmp_path, "mesh", 3) as network:
            got: list[Any] = []
            lasting = {"clean": False, "expiry_s": 3600}
            reader = await network.client(2, "reader", got, **lasting)
            await reader.subscribe("news/+", qos=1)
            await reader.stop()
            writer = await network.client(0, "writer")
            for number in range(10):
                await writer.publish(f"news/{number}", b"", 1)
            with pytest.raises(ConfigError, match=r"expected a node that is dead: this one is connected.*drain 2"):
                network.nodes[0].driver.take(Remove(2))
            await network.nodes.pop().stop()
            await until(lambda: all(2 not in one.broker.links.connected for one in network.nodes))
            network.nodes[0].driver.take(Remove(2))
            await until(lambda: all(states(one) == ["in", "in", "removed"] for one in network.nodes), 30)
            back = await network.client(1, "reader", got, **lasting)
            await until(lambda: len(got) >= 10)
            assert [one.topic for one in got] == [f"news/{number}" for number in range(10)]
            await asyncio.gather(back.stop(), writer.stop())

    run(main)


def test_who_is_not_wanted_is_told_why(tmp_path):
    async def main() -> None:
        async with Network(tmp_path, "mesh", 2) as network:
            like = load_config(network.paths[0])
            async with node_of(newcomer(tmp_path / "taken", like, 1)) as taken:
                told = r"node 1 is a member already, with another data folder; set node.id = 2"
                with pytest.raises(RunError, match=told):
                    await taken.start()
            said: list[str] = []
            async with node_of(newcomer(tmp_path / "wrong", like, 2, key="another"), said.append) as wrong:
                starting = asyncio.ensure_future(wrong.start())
                await until(lambda: any("is the network's key the same on both nodes?" in one for one in said))
                starting.cancel()
                await asyncio.wait((starting,))
            assert all(len(states(one)) == 2 for one in network.nodes)

    run(main)


def test_a_joining_node_has_no_other_peers(tmp_path):
    folder = tmp_path / "late"
    like = NodeConfig()
    with pytest.raises(ConfigError, match=r"links.port: expected a port of its own, and network.key set"):
        newcomer(folder, msgspec.structs.replace(like), 3, key="")
    with pytest.raises(ConfigError, match=r"network.join: expected no other peers and no slice"):
        newcomer(folder, like, 3, slice="slice.json")
