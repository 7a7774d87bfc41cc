"""A layout as a workload, so that any system can plan for it without logs being read again."""

from __future__ import annotations

import numpy as np

from coterie.fleets.layout import Filters, FleetLayout
from coterie.model import Publications, Relation, Workload
from coterie.mqtt.topics import split_shared
from coterie.systems import system_named
from coterie.systems.coterie import place_together


def workload_of(layout: FleetLayout) -> tuple[Workload, list[str]]:
    """The workload, and its clients in the order of their numbers."""
    clients = sorted(layout.home)
    topics = {topic: at for at, topic in enumerate(layout.known_topics)}
    broker = {name: at for at, name in enumerate(layout.brokers)}
    rows, columns = [], []
    for row, client in enumerate(clients):
        wanted = Filters(split_shared(one)[1] for one in layout.wishes.get(client, ()))
        mine = [column for topic, column in topics.items() if wanted.match(topic)]
        rows += [row] * len(mine)
        columns += mine
    number = {client: at for at, client in enumerate(clients)}
    sent = [
        (number[client], topics[topic], rate)
        for client, some in layout.publishes.items()
        for topic, rate in some.items()
    ]
    publisher, topic, rate = zip(*sent, strict=True) if sent else ((), (), ())
    workload = Workload(
        name="fleet",
        interests=Relation.from_pairs(rows, columns, len(clients), len(topics)),
        publications=Publications.of(publisher, topic, rate),
        attachment=np.array([broker[layout.home[client]] for client in clients], np.int32),
        node_count=len(layout.brokers),
    )
    return workload, clients


def planned_home(layout: FleetLayout, system: str, seed: int) -> dict[str, str]:
    """Client -> broker as `system` would place them; systems that do not place leave it to placement by interest."""
    workload, clients = workload_of(layout)
    chosen = system_named(system.partition(":")[0])
    placed = chosen.stages.placement(workload, chosen.parameters(), seed)
    if np.array_equal(placed.node_of, workload.attachment):
        placed = place_together(workload, system_named("coterie").configure({}), seed)  # type: ignore[arg-type]
    return {client: layout.brokers[node] for client, node in zip(clients, placed.node_of.tolist(), strict=True)}
