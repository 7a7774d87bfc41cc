"""Networks of a few nodes on loopback: everybody gets everything once, wildcards and retained messages included."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.accounting.tally import Tally
from coterie.broker.carried import RETAINED_CHANNEL
from coterie.model import Publications, Relation, Workload
from coterie.model.plan import Slice, slices
from coterie.model.workload import nobody_yet
from coterie.protocol.events import Event
from coterie.sim.engine import Simulation
from coterie.systems import SYSTEMS as REGISTERED
from coterie.systems import system_named
from tests.interop.fleet import Network, run

pytestmark = pytest.mark.interop
SYSTEMS = ("flooding", "mesh", "star", "scribe")


def payloads(messages: list[Any]) -> Counter[bytes]:
    return Counter(one.payload for one in messages)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_subscriber_gets_every_message_exactly_once(system: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, system, 4) as network:
            filters = ("news/a", "news/+", "#", "other")
            got: list[list[Any]] = [[] for _ in filters]
            readers = []
            for node, topic_filter in enumerate(filters):
                readers.append(await network.client(node, f"reader{node}", got[node]))
                assert await readers[-1].subscribe(topic_filter, qos=2) == (2,)
            writers = [await network.client(node, f"writer{node}") for node in range(4)]
            for number in range(10):
                for node, writer in enumerate(writers):
                    for topic, qos in (("news/a", number % 3), (f"never/seen/{number}/{node}", 1), ("other", 0)):
                        await writer.publish(topic, f"{topic} {number} {node}".encode(), qos)
            await network.until(lambda: [len(one) for one in got] == [40, 40, 120, 40])
            await asyncio.sleep(0.2)  # time for a duplicate to show
            assert [len(one) for one in got] == [40, 40, 120, 40]
            assert all(max(payloads(one).values()) == 1 for one in got)
            for client in (*readers, *writers):
                await client.stop()

    run(main)


@pytest.mark.parametrize("system", SYSTEMS)
def test_after_suback_nothing_is_missed_and_after_unsuback_nothing_comes(system: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, system, 4) as network:
            writer = await network.client(3, "writer")
            got: list[Any] = []
            reader = await network.client(0, "reader", got)
            for number in range(20):
                topic = f"fresh/{number}"
                await reader.subscribe(topic if number % 2 else f"fresh/{number}/#", qos=1)
                await writer.publish(topic if number % 2 else f"{topic}/x", b"%d" % number, qos=1)
            await network.until(lambda: len(got) == 20)
            await reader.unsubscribe(*(f"fresh/{number}" for number in range(1, 20, 2)))
            await writer.publish("fresh/1", b"late", qos=1)
            await writer.publish("fresh/2/x", b"last", qos=1)
            await network.until(lambda: len(got) == 21)
            assert got[-1].payload == b"last"
            await reader.stop()
            await writer.stop()

    run(main)


def test_retained_messages_are_everywhere_and_the_last_one_wins(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "scribe", 3) as network:
            writers = [await network.client(node, f"w{node}") for node in range(3)]
            for node, writer in enumerate(writers):
                await writer.publish("state/x", b"old %d" % node, qos=1, retain=True)
                await asyncio.sleep(0.05)
            await writers[0].publish("state/y", b"y", qos=0, retain=True)
            await writers[1].publish("state/z", b"z", qos=1, retain=True)
            await writers[2].publish("state/z", b"", qos=1, retain=True)
            await network.until(lambda: all(
                {one.topic: one.payload for one in node.broker.sessions.retained if not one.topic.startswith("$")}
                == {"state/x": b"old 2", "state/y": b"y"} for node in network.nodes
            ))  # fmt: skip
            for node in range(3):
                got: list[Any] = []
                late = await network.client(node, f"late{node}", got)
                await late.subscribe("state/#", qos=1)
                await network.until(lambda got=got: len(got) == 2)  # type: ignore[misc]
                assert all(one.retain for one in got)
                await late.stop()
            for writer in writers:
                await writer.stop()

    run(main)


def test_a_shared_subscription_is_shared_by_the_whole_network(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "scribe", 3) as network:
            got: list[list[Any]] = [[], [], [], []]
            members = [await network.client(number % 3, f"member{number}", got[number]) for number in range(4)]
            for member in members:
                await member.subscribe("$share/team/job/#", qos=1)
            writers = [await network.client(node, f"writer{node}") for node in range(3)]
            for number in range(40):
                for node, writer in enumerate(writers):
                    await writer.publish(f"job/{number}", b"%d %d" % (node, number), qos=number % 2)
            await network.until(lambda: sum(map(len, got)) >= 120)
            await asyncio.sleep(0.2)
            assert sum(map(len, got)) == 120
            assert len({one.payload for taken in got for one in taken}) == 120
            assert min(map(len, got)) > 5
            for client in (*members, *writers):
                await client.stop()

    run(main)


INTEREST = {0: ["a", "b"], 1: ["b"], 2: ["a", "c"], 3: ["c"], 4: []}
QUIET_S = 0.8


@pytest.mark.parametrize("system", sorted(REGISTERED))
def test_the_live_ledger_equals_the_simulated_one(system: str, tmp_path: Path) -> None:
    """The same subscriptions and publications, quiet network: every copy is counted under the same name."""
    parts = planned_for(INTEREST, system) if system == "spidercast" else None  # whose nodes else gossip for long
    plan = [(node, topic) for node in range(5) for topic in ("a", "b", "c", "d")]

    async def live() -> list[Tally]:
        async with Network(tmp_path, system, 5, parts=parts) as network:
            clients = [await network.client(node, f"c{node}") for node in range(5)]
            for node, topics in INTEREST.items():
                for topic in topics:
                    await clients[node].subscribe(topic)
            overlays = [node.broker.planes.in_use for node in network.nodes]
            await network.until(lambda: all(time.time() - one.built_s > QUIET_S for one in overlays))
            assert sum(copies(one.tally) for one in overlays) == 0
            for node, topic in plan:
                await clients[node].publish(topic, b"x", qos=0)
            expected = sum(len(clients_of(topic)) for _, topic in plan)
            await network.until(lambda: sum(node.broker.counts.messages_out for node in network.nodes) >= expected)
            await asyncio.sleep(0.1)
            for client in clients:
                await client.stop()
            # As it is now: nodes that stop one after the other send once more what may be lost with the ones before.
            return [copy(one.tally) for one in overlays]

    def clients_of(topic: str) -> list[int]:
        return [node for node, topics in INTEREST.items() if topic in topics]

    measured = run(live)
    simulated = simulate_same(system, INTEREST, plan, parts)
    for column in ("inbound", "wanted", "relayed", "filtered", "duplicate"):
        assert sum(getattr(one, column) for one in measured) == getattr(simulated, column), column


def planned_for(interest: dict[int, list[str]], system_name: str) -> list[Slice]:
    """Slices of a plan that knows who wants what, the channel of retained messages included."""
    names = [RETAINED_CHANNEL, *sorted({topic for topics in interest.values() for topic in topics})]
    rows = [[0, *(names.index(topic) for topic in topics)] for topics in interest.values()]
    workload = Workload("test", Relation.from_rows(rows, len(names)), Publications.of([0], [1], [1.0]),
                        np.arange(len(rows), dtype=np.int32), len(rows))  # fmt: skip
    return slices(system_named(system_name).plan(workload, None, 0), version=1)


def simulate_same(
    system_name: str, interest: dict[int, list[str]], plan: list[tuple[int, str]], parts: list[Slice] | None
) -> Tally:
    system = system_named(system_name)
    parameters = system.parameters()
    first = parts or slices(system.plan(nobody_yet(5), parameters, 0))
    simulation = Simulation(system, parameters, first, seed=0)
    simulation.start()
    for node in range(5):
        simulation.subscribe(node, RETAINED_CHANNEL)  # as live nodes do
    simulation.run_until(1.0)
    for node, topics in interest.items():
        for topic in topics:
            simulation.subscribe(node, topic)
    simulation.run_until(5.0)
    for node, topic in plan:
        event = simulation.publish(node, topic)
        assert isinstance(event, Event)
    simulation.run_until(20.0)
    return simulation.book.tally


def copies(tally: Tally) -> float:
    return tally.inbound + tally.wanted + tally.relayed + tally.filtered + tally.duplicate
