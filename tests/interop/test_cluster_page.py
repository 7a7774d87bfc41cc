"""docs/howto/cluster.md word for word, while clients talk: they notice reconnects and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import CoterieError
from coterie.live.client import MqttClient, connect_packet
from tests.docs.pages import DOCS, blocks_of, with_command

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240), pytest.mark.xdist_group("cluster page")]
HOSTS = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")


class Somebody:
    """A client of standard make: it tries one host after the other, and wants its session back."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.got: list[Any] = []
        self.connects = 0
        self._troubles: list[str] = []

    def is_lost(self, client: MqttClient) -> bool:
        return bool(self._troubles) or client._task is None or client._task.done()

    async def connected(self) -> MqttClient:
        word = (self._folder / "cluster" / "passwords.txt").read_text().split()[1]
        context = ssl.create_default_context(cafile=str(self._folder / "cluster" / "authority" / "authority.pem"))
        packet = connect_packet(self._name, username="ann", password=word, clean=False, expiry_s=3600)
        while True:
            for host in HOSTS:
                self._troubles.clear()
                client = MqttClient(
                    host, 8883, packet, self.got.append, tls=context, give_up_s=0.1, allowed_hosts=HOSTS,
                    on_trouble=self._troubles.append,
                )  # fmt: skip
                try:
                    async with asyncio.timeout(15):
                        await client.start()
                except (CoterieError, TimeoutError, OSError):
                    await client.stop()
                    await asyncio.sleep(0.1)
                    continue
                self._troubles.clear()
                self.connects += 1
                return client


async def listens(one: Somebody, over: asyncio.Event) -> None:
    while not over.is_set():
        client = await one.connected()
        try:
            async with asyncio.timeout(10):
                await client.subscribe("news/#", qos=1)
            while not one.is_lost(client) and not over.is_set():
                await asyncio.sleep(0.05)
        except TimeoutError:  # it was sent away in the middle; it comes again
            continue
        finally:
            await client.stop()


async def talks(one: Somebody, over: asyncio.Event) -> list[int]:
    """Numbers, one after the other, each until it is acknowledged."""
    number, tries = 0, []
    client = await one.connected()
    while not over.is_set():
        tries.append(0)
        while True:
            tries[number] += 1
            try:
                async with asyncio.timeout(5):
                    await client.publish("news/1", str(number).encode(), 1)
                break
            except TimeoutError:
                await client.stop()
                client = await one.connected()
        number += 1
        await asyncio.sleep(0.05)
    await client.stop()
    return tries


def test_the_page_word_for_word(tmp_path):
    for address in HOSTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, 8883))
            except OSError:
                pytest.skip(f"{address}:8883 cannot be used here")
    script = "\n".join(block.text for block in blocks_of(DOCS / "howto" / "cluster.md") if block.language == "sh")
    listener, talker = Somebody(tmp_path, "listener"), Somebody(tmp_path, "talker")
    said: list[str] = []

    async def main() -> tuple[list[int], int]:
        shell = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", script, cwd=tmp_path, env=with_command(tmp_path),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        over, quiet = asyncio.Event(), asyncio.Event()
        reading = asyncio.ensure_future(_read(shell, said))
        while "hello" not in "".join(said) and "it works" not in "".join(said):
            assert shell.returncode is None, "".join(said)
            await asyncio.sleep(0.1)
        hearing = asyncio.ensure_future(listens(listener, quiet))
        while not listener.connects:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)
        talking = asyncio.ensure_future(talks(talker, over))
        code = await shell.wait()
        await reading
        over.set()
        tries = await talking
        for _ in range(300):  # what is missing is told below
            if len({one.payload for one in listener.got}) < len(tries):
                await asyncio.sleep(0.1)
        quiet.set()
        await hearing
        await asyncio.sleep(1.0)  # until TLS has said goodbye
        return tries, code

    try:
        tries, code = asyncio.run(asyncio.wait_for(main(), 200.0))
        assert code == 0, "".join(said)
    finally:
        for path in tmp_path.glob("*.pid"):
            try:
                os.kill(int(path.read_text()), signal.SIGTERM)
            except ProcessLookupError:
                continue
    table = "".join(said).rpartition("members, list")[2]
    assert [line.split()[-2] for line in table.splitlines()[2:6]] == ["in", "removed", "removed", "in"], "".join(said)
    heard = Counter(int(one.payload) for one in listener.got)
    assert sorted(heard) == list(range(len(tries)))
    twice = [number for number, times in heard.items() if times > 1 and not one_more(tries, number, listener)]
    assert twice == []
    assert len(tries) > 20


def one_more(tries: list[int], number: int, listener: Somebody) -> bool:
    """Said again by who got no answer; or by the node, marked as such, to who came back before it had answered."""
    return tries[number] > 1 or any(one.dup for one in listener.got if int(one.payload) == number)


async def _read(shell: asyncio.subprocess.Process, said: list[str]) -> None:
    assert shell.stdout is not None
    while line := await shell.stdout.readline():
        said.append(line.decode())
