"""Clients to nodes: publishers counted, limits kept, moves priced, zones not left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.bounds import lower_bounds
from coterie.errors import ConfigError
from coterie.model import Publications, Relation, Workload
from coterie.model.prices import Prices
from coterie.substrate.placing import Balance, Zoning, client_weights, placed


def fleet(seed: int, clients: int = 240, topics: int = 40, nodes: int = 6) -> Workload:
    """Clients of eight kinds that want a few topics of theirs; some only publish, some do both."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(8, size=clients)
    rows = [
        [] if user % 4 == 0 else sorted({int(5 * kind[user] + cell) % topics for cell in draw.integers(8, size=3)})
        for user in range(clients)
    ]
    who = np.flatnonzero(np.arange(clients) % 4 < 2)
    topic = (5 * kind[who] + draw.integers(5, size=len(who))) % topics
    publications = Publications.of(who, topic, draw.integers(1, 20, len(who)) / 10)
    home = draw.integers(nodes, size=clients).astype(np.int32)
    return Workload("fleet", Relation.from_rows(rows, topics), publications, home, nodes)


def within(workload: Workload, node_of: np.ndarray, balance: Balance) -> bool:
    load = np.zeros((workload.node_count, 3))
    np.add.at(load, node_of, client_weights(workload))
    whole = np.array([np.ceil(len(node_of) / workload.node_count), 0.0, 0.0])
    limit = np.maximum((1 + balance.by_dimension) * load.mean(axis=0), whole)
    return bool((load <= limit * (1 + 1e-9)).all())


@given(st.integers(0, 500))
@settings(max_examples=15, deadline=None)
def test_limits_hold_and_copies_are_what_the_accountant_counts(seed: int) -> None:
    workload, balance = fleet(seed), Balance(0.1, 0.3)
    found = placed(workload, balance, seed)
    assert not found.heaviest
    assert within(workload, found.node_of, balance)
    for node_of, copies in ((found.node_of, found.copies), (workload.attachment, found.copies_before)):
        assert lower_bounds(workload, node_of).dissemination.wanted == pytest.approx(copies)
    assert found.copies < found.copies_before
    assert sorted(found.moves.tolist()) == np.flatnonzero(found.node_of != workload.attachment).tolist()


def test_sensors_and_dashboards() -> None:
    """2,000 sensors, 200 dashboards that want ten each, 8 brokers: balanced, and hardly a copy is left."""
    draw = np.random.default_rng(1)
    rows = [sorted(draw.permutation(2000)[:10].tolist()) for _ in range(200)] + [[]] * 2000
    publications = Publications.of(np.arange(200, 2200), np.arange(2000), np.ones(2000))
    home = draw.integers(8, size=2200).astype(np.int32)
    workload = Workload("sensors", Relation.from_rows(rows, 2000), publications, home, 8)
    found = placed(workload, Balance(0.05, 0.2), 1)
    assert found.copies < 0.5 * found.copies_before
    assert found.hottest[0] <= 1.05
    assert found.hottest[1] <= 1.2
    sensors = np.bincount(found.node_of[200:], minlength=8)
    assert sensors.max() < 1.2 * sensors.mean()


def test_a_client_too_heavy_is_named() -> None:
    workload = fleet(3)
    everything = Relation.from_rows(
        [list(range(40)) if user == 5 else workload.interests.row(user).tolist() for user in range(240)], 40
    )
    found = placed(replace(workload, interests=everything), Balance(0.1, 0.0), 1)
    assert [(one.client, one.dimension) for one in found.heaviest] == [(5, 1)]
    others = np.delete(found.load[:, 1], found.node_of[5])
    assert others.max() <= found.capacity[:, 1].max()


@pytest.mark.parametrize("seed", range(3))
def test_a_price_keeps_clients_where_they_are(seed: int) -> None:
    workload = fleet(seed)
    start = placed(workload, Balance(), seed).node_of
    rows = [workload.interests.row(user).tolist() for user in range(240)]
    for user in range(2, 240, 20):
        rows[user] = sorted({int(one + 11) % 40 for one in rows[user]})
    changed = replace(workload, interests=Relation.from_rows(rows, 40))
    few = placed(changed, Balance(), seed, present=start, move_price=0.3)
    none = placed(changed, Balance(), seed, present=start, move_price=1e9)
    assert 0 < len(few.moves) < 36
    assert few.copies + 0.3 * len(few.moves) < 0.7 * few.copies_before
    assert within(changed, few.node_of, Balance())
    if within(changed, start, Balance()):
        assert not len(none.moves)


