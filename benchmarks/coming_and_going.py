"""Real clients that come and go at live nodes, let in by interest or by hash, and what that should cost.

A course is drawn once: rounds in which some clients leave and others come, one after another, each with a first
SUBSCRIBE and a second one; then every topic is published at a node. `predicted` reads the same course with the
planner's own kernel; `measured` counts at the nodes. The two must be equal, copy by copy.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from coterie.kernels.placement.admission import AdmissionRules, Asked, Seating, admit
from coterie.live.client import MqttClient, connect_packet
from coterie.live.node import LiveNode
from tests.interop.fleet import Network, until

LIMITS = (1.2, 1.5)  # connections and messages, times the mean


@dataclass(frozen=True)
class Newcomer:
    """Who comes, where a hash sends it, and what it asks for first and then."""

    number: int
    home: int
    first: tuple[int, ...]
    then: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"client-{self.number}"


@dataclass(frozen=True)
class RoundOfVisits:
    """Who leaves, who comes, and at which node each topic's events enter."""

    leaving: tuple[int, ...]
    coming: tuple[Newcomer, ...]
    entry: tuple[int, ...]


@dataclass(frozen=True)
class Copying:
    """Per round: copies between nodes and deliveries to clients; and where clients were in the end."""

    copies: tuple[int, ...]
    deliveries: tuple[int, ...]
    seats: dict[int, int]

    @property
    def per_delivered(self) -> float:
        return sum(self.copies) / max(1, sum(self.deliveries))

    def fullest(self, nodes: int) -> float:
        """The fullest node's clients, times the mean."""
        return float(np.bincount(list(self.seats.values()), minlength=nodes).max() * nodes / len(self.seats))


def draw_course(
    nodes: int, clients: int, rounds: int, topics: int, groups: int, seed: int, staying: float = 0.75
) -> list[RoundOfVisits]:
    """Clients of a group want mostly its topics; in every round but the first a quarter is replaced."""
    draw = np.random.default_rng(seed)
    found, present, next_number = [], list[Newcomer](), 0
    for number in range(rounds):
        leaving = [one for one in present if number and draw.random() >= staying]
        present = [one for one in present if one not in leaving]
        coming = []
        while len(present) + len(coming) < clients:
            coming.append(_newcomer(next_number, nodes, topics, groups, draw))
            next_number += 1
        present += coming
        entry = tuple(int(one) for one in draw.integers(nodes, size=topics))
        found.append(RoundOfVisits(tuple(one.number for one in leaving), tuple(coming), entry))
    return found


