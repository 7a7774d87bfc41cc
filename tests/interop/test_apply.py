"""`coterie apply`: nodes take their slices, clients that follow move, and an older plan rolls it back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.cli.applying import apply_command
from coterie.errors import ConfigError
from coterie.model import Publications, Relation, Workload
from coterie.model.store import save_design
from coterie.pipeline.plans import PlanStore
from coterie.systems import system_named
from tests.interop.fleet import run, until
from tests.interop.test_placement import PlacedNetwork

pytestmark = pytest.mark.interop
TOPICS = ["a", "b", "c", "d"]


def publish_plan(store: PlanStore, system_name: str, homes: list[int], nodes: int) -> int:
    """A plan that keeps everybody at `homes`, as `coterie plan` would publish it."""
    interests = Relation.from_rows([[0, 1], [1, 2], [2, 3]], len(TOPICS))
    workload = Workload(
        "test", interests, Publications.of([0], [0], [1.0]), np.array(homes, np.int32), nodes
    )  # fmt: skip
    design = system_named(system_name).plan(workload, None, 3)

    def write(folder: Path) -> None:
        save_design(design, folder / "design.npz")
        pq.write_table(pa.table({"topic": TOPICS}), folder / "topics.parquet")
        pq.write_table(pa.table({"subscriber": ["client0", "client1", "client2"]}), folder / "subscribers.parquet")

    return store.publish(f"{system_name}{homes}", {"predicted": {}}, write)


def test_apply_look_and_go_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = PlanStore(tmp_path / "plans")
    first = publish_plan(store, "flooding", [0, 0, 0], 2)
    second = publish_plan(store, "flooding", [0, 1, 1], 2)
    wrong = publish_plan(store, "scribe", [0, 1, 1], 2)

    async def main() -> None:
        async with PlacedNetwork(tmp_path / "net", 2) as network:
            got: list[list[Any]] = [[], [], []]
            clients = [await network.client(0, f"client{number}", got[number]) for number in range(3)]
            for number, client in enumerate(clients):
                await client.subscribe(*TOPICS[number : number + 2], qos=1)
            places = [f"127.0.0.1:{node.ports['admin']}" for node in network.nodes]

            async def apply(version: int, dry_run: bool = False) -> None:
                await asyncio.to_thread(
                    apply_command, tmp_path / "plans", version, 1883, places, "", "127.0.0.1", dry_run, True
                )

            with pytest.raises(ConfigError, match="the system that runs"):
                await apply(wrong)
            await apply(second, dry_run=True)
            assert '"clients_to_move": 2' in capsys.readouterr().out
            assert network.nodes[0].network.overlay.slice.version == 1
            await apply(second)
            assert network.nodes[0].network.overlay.slice.version == second
            await until(lambda: [client.redirects for client in clients] == [0, 1, 1])
            await until(lambda: network.nodes[1].broker.watched.count == 4)
            for topic in TOPICS:
                await clients[0].publish(topic, topic.encode(), qos=1)
            await until(lambda: [len(one) for one in got] == [2, 2, 2])
            await apply(first)
            assert network.nodes[1].network.overlay.slice.version == first
            for client in clients:
                await client.stop()

    run(main)
