"""Filters in running brokers: every document reaches exactly the brokers with a matching filter, whatever changes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.model.plan import slices
from coterie.protocol.events import Event
from coterie.sim.engine import Simulation
from coterie.systems.content import SYSTEM, ContentNode, ContentParameters
from coterie.systems.content.filtering import INDEXED_MIN, Gates, attributes_of, filter_of, selects
from coterie.systems.content.messages import Entry
from coterie.trace import Traffic
from tests.systems.content.test_node import content_topics, coordinator, version

CONDITIONS = (
    "price > 3",
    "price >= 3 and price < 7",
    "price <= 2",
    "symbol = NOK",
    "symbol in (NOK, MOT)",
    "symbol prefix N and price > 1",
    "exists alert",
    "nokia or motorola",
    'topic = "5"',
    "topic prefix '1' and (price > 2 or alert)",
)


def document(random: np.random.Generator) -> bytes:
    """Some attributes, or a list of keywords, or nothing that can be read."""
    kind = int(random.integers(6))
    if kind == 0:
        return (b"", b"{", b"[1", b"text", b"[[]]")[int(random.integers(5))]
    if kind == 1:
        return json.dumps([word for word in ("nokia", "motorola", "alert") if random.random() < 0.4]).encode()
    body: dict[str, object] = {"price": int(random.integers(10)), "depth": {"ignored": 1}, "none": None}
    if random.random() < 0.7:
        body["symbol"] = str(random.choice(["NOK", "NET", "MOT"]))
    if random.random() < 0.3:
        body["alert"] = True
    return json.dumps(body).encode()


def brokers(seed: int, **settings: object) -> Simulation:
    """25 brokers with a few filters and topics each."""
    workload = content_topics(seed)
    parameters = ContentParameters(**settings)  # type: ignore[arg-type]
    simulation = Simulation(
        SYSTEM, parameters, slices(SYSTEM.plan(workload, parameters, seed)), seed, through_wire=True
    )
    simulation.book.selects = selects
    simulation.start()
    random = np.random.default_rng(seed)
    for _ in range(30):
        simulation.subscribe(int(random.integers(25)), f"?{random.choice(CONDITIONS)}")
        simulation.subscribe(int(random.integers(25)), int(random.integers(8)))
    simulation.settle(5.0, 600.0)
    return simulation


def publish_all(simulation: Simulation, random: np.random.Generator, count: int) -> None:
    for _ in range(count):
        simulation.publish(int(random.integers(25)), int(random.integers(20)), document(random))
    simulation.run_until(simulation.now_s + 10)


@given(st.integers(0, 10_000), st.sampled_from(["keyword", "node"]), st.integers(0, 4))
@settings(max_examples=15)
def test_exactly_the_brokers_with_a_matching_filter(seed: int, unit: str, groups_max: int) -> None:
    """The driver's book matches every subscription with every document; it also objects to deliveries not wanted."""
    simulation = brokers(seed, unit=unit, groups_max=groups_max)
    publish_all(simulation, np.random.default_rng(seed), 60)
    assert not simulation.book.missing()
    assert simulation.book.tally.owed > 0


def test_no_more_copies_than_the_trees_need() -> None:
    """On one tree without duplicates a document crosses each link at most once, and none towards nobody."""
    simulation = brokers(3, groups_max=1)
    node = coordinator(simulation)
    assert node._desk is not None
    assert node._desk.active is not None
    tree = node._desk.active.strategy.trees[0]
    random = np.random.default_rng(3)
    for _ in range(40):
        publisher, topic, body = int(random.integers(25)), int(random.integers(20)), document(random)
        event = Event(0, topic, body)
        wanting = [
            at for at, topics in enumerate(simulation.book.wanting) if any(selects(one, event) for one in topics)
        ]
        before = simulation.book.sent[Traffic.EVENT]
        simulation.publish(publisher, topic, body)
        simulation.run_until(simulation.now_s + 5)
        ends = {publisher, *wanting}
        crossed = 0
        for child in range(25):
            below = {one for one in ends if _is_below(tree.parent.tolist(), one, child)}
            crossed += tree.parent[child] >= 0 and bool(below) and below != ends
        assert simulation.book.sent[Traffic.EVENT] - before == crossed