def test_limits_hold_after_every_single_move() -> None:
    workload, balance = fleet(4), Balance(0.1, 0.5)
    start = placed(workload, balance, 9).node_of
    start = start[np.random.default_rng(1).permutation(240)] if not within(workload, start, balance) else start
    later = replace(workload, publications=replace(workload.publications, topic=workload.publications.topic[::-1]))
    found = placed(later, Balance(0.2, 2.0, 2.0), 2, present=start, move_price=0.01)
    assert len(found.moves)
    node_of = start.copy()
    for client in found.moves.tolist():
        node_of[client] = found.node_of[client]
        load = np.zeros((6, 3))
        np.add.at(load, node_of, client_weights(later))
        assert (load <= found.capacity * (1 + 1e-9)).all()
    assert np.array_equal(node_of, found.node_of)


def test_no_more_moves_than_allowed_and_the_best_first() -> None:
    workload = fleet(6)
    one, ten = (placed(workload, Balance(1.0, 5.0, 5.0), 1, move_price=0.01, moves_max=most) for most in (1, 10))
    assert len(one.moves) == 1
    assert 1 < len(ten.moves) <= 10
    assert ten.copies < one.copies < one.copies_before


def test_newcomers_are_admitted_where_they_cost_least() -> None:
    workload = fleet(7)
    now = placed(workload, Balance(), 1).node_of.copy()
    now[1] = -1
    found = placed(workload, Balance(0.5, 2.0, 2.0), 1, present=now, move_price=1e9)
    assert found.node_of[1] >= 0
    assert (found.node_of == now).sum() == 239


def test_nobody_leaves_its_zone() -> None:
    workload = replace(fleet(8), zone_of=np.array([0, 0, 0, 1, 1, 1], np.int32), zones=("a", "b"))
    for price in (0.0, 0.1):
        found = placed(workload, Balance(), 1, move_price=price)
        assert found.copies < found.copies_before
        assert np.array_equal(workload.zone_of[found.node_of], workload.zone_of[workload.attachment])


def test_capacities_scale_the_limits() -> None:
    workload = fleet(9)
    shares = np.array([4.0, 1, 1, 1, 1, 1])[:, None] * np.ones((1, 3))
    found = placed(workload, Balance(0.1, 0.5), 1, shares=shares)
    assert found.load[0, 0] > 80
    assert (found.load <= found.capacity * (1 + 1e-9)).all()


def test_the_same_seed_gives_the_same_placement() -> None:
    workload = fleet(10)
    assert np.array_equal(placed(workload, seed=4).node_of, placed(workload, seed=4).node_of)


def test_an_imbalance_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="messages"):
        Balance(0.1, -0.1)


def test_clients_that_may_be_anywhere_are_placed_across_zones() -> None:
    """Four clients of two tastes, one of each in either zone: only across zones can those alike sit together."""
    interests = Relation.from_rows([[0], [1], [0], [1]], 2)
    publications = Publications.of([0, 1], [0, 1], [1.0, 1.0])
    fleet = Workload("zones", interests, publications, np.array([0, 0, 1, 1], np.int32), 2)
    fleet = replace(fleet, zone_of=np.array([0, 1], np.int32), zones=("a", "b"))
    assert placed(fleet, Balance(0.0, 0.0)).copies == 2.0
    assert placed(replace(fleet, is_anywhere=True), Balance(0.0, 0.0)).copies == 0.0


def dashboards(seed: int, count: int = 5, nodes: int = 32) -> Workload:
    """A fleet with interest groups, and clients that want everything, spread out."""
    draw = np.random.default_rng(seed)
    clients, topics = 320, 120
    kind = draw.integers(40, size=clients)
    rows = [
        sorted({int(3 * kind[user] + cell) % topics for cell in draw.integers(5, size=3)}) for user in range(clients)
    ]
    rows += [list(range(topics))] * count
    publications = Publications.of(draw.integers(clients, size=300), draw.integers(topics, size=300), np.ones(300))
    home = draw.integers(nodes, size=clients + count).astype(np.int32)
    return Workload("dashboards", Relation.from_rows(rows, topics), publications, home, nodes)