def _newcomer(number: int, nodes: int, topics: int, groups: int, draw: np.random.Generator) -> Newcomer:
    own = int(draw.integers(groups)) + groups * np.arange(topics // groups)
    wishes = draw.choice(own, size=min(len(own), 4), replace=False)
    wishes = np.unique(np.where(draw.random(len(wishes)) < 0.1, draw.integers(topics, size=len(wishes)), wishes))
    wishes = draw.permutation(wishes)
    split = int(draw.integers(1, 3))
    home = crc32(f"client-{number}".encode()) % nodes
    return Newcomer(number, home, tuple(map(int, wishes[:split])), tuple(map(int, wishes[split:])))


# --- predicted ---


def predicted(course: list[RoundOfVisits], nodes: int, topics: int, by_interest: bool) -> Copying:
    """By the kernel that prices admission in `coterie backtest`, with every wish worth the same."""
    wanting, seats = np.zeros((topics, nodes), np.int32), dict[int, int]()
    present: dict[int, Newcomer] = {}
    copies, deliveries = [], []
    for one in course:
        for number in one.leaving:
            gone = present.pop(number)
            wanting[[*gone.first, *gone.then], seats.pop(number)] -= 1
        present |= {comer.number: comer for comer in one.coming}
        if by_interest:
            seats |= _admitted(one.coming, wanting, seats)
        else:
            seats |= {comer.number: comer.home for comer in one.coming}
            for comer in one.coming:
                wanting[[*comer.first, *comer.then], comer.home] += 1
        wanted = wanting > 0
        copies.append(int(wanted.sum() - wanted[np.arange(topics), list(one.entry)].sum()))
        deliveries.append(int(wanting.sum()))
    return Copying(tuple(copies), tuple(deliveries), seats)


def _admitted(coming: tuple[Newcomer, ...], wanting: np.ndarray, seats: dict[int, int]) -> dict[int, int]:
    """`wanting` is changed in place."""
    nodes = wanting.shape[1]
    rows = [
        (row, topic, 2 * row + part)
        for row, comer in enumerate(coming)
        for part, asked in enumerate((comer.first, comer.then))
        for topic in asked
    ]
    client, topic, moment = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    connections = np.bincount(list(seats.values()), minlength=nodes).astype(np.int32)
    fleet = Seating(
        np.full(len(coming), -1, np.int32), wanting, connections, wanting.sum(axis=0).astype(np.float64)
    )  # fmt: skip
    rules = AdmissionRules(np.ones(len(wanting)), 0.0, *LIMITS, np.zeros(nodes, np.int32), True)
    home = np.array([comer.home for comer in coming], np.int32)
    admit(Asked(client, topic, moment), fleet, rules, home, home.copy(), np.zeros(len(coming)))
    return {comer.number: int(seat) for comer, seat in zip(coming, fleet.seat, strict=True)}


# --- measured ---


class PlacedNodes(Network):
    """Nodes that can tell clients each other's addresses."""

    def __init__(self, folder: Path, count: int, by_interest: bool) -> None:
        rules = {"enabled": by_interest, "connections": LIMITS[0], "messages": LIMITS[1], "spread_s": 0, "load_s": 1e9}
        super().__init__(folder, "mesh", count, admission=rules)
        self.tell_servers()


async def measured(course: list[RoundOfVisits], folder: Path, nodes: int, by_interest: bool) -> Copying:
    """Every round is over when nothing is under way any more: no copy, no word between nodes."""
    async with PlacedNodes(folder, nodes, by_interest) as network:
        visits = Visits(network, by_interest)
        copies, deliveries = [], []
        for one in course:
            await visits.change(one)
            before = visits.counted()
            await visits.publish(one.entry)
            after = visits.counted()
            copies.append(after[0] - before[0])
            deliveries.append(after[1] - before[1])
        seats = visits.seats()
        await visits.end()
        return Copying(tuple(copies), tuple(deliveries), seats)


class Visits:
    """The clients that are there, and what nodes have counted."""

    def __init__(self, network: Network, by_interest: bool) -> None:
        self.network, self.by_interest = network, by_interest
        self.present: dict[int, tuple[Newcomer, MqttClient]] = {}
        self.received = 0

    def _got(self, message: object) -> None:
        self.received += 1

    async def change(self, one: RoundOfVisits) -> None:
        for number in one.leaving:
            await self.present.pop(number)[1].stop()
        await self._agree()
        for comer in one.coming:
            client = MqttClient("127.0.0.1", self.network.port(comer.home), connect_packet(comer.name), self._got)
            await client.start()
            await client.subscribe(*map(_topic, comer.first))
            if comer.then:
                await client.subscribe(*map(_topic, comer.then))
            assert client.redirects <= 1, "sent more than once"
            self.present[comer.number] = (comer, client)
        await self._agree()

    async def _agree(self) -> None:
        """All nodes know of each other what is so, by their own system and for admission."""
        nodes = self.network.nodes
        await until(lambda: sum(len(_here(node)) for node in nodes) == len(self.present))
        await until(lambda: all(_knows(node, nodes) for node in nodes))

    async def publish(self, entry: tuple[int, ...]) -> None:
        network = self.network
        writers = [await network.client(node, f"writer-{node}") for node in range(len(network.nodes))]
        expected = self.received + sum(len(one.first) + len(one.then) for one, _ in self.present.values())
        for topic, node in enumerate(entry):
            await writers[node].publish(_topic(topic), b"x" * 100)
        await until(lambda: self.received >= expected)
        await asyncio.sleep(0.2)
        assert self.received == expected, "something came twice"
        for writer in writers:
            await writer.stop()

    def counted(self) -> tuple[int, int]:
        kinds = ("inbound", "wanted", "relayed", "filtered", "duplicate")
        copies = sum(node.broker.planes.copies_total(kind) for node in self.network.nodes for kind in kinds)
        return int(copies), sum(node.broker.counts.messages_out for node in self.network.nodes)

    def seats(self) -> dict[int, int]:
        where = {name: number for number, node in enumerate(self.network.nodes) for name in _here(node)}
        return {number: where[one.name] for number, (one, _) in self.present.items()}

    async def end(self) -> None:
        await asyncio.gather(*(client.stop() for _, client in self.present.values()))


def _topic(number: int) -> str:
    return f"t/{number}"


def _here(node: LiveNode) -> list[str]:
    return [name for name, one in node.broker.sessions.of.items() if one.is_online]


def _knows(node: LiveNode, nodes: list[LiveNode]) -> bool:
    wanted = {other.config.node.id: set(other.broker.sessions.index.filters()) for other in nodes}
    told: dict[int, set[str]] = {other: set() for other in wanted}
    for topic, peer in node.broker.planes.in_use.state().children:
        told[peer].add(topic)
    admitting = node.broker.admitting
    if admitting is None:
        return True
    known = admitting.reception.others
    return all(
        other in known
        and set(known[other].filters()) == wanted[other]
        and known[other].connections == len(_here(nodes[other]))
        and known[other].wishes == nodes[other].broker.sessions.index.count
        for other in wanted
        if other != node.config.node.id
    )
