"""New clients go where what they first ask for is wanted already: as predicted, at most once, and never by force."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from benchmarks.coming_and_going import PlacedNodes, draw_course, measured, predicted

from coterie.live.client import MqttClient, connect_packet
from tests.interop.fleet import Network, run

pytestmark = pytest.mark.interop


def test_copies_are_as_predicted_and_fewer_than_by_hash(tmp_path: Path) -> None:
    course = draw_course(nodes=4, clients=48, rounds=3, topics=24, groups=12, seed=5)

    async def main() -> None:
        by_interest = await measured(course, tmp_path / "interest", 4, by_interest=True)
        by_hash = await measured(course, tmp_path / "hash", 4, by_interest=False)
        assert by_interest == predicted(course, 4, 24, by_interest=True)
        assert by_hash == predicted(course, 4, 24, by_interest=False)
        assert sum(by_interest.copies) < 0.8 * sum(by_hash.copies)
        assert by_interest.deliveries == by_hash.deliveries
        assert by_interest.fullest(4) <= 1.2 + 1e-9

    run(main)


def test_who_does_not_follow_is_answered_at_once_and_every_decision_is_written_down(tmp_path: Path) -> None:
    async def main() -> None:
        async with PlacedNodes(tmp_path, 3, by_interest=True) as network:
            first = await _fill(network)
            old = MqttClient("127.0.0.1", network.port(0), connect_packet("old", version=4))
            await old.start()
            assert await old.subscribe("t/at-1") == (0,)
            assert old.server[1] == network.port(0)
            new = MqttClient("127.0.0.1", network.port(0), connect_packet("new"))
            await new.start()
            assert await new.subscribe("t/also-1") == (0,)  # answered by the node where it ended up
            assert (new.server[1], new.redirects) == (network.port(1), 1)
            assert await new.subscribe("t/at-2") == (0,)  # where it is wanted says nothing any more
            assert new.server[1] == network.port(1)
            counts = network.nodes[0].broker.counts
            assert (counts.admitted_sent, counts.admitted_unmoved) == (1, 1)
            await asyncio.sleep(0.5)  # lines are written a few times a second
            lines = [json.loads(line) for path in sorted((tmp_path / "node-0" / "journal").rglob("*.jsonl"))
                     for line in path.read_text().splitlines()]  # fmt: skip
            told = {one["client"]: (one["to"], one["reason"]) for one in lines if one["kind"] == "admission"}
            assert told["new"] == (1, "wanted there")
            assert told["old"] == (0, "does not follow")
            for client in (*first, old, new):
                await client.stop()

    run(main)


async def _fill(network: Network) -> list[MqttClient]:
    """Two clients at each node, so that all are equally full, and each node wants topics of its own."""
    clients = []
    for number in range(2):
        for node in range(len(network.nodes)):
            packet = connect_packet(f"first-{node}-{number}", version=4)
            clients.append(MqttClient("127.0.0.1", network.port(node), packet))
            await clients[-1].start()
            await clients[-1].subscribe(f"t/at-{node}", f"t/also-{node}")
    return clients
