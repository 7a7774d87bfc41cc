"""kill -9, cut links and partitions while publishers run: nothing acknowledged is lost, and QoS 2 comes once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from coterie.broker.commands import Block
from coterie.live.client import MqttClient, connect_packet
from tests.interop.fleet import Network, Processes, run, until, write_configs

pytestmark = pytest.mark.interop
BRISK = {
    "scribe": {"link_heartbeat_s": 1.0, "tree_heartbeat_s": 1.0},
    "flooding": {"link_heartbeat_s": 1.0},
    "mesh": {"link_heartbeat_s": 1.0},
    "star": {"link_heartbeat_s": 1.0, "crossing": "wanted"},
}


class Traffic:
    """A lasting subscriber and a publisher at every node; what was acknowledged, and what arrived."""

    def __init__(self, ports: list[int], qos: int) -> None:
        self.topics = [f"t/{number}" for number in range(5)]
        self.acknowledged: list[tuple[str, bytes]] = []
        self.got: list[Counter[bytes]] = [Counter() for _ in ports]
        self.clients: list[MqttClient] = []
        self._ports, self._qos = ports, qos
        self._is_over = False
        self._random = Random(7)
        self.filters = [["t/#"] if node == 0 else self._random.sample(self.topics, 3) for node in range(len(ports))]

    async def start(self) -> None:
        for node, port in enumerate(self._ports):
            count = self.got[node]
            reader = self._client(port, f"reader{node}", count)
            await reader.start()
            await reader.subscribe(*self.filters[node], qos=self._qos)
        self._tasks = []
        for node, port in enumerate(self._ports):
            writer = self._client(port, f"writer{node}", Counter())
            await writer.start()
            self._tasks.append(asyncio.create_task(self._publish(node, writer)))

    def _client(self, port: int, name: str, count: Counter[bytes]) -> MqttClient:
        def take(message: object) -> None:
            count[message.payload] += 1  # type: ignore[attr-defined]

        packet = connect_packet(name, clean=False, expiry_s=3600, keep_alive_s=5)
        client = MqttClient("127.0.0.1", port, packet, take, give_up_s=60)
        self.clients.append(client)
        return client

    async def _publish(self, node: int, writer: MqttClient) -> None:
        number = 0
        while not self._is_over:
            topic = self._random.choice(self.topics)
            payload = f"{topic} {node} {number}".encode()
            number += 1
            await writer.publish(topic, payload, self._qos)
            self.acknowledged.append((topic, payload))
            await asyncio.sleep(0.01)

    def missing(self) -> int:
        return sum(
            payload not in self.got[node]
            for node, filters in enumerate(self.filters)
            for topic, payload in self.acknowledged
            if node == 0 or topic in filters
        )

    async def finish(self) -> None:
        self._is_over = True
        await asyncio.wait(self._tasks, timeout=20)
        await until(lambda: self.missing() == 0, 30.0)
        for client in self.clients:
            await client.stop()

    @property
    def duplicates(self) -> int:
        return sum(count - 1 for one in self.got for count in one.values())


@pytest.mark.parametrize(
    ("system", "qos"), [("scribe", 2), ("star", 1), pytest.param("flooding", 1, marks=pytest.mark.slow)]
)
def test_kill_and_restart_loses_nothing(system: str, qos: int, tmp_path: Path) -> None:
    processes = Processes(write_configs(tmp_path, system, 3, settings=BRISK[system]))

    async def main() -> None:
        for node in range(3):
            processes.start(node)
        await processes.healthy([0, 1, 2])
        traffic = Traffic([config.mqtt.port for config in processes.configs], qos)
        await traffic.start()
        for victim in (1, 0):
            await asyncio.sleep(0.5)
            processes.kill(victim)
            await asyncio.sleep(0.3)
            processes.start(victim)
            await processes.healthy([victim])
        await asyncio.sleep(0.5)
        await traffic.finish()
        assert len(traffic.acknowledged) > 50
        if qos == 2:
            assert traffic.duplicates == 0

    try:
        run(main)
    finally:
        processes.stop()


@pytest.mark.parametrize("system", ["scribe", "flooding", "mesh"])
def test_cut_links_and_a_partition_that_heals(system: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, system, 4, settings=BRISK[system]) as network:
            traffic = Traffic([network.port(node) for node in range(4)], 1)
            await traffic.start()
            drivers = [node.driver for node in network.nodes]
            for cut in ({0: [1]}, {0: [2, 3], 1: [2, 3], 2: [0, 1], 3: [0, 1]}):
                await asyncio.sleep(0.4)
                for node, others in cut.items():
                    drivers[node].take(Block(tuple(others)))
                await asyncio.sleep(1.0)
                for node in cut:
                    drivers[node].take(Block())
            await asyncio.sleep(1.0)
            await traffic.finish()
            assert traffic.duplicates == 0
            assert sum(node.broker.recovery.recovered_count for node in network.nodes) > 0

    run(main)