def test_dashboards_that_want_everything_cost_no_more_than_packed_on_one_node() -> None:
    workload = dashboards(1)
    found = placed(workload, Balance(), 1)
    packed = found.node_of.copy()
    packed[-5:] = np.bincount(packed[-5:]).argmax()
    apart = found.node_of.copy()
    apart[-5:] = np.arange(5)
    assert found.copies <= lower_bounds(workload, packed).dissemination.wanted + 1e-9
    assert found.copies < 0.9 * lower_bounds(workload, apart).dissemination.wanted
    assert found.copies < 0.6 * found.copies_before
    assert {one.client for one in found.heaviest} <= set(range(320, 325))


CLOUD = Prices(per_gb_across_zones=0.02, per_million_messages=0.002)


def test_a_copy_across_costs_what_the_price_file_says() -> None:
    assert Zoning.of(CLOUD, 300.0).crossing == pytest.approx(300 * 0.02e-9 / 0.002e-6)
    assert Zoning.of(Prices(per_gb_across_zones=0.0), 300.0).crossing == 0
    assert Zoning.of(Prices(per_gb_across_zones=0.02), 300.0).crossing == 1000
    assert Zoning.of(Prices(clients="internet"), 300.0).is_outside
    with pytest.raises(ConfigError, match="crossing"):
        Zoning(-1.0)


def crossing_copies(workload: Workload, node_of: np.ndarray) -> float:
    """One to each other zone that wants it, event by event."""
    total, said = 0.0, workload.publications
    for publisher, topic, rate in zip(said.publisher, said.topic, said.rate, strict=True):
        users = [user for user in range(workload.subscriber_count) if topic in workload.interests.row(user)]
        wanting = {int(workload.zone_of[node_of[user]]) for user in users}
        total += rate * len(wanting - {int(workload.zone_of[node_of[publisher]])})
    return total


def test_clients_leave_their_zone_only_where_that_is_allowed_and_pays() -> None:
    workload = replace(fleet(8), zone_of=np.array([0, 1, 0, 1, 0, 1], np.int32), zones=("a", "b"))
    zones = workload.zone_of
    for price in (0.0, 0.01):
        pinned = placed(workload, Balance(), 1, move_price=price, zoning=Zoning(5.0))
        assert np.array_equal(zones[pinned.node_of], zones[workload.attachment])
        free = placed(workload, Balance(), 1, move_price=price, zoning=Zoning(5.0, may_leave=True, is_outside=True))
        assert crossing_copies(workload, free.node_of) < 0.7 * crossing_copies(workload, pinned.node_of)
        assert within(workload, free.node_of, Balance())
        paid = placed(workload, Balance(), 1, move_price=price, zoning=Zoning(5.0, may_leave=True))
        left = zones[paid.node_of] != zones[workload.attachment]
        fare = 5.0 * client_weights(workload)[left, 1].sum()
        total = paid.copies + 5.0 * crossing_copies(workload, paid.node_of) + fare + price * len(paid.moves)
        stay = pinned.copies + 5.0 * crossing_copies(workload, pinned.node_of) + price * len(pinned.moves)
        assert total <= stay + 1e-6 or not within(workload, pinned.node_of, Balance())


@given(st.integers(0, 500), st.floats(0.0, 0.5), st.booleans())
@settings(max_examples=15, deadline=None)
def test_limits_hold_at_every_moment_of_a_sequence_of_moves(seed: int, price: float, is_zoned: bool) -> None:
    """Connections, messages and bytes: whoever moves, no broker passes its limit that was not past it before."""
    workload = fleet(seed)
    size = np.random.default_rng(seed).integers(10, 2000, len(workload.publications.rate)).astype(float)
    workload = replace(workload, publications=replace(workload.publications, size=size))
    if is_zoned:
        zone_of = (np.arange(6) % 2).astype(np.int32)
        workload = replace(workload, zone_of=zone_of, zones=("a", "b"), is_anywhere=True)
    found = placed(workload, Balance(0.15, 0.4, 0.6), seed, move_price=price, zoning=Zoning(2.0))
    weight, node_of = client_weights(workload), workload.attachment.copy()
    load = np.zeros((6, 3))
    np.add.at(load, node_of, weight)
    most = np.maximum(load, found.capacity * (1 + 1e-9))
    for client in found.moves[: len(found.moves) - found.crowding].tolist():
        load[node_of[client]] -= weight[client]
        node_of[client] = found.node_of[client]
        load[node_of[client]] += weight[client]
        most = np.maximum(np.minimum(most, load), found.capacity * (1 + 1e-9))
        assert found.heaviest or (load <= most + 1e-9).all()
    assert price == 0 or found.crowding == 0
    assert found.crowding <= 0.05 * len(found.moves)
