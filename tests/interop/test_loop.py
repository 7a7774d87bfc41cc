"""The loop closed with real processes: nodes journal, `coterie watch` plans, the nodes switch, the bill is compared."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coterie.api.places import ADMIN_OFFSET
from coterie.live.client import MqttClient, connect_packet
from coterie.live.tokens import TOKEN_FILE, read_token
from coterie.plans.admin import ask
from tests.interop.test_up import free_base

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]
NODES, MODES, PER_MODE, TOPICS_PER_MODE = 4, 4, 6, 5
LIMIT_S = 240.0


class Crowd:
    """Clients in modes of interest, scattered over the nodes, who publish on their topics and follow redirects."""

    def __init__(self, base: int) -> None:
        self.acknowledged: list[tuple[str, bytes]] = []
        self.got: list[Counter[bytes]] = []
        self.clients: list[MqttClient] = []
        self.wanted: list[list[str]] = []
        draw = Random(5)
        for number in range(MODES * PER_MODE):
            mode = number % MODES
            other = draw.choice([one for one in range(MODES) if one != mode])
            own = [f"mode{mode}/{one}" for one in draw.sample(range(TOPICS_PER_MODE), 3)]
            self.wanted.append([*own, f"mode{other}/{draw.randrange(TOPICS_PER_MODE)}"])
            count: Counter[bytes] = Counter()
            self.got.append(count)
            packet = connect_packet(f"client{number}", keep_alive_s=10)
            port = base + draw.randrange(NODES)
            self.clients.append(MqttClient("127.0.0.1", port, packet, self._sink(count), give_up_s=60))

    @staticmethod
    def _sink(count: Counter[bytes]) -> Any:
        return lambda message: count.update([message.payload])

    async def start(self) -> None:
        for client, topics in zip(self.clients, self.wanted, strict=True):
            await client.start()
            await client.subscribe(*topics, qos=1)

    async def publish(self, rounds: int) -> None:
        for _ in range(rounds):
            await asyncio.gather(*(self._one(number) for number in range(len(self.clients))))
            await asyncio.sleep(0.1)

    async def _one(self, number: int) -> None:
        topic = self.wanted[number][len(self.acknowledged) % 4]
        payload = f"{topic} {number} {time.monotonic_ns()}".encode()
        await self.clients[number].publish(topic, payload, qos=1)
        self.acknowledged.append((topic, payload))

    def missing(self) -> int:
        return sum(
            payload not in got
            for got, wanted in zip(self.got, self.wanted, strict=True)
            for topic, payload in self.acknowledged
            if topic in wanted
        )


def coterie(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "coterie", *arguments]


def bill_of(plans: str, base: int, data: str) -> str:
    command = coterie("apply", plans, "--base-port", str(base), "--status", "--over", "8", "--data", data)
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def plans_in_force(base: int, data: Path) -> list[tuple[int, str]]:
    documents = [
        ask("127.0.0.1", base + ADMIN_OFFSET + node, "/plan", read_token(data / TOKEN_FILE)) for node in range(NODES)
    ]
    return [(one["generation"], one["system"]) for one in documents]


def test_nodes_journal_the_planner_plans_and_the_nodes_switch(tmp_path: Path) -> None:
    base = free_base()
    plans, data = str(tmp_path / "plans"), tmp_path / "net"
    network = subprocess.Popen(
        coterie("up", "--nodes", str(NODES), "--system", "flooding", "--base-port", str(base), "--data", str(data),
                "--follow", plans), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert network.stdout is not None
    assert "nodes of" in network.stdout.readline()
    log = open(tmp_path / "watch.log", "w")  # noqa: SIM115
    watch = subprocess.Popen(
        coterie("watch", str(data / "journal"), "--out", plans, "--window", "5", "--period", "10", "--late", "1",
                "--every", "2", "--spark", "local[1]", "-s", "scribe", "-s", "coterie"),
        stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip

    async def main() -> tuple[str, Crowd]:
        crowd = Crowd(base)
        await crowd.start()
        deadline_s = time.monotonic() + LIMIT_S
        while min(plans_in_force(base, data))[0] == 0:
            assert time.monotonic() < deadline_s, (tmp_path / "watch.log").read_text()
            assert watch.poll() is None, (tmp_path / "watch.log").read_text()
            await crowd.publish(10)
        await crowd.publish(50)  # by then whoever the plan wants elsewhere is there
        status = asyncio.create_task(asyncio.to_thread(bill_of, plans, base, str(data)))
        while not status.done():
            await crowd.publish(5)
        while crowd.missing() and time.monotonic() < deadline_s + 60:
            await asyncio.sleep(0.1)
        for client in crowd.clients:
            await client.stop()
        return await status, crowd

    try:
        with asyncio.Runner() as runner:
            status, crowd = runner.run(main())
        sys.stdout.write((tmp_path / "watch.log").read_text())
        sys.stdout.write(status)
        sys.stdout.write(f"{plans_in_force(base, data)}\n{sum(one.redirects for one in crowd.clients)} redirects\n")
        assert "Traceback" not in (tmp_path / "watch.log").read_text()
        assert crowd.missing() == 0
        assert max(max(one.values()) for one in crowd.got) == 1
        ratio = float(next(line for line in status.splitlines() if line.startswith("copies per delivery")).split()[-1])
        assert ratio == pytest.approx(1.0, abs=0.1)
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=30)
        network.send_signal(signal.SIGINT)
        network.communicate(timeout=30)
        log.close()
