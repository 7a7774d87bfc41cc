"""SUBACK is true, whatever the system: what is published anywhere after it arrives, once and in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coterie.systems import SYSTEMS as REGISTERED
from tests.interop.fleet import Network, run, until

pytestmark = pytest.mark.interop
NODES, COUNT, GAP_S = 4, 20, 0.03
STREAMS = 6


def since(node: int, taken: list[Any]) -> list[bytes]:
    """What was published for this reader. Older ones may come too: some systems keep them for new tables."""
    return [one.payload for one in taken if one.payload.startswith(b"%d " % node)]


@pytest.mark.parametrize("system", sorted(REGISTERED))
@pytest.mark.parametrize("topic_filter", ["news", "news/#"])
def test_nothing_is_missed_from_the_suback_on(system: str, topic_filter: str, tmp_path: Path) -> None:
    topic = topic_filter.replace("#", "now")

    async def main() -> None:
        async with Network(tmp_path, system, NODES) as network:
            writers = [await network.client(node, f"writer{node}") for node in range(NODES)]
            got: list[Any] = []
            for node in (2, 1):  # one right after the start, one when structures are there
                reader = await network.client(node, f"reader{node}", taken := [])
                await reader.subscribe(topic_filter, qos=1)
                for number in range(COUNT):
                    for at, writer in enumerate(writers):
                        await writer.publish(topic, b"%d %d %d" % (node, at, number), qos=number % 2)
                    await asyncio.sleep(GAP_S)
                await until(lambda: len(taken) >= COUNT * NODES, 5.0)
                got.append(taken)
                await reader.stop()
            await asyncio.sleep(0.2)
            for node, taken in zip((2, 1), got, strict=True):
                streams: dict[bytes, list[int]] = {}
                for payload in since(node, taken):
                    _, at, number = payload.split()
                    streams.setdefault(at, []).append(int(number))
                assert streams == {b"%d" % at: list(range(COUNT)) for at in range(NODES)}, node
            for writer in writers:
                await writer.stop()

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("system", sorted(REGISTERED))
def test_eight_nodes_and_120_messages_at_each_qos(system: str, tmp_path: Path) -> None:
    """A message every 0.1 s from another node, six times after a SUBACK; the first ones right after the start."""

    async def main() -> None:
        async with Network(tmp_path, system, 8) as network:
            got: list[tuple[int, int, int]] = []
            for stream in range(STREAMS):
                reader = await network.client(stream, f"reader{stream}", taken := [])
                writer = await network.client((stream + 3) % 8, f"writer{stream}")
                for qos in (0, 1):
                    await reader.subscribe(f"stream/{stream}/{qos}", qos=qos)
                for number in range(COUNT):
                    for qos in (0, 1):
                        await writer.publish(f"stream/{stream}/{qos}", b"%d" % number, qos=qos)
                    await asyncio.sleep(0.1)
                await until(lambda taken=taken: len(taken) >= 2 * COUNT, 5.0)
                got += [(stream, int(one.topic[-1]), int(one.payload)) for one in taken]
                for client in (reader, writer):
                    await client.stop()
            for qos in (0, 1):
                received = [(stream, number) for stream, at, number in got if at == qos]
                assert received == [(stream, number) for stream in range(STREAMS) for number in range(COUNT)], qos

    run(main)
