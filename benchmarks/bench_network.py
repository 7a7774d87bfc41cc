"""What whole networks cost: copies, bytes, links and control traffic per delivered message, system by system.

Run `python benchmarks/bench_network.py` (options: --nodes 32 --systems flooding scribe --placement aligned --json).
The workload: 200 topics in 10 modes, 400 clients with 10 topics each, 9 of 10 from their own mode, 2,000 messages at
QoS 1, each published by some client on one of its topics. Placement `random` puts clients anywhere, `aligned` keeps the
clients of a mode together; `planned` starts like `random`, then a plan of the system for this workload is applied to
the running network, and clients move by Server Reference to where it wants them. Every node is a process of its own,
every client a connection. The lower bound is one copy for every node with a subscriber except the publisher's own;
ratios to it are what counts. Where nats-server is installed, a full mesh of it does the same work beside ours, with
`planned` on the placement that coterie's plan found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nats_mesh
from brokers import free_base
from coterie.api.places import ADMIN_OFFSET
from coterie.api.running import arranged
from coterie.live.client import MqttClient, connect_packet
from coterie.live.tokens import TOKEN_FILE
from coterie.model import Publications, Relation, Workload
from coterie.model.parameters import settings_of
from coterie.model.store import save_design
from coterie.plans.admin import LiveNetwork, ask
from coterie.plans.plan import PlanFacts
from coterie.plans.rollout import change_over, fit
from coterie.plans.store import PlanStore
from coterie.protocol.system import System
from coterie.systems import SYSTEMS, system_named

TOKEN = "the token of the benchmark"
TOPICS, MODES, CLIENTS, WANTED, MESSAGES = 200, 10, 400, 10, 2000
KINDS = ("inbound", "wanted", "relayed", "filtered", "duplicate")
EVENTS = ("event", "inbound")
DRAINED_S = 12.0  # after this nothing of the plan before is left


class Load:
    """Who wants what, who sits where, and what is published; all from one seed."""

    def __init__(self, nodes: int, placement: str, seed: int) -> None:
        draw = random.Random(seed)
        self.nodes = nodes
        per_mode = TOPICS // MODES
        self.interest: list[list[str]] = []
        for client in range(CLIENTS):
            mode = client * MODES // CLIENTS
            own = draw.sample(range(mode * per_mode, (mode + 1) * per_mode), WANTED * 9 // 10)
            other = draw.sample([one for one in range(TOPICS) if one // per_mode != mode], WANTED - len(own))
            self.interest.append([f"topic/{one}" for one in own + other])
        self.home = [client * nodes // CLIENTS for client in range(CLIENTS)]
        if placement != "aligned":
            draw.shuffle(self.home)
        authors = [draw.randrange(CLIENTS) for _ in range(MESSAGES)]
        self.messages = [(author, draw.choice(self.interest[author])) for author in authors]

    def published(self) -> Iterator[tuple[int, str, bytes]]:
        return ((author, topic, b"%06d" % number + bytes(58)) for number, (author, topic) in enumerate(self.messages))

    def owed(self) -> int:
        return self.bounds()[0]

    def audience(self, topic: str) -> list[int]:
        return [client for client, topics in enumerate(self.interest) if topic in topics]

    def workload(self, nodes: int) -> Workload:
        """The same for a planner."""
        numbers = [sorted(int(topic.removeprefix("topic/")) for topic in topics) for topics in self.interest]
        sent = Counter((author, int(topic.removeprefix("topic/"))) for author, topic in self.messages)
        authors, topics = [author for author, _ in sent], [topic for _, topic in sent]
        publications = Publications.of(authors, topics, [float(count) for count in sent.values()])
        home = np.array(self.home, np.int32)
        return Workload("bench", Relation.from_rows(numbers, TOPICS), publications, home, nodes)

    def bounds(self) -> tuple[int, int]:
        """(deliveries, the fewest copies between nodes)."""
        deliveries = copies = 0
        for author, topic in self.messages:
            audience = self.audience(topic)
            deliveries += len(audience)
            copies += len({self.home[client] for client in audience} - {self.home[author]})
        return deliveries, copies


def books(base: int, nodes: int) -> list[dict[str, Any]]:
    return [ask("127.0.0.1", base + ADMIN_OFFSET + node, "/ledger", TOKEN, timeout_s=30.0) for node in range(nodes)]


def control_of(ledgers: list[dict[str, Any]]) -> tuple[int, int]:
    """(messages that are no events, all bytes on links so far: heartbeats and the drivers' own messages included)."""
    messages = sum(n for one in ledgers for kind, n in one["sent"].items() if kind not in EVENTS)
    return messages + sum(one["driver_messages"] for one in ledgers), sum(one["link_bytes_out"] for one in ledgers)


def copies_of(ledgers: list[dict[str, Any]]) -> Counter[str]:
    return Counter({kind: int(sum(one["columns"][f"dissemination.{kind}"] for one in ledgers)) for kind in KINDS})


def apply_plan(base: int, nodes: int, load: Load, system: System, settings: dict[str, Any], folder: Path) -> None:
    """Plan for the workload, switch the running network, and wait until everybody is where the plan wants them."""
    design = system.plan(load.workload(nodes), system.configure(settings), 1)
    store = PlanStore(folder / "plans")

    def write(place: Path) -> None:
        save_design(design, place / "design.npz")
        pq.write_table(pa.table({"topic": [f"topic/{one}" for one in range(TOPICS)]}), place / "topics.parquet")
        names = [f"client{one}" for one in range(CLIENTS)]
        pq.write_table(pa.table({"client": names}), place / "clients.parquet")

    network = LiveNetwork([("127.0.0.1", base + ADMIN_OFFSET + node) for node in range(nodes)], TOKEN)
    change_over(network, fit(store.load(store.publish("bench", PlanFacts(system=system.name), write)), network))
    load.home = design.placement.node_of.tolist()
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        found = network.ask("/placement")
        at = {name: node for node, one in enumerate(found) for name in one["clients"]}
        if [at.get(f"client{one}") for one in range(CLIENTS)] == load.home:
            return
        time.sleep(0.5)
    raise SystemExit("not all clients went where the plan wants them")


async def drive(
    base: int, nodes: int, load: Load, settle_s: float, change: Callable[[], None] | None = None
) -> dict[str, Any]:
    got = [Counter[bytes]() for _ in range(CLIENTS)]
    clients: list[MqttClient] = []

    def sink(counter: Counter[bytes]) -> Any:
        return lambda message: counter.update([message.payload])

    for number in range(CLIENTS):
        packet = connect_packet(f"client{number}", keep_alive_s=0)
        clients.append(MqttClient("127.0.0.1", base + load.home[number], packet, sink(got[number]), give_up_s=120))
    for client in clients:
        await client.start()
    start_s = time.perf_counter()
    for client, topics in zip(clients, load.interest, strict=True):
        await client.subscribe(*topics, qos=1)
    subscribed_s = time.perf_counter() - start_s
    if change is not None:
        await asyncio.to_thread(change)
        await asyncio.sleep(DRAINED_S)
    await asyncio.sleep(settle_s)
    before = await asyncio.to_thread(books, base, nodes)
    owed = load.bounds()[0]
    start_s = time.perf_counter()
    for first in range(0, MESSAGES, 50):
        batch = enumerate(load.messages[first : first + 50], first)
        await asyncio.gather(*(clients[who].publish(topic, b"%06d" % n + bytes(58), 1) for n, (who, topic) in batch))
    while sum(one.total() for one in got) < owed and time.perf_counter() - start_s < 120:
        await asyncio.sleep(0.05)
    published_s = time.perf_counter() - start_s
    after = await asyncio.to_thread(books, base, nodes)
    healths = [ask("127.0.0.1", base + ADMIN_OFFSET + node, "/health", TOKEN) for node in range(nodes)]
    for client in clients:
        await client.stop()
    copies = copies_of(after) - copies_of(before)
    event_bytes = sum(
        n for one in after for kind, n in one["sent_bytes"].items() if kind in EVENTS
    ) - sum(n for one in before for kind, n in one["sent_bytes"].items() if kind in EVENTS)  # fmt: skip
    links = {(min(n, peer), max(n, peer)) for n, health in enumerate(healths) for peer in health["links"]}
    return {
        "delivered": sum(len(one) for one in got),
        "twice": sum(count - 1 for one in got for count in one.values()),
        "owed": owed,
        "copies": copies.total(),
        **{kind: copies[kind] for kind in KINDS},
        "event_bytes": event_bytes,
        "links": len(links),
        "subscribe_control": control_of(before),
        "subscribe_s": subscribed_s,
        "publish_s": published_s,
    }


def measure(text: str, nodes: int, placement: str, seed: int, settle_s: float) -> dict[str, Any]:
    load = Load(nodes, placement, seed)
    if text == "nats":
        if placement == "planned":  # which it could not do itself
            load.home = system_named("coterie").plan(load.workload(nodes), None, 1).placement.node_of.tolist()
        program = nats_mesh.server()
        assert program is not None
        row = nats_mesh.measure(program, load, free_base(nodes))
        return {"system": text, "placement": placement, "nodes": nodes, "bound": load.bounds()[1], **row}
    name, *chosen = text.split(",")
    settings: dict[str, Any] = settings_of(chosen, "--systems")
    system = system_named(name)
    base = free_base(nodes)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / TOKEN_FILE).write_text(TOKEN)
        fleet = arranged(None, nodes, name, settings, base, Path(folder), "127.0.0.1", seed)
        try:
            fleet.start()
            fleet.wait_healthy(180.0)
            change = partial(apply_plan, base, nodes, load, system, settings, Path(folder))
            row = asyncio.run(drive(base, nodes, load, settle_s, change if placement == "planned" else None))
        finally:
            fleet.stop()
    return {"system": text, "placement": placement, "nodes": nodes, "bound": load.bounds()[1], **row}


