"""A network of the version before, upgraded node by node while clients talk: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import CoterieError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.config import load_config
from tests.interop.fleet import TOKEN, write_configs

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(280)]
ROOT = Path(__file__).resolve().parents[2]
BEFORE = "26aea2e28ebe6794b235174588fdfb9945d1c07e"  # what was published before this version


@pytest.fixture
def older(tmp_path) -> Iterator[Path]:
    """The source folder of the version before."""
    place = tmp_path / "older"
    made = subprocess.run(
        ["git", "worktree", "add", "--detach", str(place), BEFORE], cwd=ROOT, capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"the history is not here: {made.stderr.decode().strip()}")
    try:
        yield place / "src"
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=ROOT, check=True)


def start(path: Path, source: Path) -> subprocess.Popen[bytes]:
    with open(path.parent / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "coterie", "node", "--config", str(path)],
            env={**os.environ, "PYTHONPATH": str(source)}, stdout=log, stderr=log,
        )  # fmt: skip


def health(path: Path) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{load_config(path).admin.port}/health", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return {"ready": False}


async def until_ready(paths: list[Path]) -> None:
    async with asyncio.timeout(60):
        while not all([(await asyncio.to_thread(health, path))["ready"] for path in paths]):
            await asyncio.sleep(0.2)


def test_node_by_node(tmp_path, older):
    paths = write_configs(tmp_path / "net", "mesh", 3)
    ports = [load_config(path).mqtt.port for path in paths]
    processes = [start(path, older) for path in paths]
    got: list[Any] = []
    tries: list[int] = []

    async def client(name: str, sink: list[Any], first: int) -> tuple[MqttClient, list[str]]:
        """At any node that is there."""
        packet = connect_packet(name, clean=False, expiry_s=3600)
        while True:
            for turn in range(3):
                lost: list[str] = []
                one = MqttClient(
                    "127.0.0.1", ports[(first + turn) % 3], packet, sink.append, give_up_s=0.1, on_trouble=lost.append
                )
                try:
                    async with asyncio.timeout(10):
                        await one.start()
                except (CoterieError, TimeoutError):
                    await one.stop()
                    await asyncio.sleep(0.1)
                    continue
                lost.clear()
                return one, lost

    async def listens(over: asyncio.Event) -> None:
        while not over.is_set():
            one, lost = await client("listener", got, 1)
            try:
                async with asyncio.timeout(10):
                    await one.subscribe("news/#", qos=1)
                while not lost and not over.is_set():
                    await asyncio.sleep(0.05)
            except TimeoutError:
                continue
            finally:
                await one.stop()

    async def talks(over: asyncio.Event) -> None:
        one, _ = await client("talker", [], 0)
        while not over.is_set():
            tries.append(0)
            while True:
                tries[-1] += 1
                try:
                    async with asyncio.timeout(5):
                        await one.publish("news/1", str(len(tries) - 1).encode(), 1)
                    break
                except TimeoutError:
                    await one.stop()
                    one, _ = await client("talker", [], 0)
            await asyncio.sleep(0.03)
        await one.stop()

    async def main() -> None:
        over, quiet = asyncio.Event(), asyncio.Event()
        await until_ready(paths)
        hearing = asyncio.ensure_future(listens(quiet))
        await asyncio.sleep(2.0)
        talking = asyncio.ensure_future(talks(over))
        for node in range(3):
            await asyncio.sleep(1.0)
            processes[node].terminate()
            await asyncio.to_thread(processes[node].wait, 30)
            processes[node] = start(paths[node], ROOT / "src")
            await until_ready(paths)
        await asyncio.sleep(1.0)
        over.set()
        await talking
        for _ in range(300):
            if len({one.payload for one in got}) < len(tries):
                await asyncio.sleep(0.1)
        quiet.set()
        await hearing

    try:
        asyncio.run(asyncio.wait_for(main(), 240.0))
    finally:
        for one in processes:
            one.terminate()
        for one in processes:
            one.wait(30)
    heard = Counter(int(one.payload) for one in got)
    assert sorted(heard) == list(range(len(tries)))
    again = {int(one.payload) for one in got if one.dup}
    assert [number for number, times in heard.items() if times > 1 and tries[number] == 1 and number not in again] == []
    logs = "".join((path.parent / "log").read_text() for path in paths)
    assert "did not come about" not in logs, logs
