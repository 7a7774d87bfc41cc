"""`coterie apply`: a running network changes to plans of any system and back; nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.accounting.price import price
from coterie.broker import planes
from coterie.broker.commands import LoadPlan, StartPlan, SwitchPlan
from coterie.cli.applying import PlannedNetworkOptions, apply_command
from coterie.errors import ConfigError, RunError
from coterie.live.client import MqttClient
from coterie.live.config import load_config
from coterie.live.node import LiveNode
from coterie.model import Publications, Relation, Workload
from coterie.model.store import save_design
from coterie.plans import rollout
from coterie.plans.admin import LiveNetwork
from coterie.plans.orders import PlanPart
from coterie.plans.plan import PlanFacts
from coterie.plans.store import PlanStore
from coterie.systems import SYSTEMS, system_named
from tests.interop.fleet import TOKEN, Network, run, until
from tests.interop.test_placement import PlacedNetwork

pytestmark = pytest.mark.interop
TOPICS = ["a", "b", "c", "d"]


def publish_plan(store: PlanStore, system_name: str, homes: list[int], nodes: int) -> int:
    """A plan that keeps everybody at `homes`, as `coterie watch` would publish it; its nodes are named backwards."""
    interests = Relation.from_rows([[0, 1], [1, 2], [2, 3]], len(TOPICS))
    order = np.array(range(nodes))[::-1]  # the plan's node i is the network's node order[i]
    placed = np.array([int(np.flatnonzero(order == home)[0]) for home in homes], np.int32)
    workload = Workload("test", interests, Publications.of([0, 1], [0, 2], [3.0, 2.0]), placed, nodes)
    design = system_named(system_name).plan(workload, None, 3)

    def write(folder: Path) -> None:
        save_design(design, folder / "design.npz")
        pq.write_table(pa.table({"topic": TOPICS}), folder / "topics.parquet")
        pq.write_table(pa.table({"node": [f"node-{one}" for one in order]}), folder / "nodes.parquet")
        pq.write_table(pa.table({"client": ["client0", "client1", "client2"]}), folder / "clients.parquet")

    facts = PlanFacts(system=system_name, predicted=price(design, workload))
    return store.publish(f"{system_name}{homes}{nodes}", facts, write)


async def apply(plans: Path, network: Network, version: int | None = None, **options: Any) -> None:
    places = [f"127.0.0.1:{node.ports['admin']}" for node in network.nodes]
    at = PlannedNetworkOptions(token=TOKEN, admin=places)
    await asyncio.to_thread(apply_command, plans, version, network=at, as_json=True, **options)


def test_apply_look_and_go_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = PlanStore(tmp_path / "plans")
    first = publish_plan(store, "flooding", [0, 0, 0], 2)
    second = publish_plan(store, "scribe", [0, 1, 1], 2)
    other = publish_plan(store, "scribe", [0, 1, 1], 3)

    async def main() -> None:
        async with PlacedNetwork(tmp_path / "net", 2) as network:
            got: list[list[Any]] = [[], [], []]
            clients = [await network.client(0, f"client{number}", got[number]) for number in range(3)]
            for number, client in enumerate(clients):
                await client.subscribe(*TOPICS[number : number + 2], qos=1)
            with pytest.raises(ConfigError, match="the network's 2 nodes"):
                await apply(store.root, network, other)
            await apply(store.root, network, second, dry_run=True)
            seen = json.loads(capsys.readouterr().out)
            assert seen["clients_to_move"] == 2
            assert (seen["system_now"], seen["system_of_the_plan"]) == ("flooding", "scribe")
            assert seen["bill"]["copies per delivery"][0] is not None
            assert network.nodes[0].broker.planes.generation == 0
            await apply(store.root, network, second)
            assert [node.broker.planes.in_use.slice.version for node in network.nodes] == [second, second]
            assert [node.broker.planes.in_use.system.name for node in network.nodes] == ["scribe", "scribe"]
            await until(lambda: [client.redirects for client in clients] == [0, 1, 1])
            await until(lambda: network.nodes[1].broker.sessions.index.count == 4)
            for topic in TOPICS:
                await clients[0].publish(topic, topic.encode(), qos=1)
            await until(lambda: [len(one) for one in got] == [2, 2, 2])
            capsys.readouterr()
            await apply(store.root, network, status=True)
            bill = json.loads(capsys.readouterr().out)
            assert bill["version"] == second
            assert bill["bill"]["loss.delivered"][1] > 0
            await apply(store.root, network, first)
            assert network.nodes[1].broker.planes.in_use.slice.version == first
            for client in clients:
                await client.stop()

    run(main)


def test_a_plan_that_cannot_be_built_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PlanStore(tmp_path / "plans")
    version = publish_plan(store, "scribe", [0, 1, 1], 2)
    monkeypatch.setattr(rollout, "READY_S", 0.3)
    monkeypatch.setattr(planes, "QUIET_S", 60.0)

    async def main() -> None:
        async with Network(tmp_path / "net", "flooding", 2) as network:
            with pytest.raises(RunError, match="did not build the plan"):
                await apply(store.root, network, version)
            assert [node.broker.planes.next for node in network.nodes] == [None, None]
            assert [node.broker.planes.in_use.system.name for node in network.nodes] == ["flooding", "flooding"]

    run(main)


class Load:
    """A subscriber and a QoS 1 publisher at every node; who got what."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.got: list[Counter[bytes]] = []
        self.wanted: list[list[str]] = []
        self._clients: list[MqttClient] = []
        self._is_over = False

    async def start(self, network: Network) -> None:
        for node in range(len(network.nodes)):
            topics = TOPICS[node : node + 2] if node < 3 else ["#"]  # the last one is nobody the plan knows
            sink: list[Any] = []
            client = await network.client(node, f"client{node}", sink)
            await client.subscribe(*topics, qos=1)
            count: Counter[bytes] = Counter()
            client.on_message = lambda message, count=count: count.update([message.payload])  # type: ignore[misc]
            self.got.append(count)
            self.wanted.append(topics)
            self._clients.append(client)
        self._tasks = [asyncio.create_task(self._publish(node, one)) for node, one in enumerate(self._clients)]

    async def _publish(self, node: int, client: MqttClient) -> None:
        draw, number = Random(node), 0
        while not self._is_over:
            topic = draw.choice(TOPICS)
            payload = f"{topic} {node} {number}".encode()
            number += 1
            await client.publish(topic, payload, qos=1)
            self.sent.append((topic, payload))
            await asyncio.sleep(0.02)

    def missing(self) -> int:
        return sum(
            payload not in count
            for count, wanted in zip(self.got, self.wanted, strict=True)
            for topic, payload in self.sent
            if topic in wanted or wanted == ["#"]
        )

    async def finish(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        await until(lambda: self.missing() == 0, 15.0)
        for client in self._clients:
            await client.stop()

    @property
    def twice(self) -> int:
        return sum(count - 1 for one in self.got for count in one.values())


@pytest.mark.parametrize("system", sorted(set(SYSTEMS) - {"scribe"}))
def test_no_message_is_lost_or_doubled_while_switching(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Scribe to a plan of another system and back, under load; recovery is hardly ever needed."""
    monkeypatch.setattr(planes, "DRAIN_S", 1.0)
    store = PlanStore(tmp_path / "plans")
    there = publish_plan(store, system, [0, 1, 2], 4)
    back = publish_plan(store, "scribe", [0, 1, 2], 4)

    async def main() -> None:
        async with Network(tmp_path / "net", "scribe", 4, recovery={"audit_s": 600.0}) as network:
            load = Load()
            await load.start(network)
            for version in (there, back):
                await apply(store.root, network, version)
                await asyncio.sleep(1.5)
            await load.finish()
            assert len(load.sent) > 100
            assert load.twice == 0
            assert [node.broker.planes.generation for node in network.nodes] == [2, 2, 2, 2]
            recovered = sum(node.broker.recovery.recovered_count for node in network.nodes)
            deliveries = sum(len(one) for one in load.got)
            assert recovered <= deliveries // 50

    run(main)


def test_who_was_down_during_the_switch_follows_when_it_is_back(tmp_path: Path) -> None:
    """Loaded plans survive a restart, the word that one is in force is passed on, and so is a plan that is in force."""
    store = PlanStore(tmp_path / "plans")
    version = publish_plan(store, "flooding", [0, 1, 2], 3)

    async def main() -> None:
        async with Network(tmp_path / "net", "scribe", 3) as network:

            async def again(node: int) -> LiveNode:
                await network.nodes[node].stop()
                config = load_config(network.paths[node])
                fresh = LiveNode(config, system_named("scribe"), system_named=system_named)
                network.nodes[node] = fresh
                return fresh

            live = LiveNetwork([("127.0.0.1", node.ports["admin"]) for node in network.nodes], TOKEN)
            plan = await asyncio.to_thread(rollout.fit, store.load(version), live)
            for node, slice_ in zip(network.nodes, plan.slices, strict=True):
                part = PlanPart(generation=1, slice=slice_, settings=plan.plan.settings)
                node.driver.take(LoadPlan(part))
            sleeper = await again(2)
            for node in network.nodes[:2]:
                node.driver.take(StartPlan(1))
            network.nodes[0].driver.take(SwitchPlan(1))
            await until(lambda: network.nodes[1].broker.planes.generation == 1)
            await sleeper.start()
            await until(lambda: sleeper.broker.planes.generation == 1)
            back = await again(1)
            await back.start()
            assert back.broker.planes.in_use.system.name == "flooding"
            got: list[Any] = []
            reader = await network.client(2, "reader", got)
            await reader.subscribe("a", qos=1)
            writer = await network.client(1, "writer")
            await until(lambda: back.broker.links.is_connected(2))
            await writer.publish("a", b"x", qos=1)
            await until(lambda: len(got) == 1)
            await reader.stop()
            await writer.stop()

    run(main)


def test_orders_out_of_order_are_refused(tmp_path: Path) -> None:
    store = PlanStore(tmp_path / "plans")
    version = publish_plan(store, "scribe", [0, 1, 1], 2)

    async def main() -> None:
        async with Network(tmp_path / "net", "flooding", 2) as network:
            places = [("127.0.0.1", node.ports["admin"]) for node in network.nodes]
            with pytest.raises(RunError, match="wants its admin token: give --token"):
                await asyncio.to_thread(rollout.fit, store.load(version), LiveNetwork(places))
            with pytest.raises(RunError, match="another admin token"):
                await asyncio.to_thread(rollout.fit, store.load(version), LiveNetwork(places, "guessed"))
            plan = await asyncio.to_thread(rollout.fit, store.load(version), LiveNetwork(places, TOKEN))
            one = network.nodes[0].broker.planes
            with pytest.raises(ConfigError, match="the one that was loaded last"):
                one.switch(1)
            with pytest.raises(ConfigError, match="the part of node 0"):
                one.load(PlanPart(generation=1, slice=plan.slices[1]))
            with pytest.raises(ConfigError, match="more than 0"):
                one.load(PlanPart(generation=0, slice=plan.slices[0]))
            one.load(PlanPart(generation=4, slice=plan.slices[0]))
            one.drop()
            assert one.document()["next"] is None
            assert not one.hear(7)
            assert one.outdated_by == 7

    run(main)
