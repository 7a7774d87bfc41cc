"""What a live network sends against what it was priced at, on a quiet network: copies to the copy, bytes closely."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replace_in

from coterie.accounting.price import price
from coterie.accounting.tally import COPIES, Tally
from coterie.broker.carried import RETAINED_CHANNEL
from coterie.model import BrokerGraph, Design, Ledger, Placement, Publications, Relation, Workload
from coterie.model.plan import slices
from coterie.model.wires import COTERIE
from coterie.model.workload import nobody_yet
from coterie.protocol.system import Parameters, System
from coterie.substrate.identifiers import topic_key
from coterie.systems import homes, scribe, system_named
from coterie.systems.coterie import CoterieParameters
from coterie.trace import Traffic
from tests.interop.fleet import Network, run

pytestmark = pytest.mark.interop
NODES = 5
NAMES = [RETAINED_CHANNEL, "site/a/temp", "site/b/temp", "site/c/humidity", "z/nobody/wants/this"]  # in order
INTEREST = [[1, 2], [2], [1, 3], [3], [], [1], [3, 2]]  # of clients, at the nodes
HOME = [0, 1, 2, 3, 4, 0, 2]
SIZES = [0, 20, 150, 700, 90]  # payload by topic
QUIET_S = 0.8
ZONE_OF = np.array([0, 1, 0, 1, 1], np.int32)
CASES = [
    ("mesh", {}),
    ("star", {}),
    ("star", {"crossing": "wanted", "hub": 3}),
    ("homes", {"at": "hash"}),
    ("mesh+zones", {}),
    ("homes+zones", {"at": "hash"}),
    ("star+zones", {"crossing": "wanted", "hub": 3}),
    ("scribe", {}),
    ("coterie", {}),
    ("coterie", {"links": "lean"}),
]


def nobody() -> Workload:
    return replace(nobody_yet(NODES), zone_of=ZONE_OF)


def published() -> list[tuple[int, int]]:
    """(client, topic): everybody on everything, some twice."""
    once = [(client, topic) for client in range(len(HOME)) for topic in range(1, len(NAMES))]
    return once + once[::3]


def workload() -> Workload:
    """Every node keeps retained messages: to the overlay that is one more topic, wanted by a client of its own."""
    sent = Counter(published())
    publications = Publications.of(
        [client for client, _ in sent], [topic for _, topic in sent], [float(count) for count in sent.values()],
        [float(SIZES[topic]) for _, topic in sent],
    )  # fmt: skip
    interests = Relation.from_rows([*INTEREST, *([0] for _ in range(NODES))], len(NAMES))
    home = np.array([*HOME, *range(NODES)], np.int32)
    names = np.array([float(len(name)) for name in NAMES])
    return Workload("live", interests, publications, home, NODES, topic_bytes=names, zone_of=ZONE_OF)


def bill(system: System, parameters: Parameters) -> Ledger:
    """Of the links that the network starts with, and what becomes of them when people have subscribed."""
    stages, first = system.stages, system.plan(nobody(), parameters, 0)
    overlay, graph = first.overlay, None
    if isinstance(parameters, CoterieParameters):
        parameters = replace_in(parameters, links=first.settings["links"])
        graph = None if overlay.is_complete else BrokerGraph.of(NODES, overlay.links.rows, overlay.links.columns)
    demand = replace(workload(), graph=graph)
    placement = Placement(demand.attachment, NODES)
    channels = stages.channels(demand, placement, parameters, 0)
    trees, entries = stages.trees(demand, placement, channels, overlay, parameters, 0)
    return price(Design(system.name, placement, channels, overlay, trees, entries, {}), demand)


async def live(name: str, settings: dict[str, Any], folder: Path) -> list[Tally]:
    system = system_named(name)
    parts = slices(system.plan(nobody(), system.configure(settings), 0), version=1)
    async with Network(folder, name, NODES, settings=settings, parts=parts) as network:
        clients = [await network.client(node, f"client-{number:04}") for number, node in enumerate(HOME)]
        for client, topics in zip(clients, INTEREST, strict=True):
            for topic in topics:
                await client.subscribe(NAMES[topic])
        overlays = [node.broker.planes.in_use for node in network.nodes]
        await network.until(lambda: all(time.time() - one.built_s > QUIET_S for one in overlays))
        for client, topic in published():
            await clients[client].publish(NAMES[topic], bytes(SIZES[topic]))
        audience = Counter(topic for topics in INTEREST for topic in topics)
        owed = sum(audience[topic] for _, topic in published())
        await network.until(lambda: sum(node.broker.counts.messages_out for node in network.nodes) >= owed)
        await asyncio.sleep(0.2)
        assert sum(node.broker.counts.messages_out for node in network.nodes) == owed
        for client in clients:
            await client.stop()
        return [deepcopy(one.tally) for one in overlays]  # as it is before nodes go, one after the other


@pytest.mark.parametrize(("name", "settings"), CASES, ids=[f"{name} {settings}" for name, settings in CASES])
def test_the_live_network_sends_what_it_was_priced_at(
    name: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.array([topic_key(name) for name in NAMES], np.uint64)
    for module in (scribe, homes):  # roots are found by name, not by number
        monkeypatch.setattr(module, "topic_keys", lambda count: keys[:count])
    system = system_named(name)
    priced = bill(system, system.configure(settings)).columns()
    measured = run(lambda: live(name, settings, tmp_path))
    for column in COPIES:
        assert sum(getattr(one, column) for one in measured) == pytest.approx(priced[f"dissemination.{column}"]), column
        volume = sum(one.volume[column] for one in measured)
        assert volume == pytest.approx(priced[f"volume.{column}"], rel=0.03), column


BEAT_S, SPAN_S = 0.4, 3.2


@pytest.mark.parametrize("name", ["mesh", "star", "star+zones", "homes", "scribe", "coterie"])
def test_the_live_network_beats_as_often_as_it_was_priced_at(name: str, tmp_path: Path) -> None:
    """Heartbeats per second, and their bytes; over a few seconds each link end may be one beat off."""
    system = system_named(name)
    fields = {"link_heartbeat_s": BEAT_S, "tree_heartbeat_s": BEAT_S}
    settings = {key: value for key, value in fields.items() if hasattr(system.parameters(), key)}
    design = system.plan(nobody(), system.configure(settings), 0)
    ends = float(design.overlay.entry_counts.sum())

    async def measured() -> tuple[float, float]:
        async with Network(tmp_path, name, NODES, settings=settings, parts=slices(design, version=1)) as network:
            overlays = [node.broker.planes.in_use for node in network.nodes]
            await asyncio.sleep(2 * BEAT_S)
            before = [(one.sent[Traffic.LINK_KEEPALIVE], one.sent_bytes[Traffic.LINK_KEEPALIVE]) for one in overlays]
            await asyncio.sleep(SPAN_S)
            after = [(one.sent[Traffic.LINK_KEEPALIVE], one.sent_bytes[Traffic.LINK_KEEPALIVE]) for one in overlays]
            return tuple(sum(late[at] - early[at] for early, late in zip(before, after, strict=True)) for at in (0, 1))

    beats, size = run(measured)
    assert design.upkeep.link == 1 / BEAT_S
    assert beats == pytest.approx(ends * design.upkeep.link * SPAN_S, abs=ends)
    assert size / beats == pytest.approx(COTERIE.link_heartbeat, abs=9)
