"""Plans for tests: published like the pipeline publishes them, from wishes that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.fleets.layout import FleetLayout
from coterie.model import Publications, Relation, Workload
from coterie.model.store import save_design
from coterie.mqtt.topics import filter_matches, split_shared
from coterie.plans.plan import DESIGN, PlanFacts
from coterie.plans.store import PlanStore
from coterie.systems import system_named
from coterie.systems.coterie import place_together

Wishes = Mapping[str, tuple[str, ...]]


def workload_of(
    wishes: Wishes, publishes: Wishes, brokers: int, seed: int = 1
) -> tuple[Workload, list[str], list[str]]:
    """The workload, its clients and its topics; clients are attached at random."""
    clients = list(dict.fromkeys([*wishes, *publishes]))
    topics = sorted({topic for some in publishes.values() for topic in some})
    pairs = [
        (row, column)
        for row, client in enumerate(clients)
        for column, topic in enumerate(topics)
        if any(filter_matches(split_shared(one)[1], topic) for one in wishes.get(client, ()))
    ]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    number = {topic: at for at, topic in enumerate(topics)}
    sent = [(clients.index(client), number[topic], 1.0) for client, some in publishes.items() for topic in some]
    draw = np.random.default_rng(seed)
    workload = Workload(
        name="test",
        interests=Relation.from_pairs(rows, columns, len(clients), len(topics)),
        publications=Publications.of(*zip(*sent, strict=True)),
        attachment=draw.integers(0, brokers, len(clients)).astype(np.int32),
        node_count=brokers,
    )
    return workload, clients, topics


def publish_plan(
    folder: Path, wishes: Wishes, publishes: Wishes, brokers: Sequence[str], system: str = "coterie", key: str = "a"
) -> int:
    """As `coterie plan` does, with the tables that say who wants and publishes what."""
    workload, clients, topics = workload_of(wishes, publishes, len(brokers))
    placed = place_together(workload, system_named("coterie").parameters(), 1)
    name, _, words = system.partition(":")
    chosen = system_named(name)
    parameters = chosen.configure(dict(word.split("=") for word in words.split(",") if word))
    design = chosen.plan(workload, parameters, 1, node_of=placed.node_of)

    def write(where: Path) -> None:
        save_design(design, where / DESIGN)
        _write(where / "topics.parquet", topic=topics)
        _write(where / "clients.parquet", client=clients)
        _write(where / "nodes.parquet", node=list(brokers))
        wanted = [(client, one) for client, some in wishes.items() for one in some]
        _write(where / "wishes.parquet", client=[row[0] for row in wanted], filter=[row[1] for row in wanted])
        sent = [(client, one) for client, some in publishes.items() for one in some]
        _write(
            where / "publishes.parquet", client=[row[0] for row in sent], topic=[row[1] for row in sent],
            rate=[1.0] * len(sent),
        )  # fmt: skip

    return PlanStore(folder).publish(key, PlanFacts(system=name), write)


def _write(path: Path, **columns: list[object]) -> None:
    pq.write_table(pa.table(columns), path)


def by_hand(home: Mapping[str, str], wishes: Wishes, publishes: Wishes | None = None, brokers: int = 3) -> FleetLayout:
    """What a plan would want, without one."""
    sent = {client: dict.fromkeys(topics, 1.0) for client, topics in (publishes or {}).items()}
    return FleetLayout(tuple(f"b{number}" for number in range(brokers)), home, wishes, sent, version=7)