def _is_below(parent: list[int], node: int, top: int) -> bool:
    while node >= 0:
        if node == top:
            return True
        node = parent[node]
    return False


@pytest.mark.parametrize(("unit", "groups_max"), [("keyword", 0), ("keyword", 2), ("node", 3)])
def test_filters_that_come_and_go(unit: str, groups_max: int) -> None:
    simulation = brokers(5, unit=unit, groups_max=groups_max)
    before = version(simulation)
    random = np.random.default_rng(7)
    for _ in range(4):
        for _ in range(15):
            node = int(random.integers(25))
            topic: int | str = f"?{random.choice(CONDITIONS)}" if random.random() < 0.7 else int(random.integers(30))
            if topic in simulation.book.wanting[node]:
                simulation.unsubscribe(node, topic)
            else:
                simulation.subscribe(node, topic)
        simulation.settle(5.0, 600.0)
        publish_all(simulation, random, 40)
        assert not simulation.book.missing()
    assert version(simulation) == before, "changed filters do not need a new strategy"


@pytest.mark.parametrize(("unit", "groups_max"), [("keyword", 0), ("keyword", 3), ("node", 3)])
def test_documents_published_while_groups_are_replaced_all_arrive(unit: str, groups_max: int) -> None:
    """Section VI with filters: what is published, and from where, changes with time, so strategies do too."""
    simulation = brokers(11, unit=unit, groups_max=groups_max, sampling=1.0, review_s=3.0, window_s=5.0, threshold=0.0)
    first = version(simulation)
    random = np.random.default_rng(1)
    start_s = simulation.now_s
    for at in range(1500):
        node, topic, body = (at // 300 * 4 + int(random.integers(4))) % 25, int(random.integers(20)), document(random)
        simulation.at(
            start_s + at / 50, lambda node=node, topic=topic, body=body: simulation.publish(node, topic, body)
        )
    simulation.run_until(start_s + 60)
    assert version(simulation) >= first + 2, "the test must see replacements"
    assert not simulation.book.missing()
    assert simulation.book.tally.owed > 1500


def test_many_filters_are_found_by_an_index() -> None:
    random = np.random.default_rng(0)
    gates, listed = Gates(), []
    for number in range(3 * INDEXED_MIN):
        low = int(random.integers(100))
        topic = f"?price >= {low} and price < {low + 10} and symbol = S{number % 5}"
        entry = Entry(number % 4, topic, (number, number + 1), False)
        gates.apply(entry)
        listed.append(entry)
    for _ in range(50):
        found = {"price": float(random.integers(100)), "symbol": f"S{random.integers(6)}"}
        expected: dict[int, set[int]] = {}
        for entry in {(one.group, one.topic): one for one in listed}.values():
            wanted = filter_of(entry.topic)
            if wanted is not None and wanted.matches(found):
                expected.setdefault(entry.group, set()).update(entry.links)
        assert {group: set(links) for group, links in gates.links(found).items()} == expected


def test_what_only_looks_like_a_filter_is_a_topic() -> None:
    simulation = brokers(2)
    simulation.subscribe(4, "?price >")
    simulation.settle(5.0, 600.0)
    event = simulation.publish(9, "?price >", b"{}")
    assert event is not None
    simulation.run_until(simulation.now_s + 5)
    assert not simulation.book.missing()
    assert attributes_of(event) == {"topic": "?price >"}


def test_a_broker_node_is_what_it_says() -> None:
    simulation = brokers(6)
    for node in simulation.nodes:
        assert isinstance(node, ContentNode)
        tables = node._tables[node._active]
        assert tables.gates, "filters somewhere in the network mean entries everywhere"
        assert set(node.state().memberships) == tables.hosted()
