"""A ninth node into a running network of eight, and one that leaves, under load, whatever the system: a new plan."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.accounting.tally import COPIES
from coterie.broker.commands import Drain
from coterie.live.client import MqttClient
from coterie.live.config import load_config
from coterie.live.node import LiveNode
from coterie.systems import SYSTEMS as REGISTERED
from tests.interop.fleet import Network, run, until
from tests.interop.test_members import client, newcomer, node_of, states

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(200)]
NODES, LEAVER, LATE = 8, 3, 8
READERS, WRITERS = (0, 2, 5, 7), (1, 4, 6)
RENEW_S = 2.0
TOPICS = 3  # order is promised in each
LASTING = {"clean": False, "expiry_s": 3600}


async def writing(one: MqttClient, name: str, over: asyncio.Event) -> int:
    """Numbers until it is over; how many were acknowledged, each on the first try."""
    number = 0
    while not over.is_set():
        await one.publish(f"t/{number % TOPICS}", f"{name} {number}".encode(), 1)
        number += 1
        await asyncio.sleep(0.02)
    return number


def of(name: str, got: list[Any]) -> list[int]:
    return [int(one.payload.split()[1]) for one in got if one.payload.decode().startswith(f"{name} ")]


async def changed_over(nodes: list[LiveNode]) -> None:
    """The network has made a plan for those who are members now."""
    numbers = tuple(sorted(node.config.node.id for node in nodes))
    await until(lambda: all(node.broker.planes.part.made_for == numbers for node in nodes), 60)


def copies(nodes: list[LiveNode]) -> float:
    return sum(getattr(node.broker.planes.in_use.tally, name) for node in nodes for name in COPIES)


@pytest.mark.parametrize("system", sorted(REGISTERED))
def test_nothing_is_lost_and_nothing_comes_twice(system, tmp_path):
    async def main() -> None:
        async with Network(tmp_path, system, NODES, network={"renew_s": RENEW_S}) as network:
            got: dict[str, list[Any]] = {f"r{node}": [] for node in READERS}
            for node in READERS:
                reader = await network.client(node, f"r{node}", got[f"r{node}"], **LASTING)
                await reader.subscribe("t/#", qos=1)
            sleeper = await network.client(LEAVER, "sleeper", got.setdefault("sleeper", []), **LASTING)
            await sleeper.subscribe("t/#", qos=1)
            await sleeper.stop()
            writers = {f"w{node}": await network.client(node, f"w{node}") for node in WRITERS}
            over = asyncio.Event()
            talking = {name: asyncio.ensure_future(writing(one, name, over)) for name, one in writers.items()}
            await asyncio.sleep(0.5)
            async with node_of(
                newcomer(tmp_path / "late", load_config(network.paths[1]), LATE, renew_s=RENEW_S)
            ) as late:
                await late.start()
                await until(lambda: late.broker.membership.is_settled, 30)
                reader = await client(late, "late", got.setdefault("late", []), **LASTING)
                await reader.subscribe("t/#", qos=1)
                writers["w8"] = await client(late, "w8")
                talking["w8"] = asyncio.ensure_future(writing(writers["w8"], "w8", over))
                await asyncio.sleep(0.5)
                leaver = network.nodes.pop(LEAVER)
                leaver.driver.take(Drain())
                await until(leaver.left.done, 60)
                await leaver.stop()
                nodes = [*network.nodes, late]
                await until(lambda: all(states(one)[LEAVER] == "removed" for one in nodes), 30)
                back = await network.client(0, "sleeper", got["sleeper"], **LASTING)
                await changed_over(nodes)
                await asyncio.sleep(0.5)
                over.set()
                sent = {name: await one for name, one in talking.items()}
                await until(
                    lambda: all(len(of(n, g)) >= c for n, c in sent.items() for r, g in got.items()
                                if r != "late"), 60
                )  # fmt: skip
                await asyncio.sleep(0.5)
                for reader_name, taken in got.items():
                    for name, count in sent.items():
                        for topic in range(TOPICS):
                            heard = [one for one in of(name, taken) if one % TOPICS == topic]
                            first = heard[0] if reader_name == "late" else topic
                            assert heard == list(range(first, count, TOPICS)), (reader_name, name)
                if system in ("mesh", "star"):
                    await bill(nodes, writers["w1"], system)
                for one in (reader, back, *writers.values()):
                    await one.stop()

    run(main, 180.0)


async def bill(nodes: list[LiveNode], writer: MqttClient, system: str) -> None:
    """What a message costs by the new plan: a copy to each of the five nodes that want it.

    A star sends it to all of them, on the channel of its topic and on that of the filter.
    """
    await asyncio.sleep(11.0)  # the old plan passes on what is under way for ten seconds
    before = copies(nodes)
    for _ in range(10):
        await writer.publish("t/0", b"bill 0", 1)
    await asyncio.sleep(1.0)
    assert copies(nodes) - before == {"mesh": 50, "star": 10 * 2 * (len(nodes) - 1)}[system]