COLUMNS = [
    *(("system", 17), ("placement", 9), ("delivered", 9), ("lost", 5), ("twice", 5), ("copies/msg", 10), ("bound", 6)),
    *(("copies/dlv", 10), ("bytes/dlv", 9), ("links", 5), ("sub msgs", 8), ("sub kB", 7)),
]


def cells(row: dict[str, Any]) -> list[str]:
    delivered = max(1, row["delivered"])
    messages, size = row["subscribe_control"]
    return [
        *(row["system"], row["placement"], f"{row['delivered']:,}", str(row["owed"] - row["delivered"])),
        *(str(row["twice"]), f"{row['copies'] / MESSAGES:.2f}", f"{row['bound'] / MESSAGES:.2f}"),
        *(f"{row['copies'] / delivered:.3f}", f"{row['event_bytes'] / delivered:.1f}", str(row["links"])),
        *(f"{messages:,}", f"{size / 1000:,.0f}"),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=32)
    arguments.add_argument("--systems", nargs="*", default=list(SYSTEMS), help="with parameters: content,degree=24")
    arguments.add_argument(
        "--placement", nargs="*", default=["random", "aligned"], choices=["random", "aligned", "planned"]
    )
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--settle", type=float, default=1.0, help="seconds between subscribing and publishing")
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    rows = []
    if not chosen.json:
        print(" ".join(f"{name:>{width}}" for name, width in COLUMNS))
    for placement in chosen.placement:
        beside = ["nats"] if nats_mesh.server() else []
        for name in [*chosen.systems, *beside]:
            row = measure(name, chosen.nodes, placement, chosen.seed, chosen.settle)
            rows.append(row)
            if not chosen.json:
                print(" ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells(row), COLUMNS, strict=True)))
                sys.stdout.flush()
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
