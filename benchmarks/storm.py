"""Nodes are killed, links cut and three nodes partitioned while publishers run; then everything is counted.

Run `python benchmarks/storm.py` (options: --nodes 8 --system scribe --rounds 6 --seed 0). Every node is a process with
the default configuration. Each has a lasting subscriber and a publisher; what a publisher was told (PUBACK) must reach
every subscriber that had its SUBACK. A round kills one node with kill -9 and starts it again, cuts one link, and cuts
three nodes off from the others; in between the network has some seconds. With `--gone` two nodes are killed at once at
the end and one of them never comes back: its clients go to another node and find their sessions there. What operators
do on an ordinary day: with `--rolling` every node is stopped and started again in turn, with `--apply mesh coterie` the
running network changes over to a plan of each of these systems. Printed: what was acknowledged, what was owed, what was
missing when the last fault was over, and what in the end is missing, out of order, or (with `--qos 2`) there twice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa

import coterie
from brokers import free_base
from coterie.api.logs import Log
from coterie.api.places import ADMIN_OFFSET
from coterie.api.running import NodeProcesses, arranged
from coterie.errors import RunError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.tokens import TOKEN_FILE
from coterie.model.parameters import settings_of
from coterie.mqtt.packets import Publish
from coterie.plans.admin import ask

TOKEN = "the token of the storm"
TOPICS = [f"t/{number}" for number in range(10)]


class Traffic:
    """A lasting subscriber and a publisher at every node."""

    def __init__(self, base: int, nodes: int, qos: int, draw: Random) -> None:
        self.acknowledged: list[tuple[str, bytes]] = []
        self.qos = qos
        self.got: list[dict[bytes, int]] = [{} for _ in range(nodes)]  # in the order of the first time
        self.filters = [["t/#"] if node == 0 else draw.sample(TOPICS, 4) for node in range(nodes)]
        self._base, self._draw, self._is_over = base, draw, False
        self._clients: list[MqttClient] = []
        self._of: dict[int, list[MqttClient]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for node, filters in enumerate(self.filters):
            reader = self._client(node, "reader", self.got[node])
            await reader.start()
            await reader.subscribe(*filters, qos=self.qos)
        for node in range(len(self.filters)):
            writer = self._client(node, "writer", {})
            await writer.start()
            self._tasks.append(asyncio.create_task(self._publish(node, writer)))

    async def move(self, node: int, to: int) -> None:
        """The clients of a node that is gone: its reader appears elsewhere and subscribes to nothing again."""
        self._tasks.pop(node).cancel()
        reader, writer = self._of.pop(node)
        await writer.stop()
        reader.subscriptions.clear()
        for _ in range(30):  # while too many nodes are silent nobody can say where the session is
            try:
                await reader.go_to("127.0.0.1", self._base + to)
            except RunError:
                await asyncio.sleep(2.0)
            else:
                return

    def _client(self, node: int, kind: str, got: dict[bytes, int]) -> MqttClient:
        def take(one: Publish) -> None:
            got[one.payload] = got.get(one.payload, 0) + 1

        packet = connect_packet(f"{kind}{node}", clean=False, expiry_s=3600, keep_alive_s=10)
        client = MqttClient(
            "127.0.0.1",
            self._base + node,
            packet,
            take,
            give_up_s=600,
        )
        self._clients.append(client)
        self._of.setdefault(node, []).append(client)
        return client

    async def _publish(self, node: int, writer: MqttClient) -> None:
        number = 0
        while not self._is_over:
            topic = self._draw.choice(TOPICS)
            payload = f"{topic} {node} {number}".encode()
            number += 1
            await writer.publish(topic, payload, qos=self.qos)
            self.acknowledged.append((topic, payload))
            await asyncio.sleep(0.02)

    def owed(self) -> list[tuple[int, bytes]]:
        return [
            (node, payload)
            for node, filters in enumerate(self.filters)
            for topic, payload in self.acknowledged
            if topic in filters or node == 0
        ]

    def missing(self) -> int:
        return sum(payload not in self.got[node] for node, payload in self.owed())

    def twice(self) -> int:
        return sum(count - 1 for one in self.got for count in one.values())

    def out_of_order(self) -> int:
        """Of one publisher on one topic, the first time of each."""
        count = 0
        for got in self.got:
            last: dict[tuple[bytes, bytes], int] = {}
            for payload in got:
                topic, writer, number = payload.split()
                count += int(number) < last.get((topic, writer), -1)
                last[topic, writer] = max(int(number), last.get((topic, writer), -1))
        return count

    def log(self) -> Log:
        """Who wants and says what, as a plan is made of it."""
        nodes = range(len(self.filters))
        wants = [(f"reader{node}", one) for node, filters in enumerate(self.filters) for one in filters]
        says = [(f"writer{node}", topic) for node in nodes for topic in TOPICS]
        at = [(f"{kind}{node}", f"node-{node}") for kind in ("reader", "writer") for node in nodes]
        return coterie.read_log(
            pa.table(dict(zip(("subscriber", "topic"), zip(*wants, strict=True), strict=True))),
            publications=pa.table(dict(zip(("publisher", "topic"), zip(*says, strict=True), strict=True))),
            attachments=pa.table(dict(zip(("subscriber", "node"), zip(*at, strict=True), strict=True))),
        )

    async def finish(self) -> None:
        self._is_over = True
        await asyncio.wait(self._tasks, timeout=60)

    async def stop(self) -> None:
        for client in self._clients:
            await client.stop()


class Faults:
    """What is done to the nodes; everything that is done is undone."""

    def __init__(self, fleet: NodeProcesses, base: int, nodes: int, draw: Random) -> None:
        self.done: Counter[str] = Counter()
        self._fleet, self._base, self._nodes, self._draw = fleet, base, nodes, draw

    def slay(self, victim: int) -> None:
        pid = next(pid for pid, node in self._fleet.pids.items() if node == victim)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        del self._fleet.pids[pid]

    async def kill(self) -> None:
        victim = self._draw.randrange(self._nodes)
        self.slay(victim)
        await asyncio.sleep(1.0)
        self._fleet.start_node(victim)
        self.done["kill -9 and restart"] += 1

    async def roll(self) -> None:
        """Every node in turn, as an upgrade does it."""
        for node in range(self._nodes):
            pid = next(pid for pid, one in self._fleet.pids.items() if one == node)
            os.kill(pid, signal.SIGTERM)
            await asyncio.to_thread(os.waitpid, pid, 0)
            del self._fleet.pids[pid]
            self._fleet.start_node(node)
            await asyncio.to_thread(self._fleet.wait_healthy, 60.0)
            await asyncio.sleep(1.0)
            self.done["stopped and started again"] += 1

    async def apply(self, log: Log, system: str) -> None:
        plan = await asyncio.to_thread(coterie.plan, log, system=system)
        net = coterie.connect(self._nodes, base_port=self._base, token=TOKEN)
        await asyncio.to_thread(net.apply, plan)
        self.done["changed over to a new plan"] += 1
        await asyncio.sleep(5.0)

    async def kill_two(self) -> int:
        """Returns the one that never comes back."""
        back, gone = self._draw.sample(range(self._nodes), 2)
        self.slay(back)
        self.slay(gone)
        await asyncio.sleep(1.0)
        self._fleet.start_node(back)
        self.done["two killed at once, one for good"] += 1
        return gone

    async def cut(self) -> None:
        one, other = self._draw.sample(range(self._nodes), 2)
        await self._apart([one], [other], 3.0)
        self.done["link cut"] += 1

    async def partition(self) -> None:
        lost = self._draw.sample(range(self._nodes), 3)
        await self._apart(lost, [node for node in range(self._nodes) if node not in lost], 6.0)
        self.done["three nodes cut off"] += 1

    async def _apart(self, some: list[int], others: list[int], for_s: float) -> None:
        for one, away in [*((node, others) for node in some), *((node, some) for node in others)]:
            await self._block(one, away)
        await asyncio.sleep(for_s)
        for one in [*some, *others]:
            await self._block(one, [])

    async def _block(self, node: int, peers: list[int]) -> None:
        path = f"/block?peers={','.join(map(str, peers))}"
        await asyncio.to_thread(ask, "127.0.0.1", self._base + ADMIN_OFFSET + node, path, TOKEN, "POST")


async def storm(
    fleet: NodeProcesses, base: int, nodes: int, chosen: argparse.Namespace
) -> list[tuple[str, float]]:  # fmt: skip
    draw, rounds, with_gone = Random(chosen.seed), chosen.rounds, chosen.gone
    traffic, faults = Traffic(base, nodes, chosen.qos, draw), Faults(fleet, base, nodes, draw)
    await traffic.start()
    start_s = time.perf_counter()
    if chosen.rolling:
        await asyncio.sleep(2.0)
        await faults.roll()
    for system in chosen.apply:
        await asyncio.sleep(2.0)
        await faults.apply(traffic.log(), system)
    for _ in range(rounds):
        for fault in (faults.kill, faults.cut, faults.partition):
            await asyncio.sleep(2.0)
            await fault()
    gone = -1
    if with_gone:
        await asyncio.sleep(2.0)
        gone = await faults.kill_two()
        await traffic.move(gone, (gone + 1) % nodes)
        await asyncio.sleep(5.0)
    stormy_s = time.perf_counter() - start_s
    await traffic.finish()
    at_once = traffic.missing()
    healed_s = await until(lambda: traffic.missing() == 0, 180.0)
    totals = [
        ask("127.0.0.1", base + ADMIN_OFFSET + node, "/totals", TOKEN) or {} for node in range(nodes) if node != gone
    ]
    await traffic.stop()
    return [
        *((name, count) for name, count in faults.done.items()),
        ("seconds of storm", round(stormy_s, 1)),
        ("messages acknowledged to publishers", len(traffic.acknowledged)),
        ("deliveries owed", len(traffic.owed())),
        ("missing when the last fault was over", at_once),
        (
            "recovered by comparing logs, so far as nodes still count",
            sum(one.get("recovered_total", 0) for one in totals),
        ),
        ("seconds until nothing was missing", round(healed_s, 1)),
        (f"delivered more than once at QoS {chosen.qos}" + (" (allowed)" if chosen.qos < 2 else ""), traffic.twice()),
        ("out of order", traffic.out_of_order()),
        ("missing in the end", traffic.missing()),
    ]


async def until(condition: Callable[[], bool], limit_s: float) -> float:
    start_s = time.perf_counter()
    while not condition() and time.perf_counter() - start_s < limit_s:
        await asyncio.sleep(0.1)
    return time.perf_counter() - start_s


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=8)
    arguments.add_argument("--system", default="scribe")
    arguments.add_argument("--set", nargs="*", default=[], help="parameters of the system, NAME=VALUE")
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--gone", action="store_true", help="kill two at once in the end, one of them for good")
    arguments.add_argument("--rolling", action="store_true", help="stop and start every node in turn")
    arguments.add_argument("--apply", nargs="*", default=[], metavar="SYSTEM", help="change over to plans of these")
    arguments.add_argument("--qos", type=int, default=1, choices=(1, 2))
    chosen = arguments.parse_args()
    settings = settings_of(chosen.set, "--set")
    base = free_base(chosen.nodes)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / TOKEN_FILE).write_text(TOKEN)
        at = base, Path(folder), "127.0.0.1"
        fleet = arranged(None, chosen.nodes, chosen.system, settings, *at, chosen.seed)
        try:
            fleet.start()
            fleet.wait_healthy(120.0)
            rows = asyncio.run(storm(fleet, base, chosen.nodes, chosen))
        finally:
            fleet.stop()
    print(f"{chosen.nodes} nodes of {chosen.system}")
    for name, value in rows:
        print(f"{name:58} {value:>12,}")
    promised = rows[-3:] if chosen.qos == 2 else rows[-2:]
    sys.exit(1 if any(value for _, value in promised) else 0)


if __name__ == "__main__":
    main()
