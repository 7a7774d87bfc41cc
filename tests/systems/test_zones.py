"""Zone relays: one copy into every zone, whoever carries it, and what a dead relay does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.kernels.pricing import handing
from coterie.model import Publications, Relation, Workload
from coterie.model.plan import slices
from coterie.model.store import load_design, save_design
from coterie.sim.engine import Simulation
from coterie.substrate.identifiers import splitmix64
from coterie.systems import mesh, system_named
from coterie.systems.zones import relay_score, zoned
from coterie.trace import Traffic
from tests.conftest import small_workload

ZONED = system_named("mesh+zones")
NODES, ZONES = 9, 3


def everybody(topics: int = 1) -> Workload:
    """All nodes want all topics; all is published at node 0. Zone 0 is nodes 0, 3, 6."""
    interests = Relation.from_rows([range(topics)] * NODES, topics)
    publications = Publications.of([0] * topics, range(topics), [1.0] * topics)
    nodes = np.arange(NODES, dtype=np.int32)
    return Workload("zones", interests, publications, nodes, NODES, zone_of=nodes % ZONES)


def running(name: str) -> Simulation:
    system, workload = system_named(name), everybody()
    simulation = Simulation(
        system, system.parameters(), slices(system.plan(workload)), 1, through_wire=True, zone_of=[0, 1, 2] * 3
    )
    simulation.start()
    for node in range(NODES):
        simulation.subscribe(node, 0)
    simulation.settle(5.0, 100.0)
    return simulation


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_over_a_mesh_nobody_crosses_less(seed: int) -> None:
    """The same copies as the mesh's, and across zones as few as possible."""
    workload = small_workload(12, 6, seed, subscribers=30)
    workload = replace(workload, zone_of=np.random.default_rng(seed).integers(0, 4, 12).astype(np.int32))
    ours, theirs = price(ZONED.plan(workload), workload), price(mesh.SYSTEM.plan(workload), workload)
    bound = lower_bounds(workload)
    assert ours.dissemination == theirs.dissemination
    assert ours.crossing.copies == pytest.approx(bound.crossing.copies)
    assert ours.crossing.bytes == pytest.approx(bound.crossing.bytes)
    assert ours.crossing.copies <= theirs.crossing.copies + 1e-9
    assert ours.delay.hops.max <= 2


@pytest.mark.parametrize(
    ("name", "copies", "across"),
    [("mesh+zones", 8, 2), ("homes+zones", 8, 2), ("star+zones:wanted", 8, 2), ("flooding+zones", 8, 2)],
)
def test_one_copy_per_zone(name: str, copies: int, across: int) -> None:
    name, _, crossing = name.partition(":")
    system, workload = system_named(name), everybody()
    bill = price(system.plan(workload, system.configure({"crossing": crossing} if crossing else {})), workload)
    assert (bill.dissemination.copies, bill.crossing.copies) == (copies, across)


def test_both_forms_choose_the_same_relay_and_topics_spread_over_all() -> None:
    assert relay_score(5, 3, 7) == int(handing.relay_score(np.uint64(splitmix64(5)), 3, 7))
    workload = everybody(topics=600)
    load = np.zeros(NODES)
    for topic in range(600):
        load[min((1, 4, 7), key=lambda node: relay_score(topic, 0, node))] += 1
    assert load.max() < 1.2 * 200
    bill = price(ZONED.plan(workload), workload)
    assert bill.load.messages.max < price(mesh.SYSTEM.plan(workload), workload).load.messages.max


@pytest.mark.parametrize("name", ["mesh+zones", "homes+zones", "star+zones", "flooding+zones"])
def test_a_dead_relay_is_passed_over_and_loses_nobody_anything(name: str) -> None:
    simulation = running(name)
    sender = next(node for node in range(NODES) if node % 3 == 0)
    relay = min((1, 4, 7), key=lambda node: relay_score(0, sender, node))
    for gone in {relay, 4} - {0}:
        simulation._remove(gone)
        for _ in range(3):
            simulation.publish(sender, 0)
            simulation.run_until(simulation.now_s + 5)
    assert {one.node for one in simulation.book.missing()} <= {relay, 4}


def test_after_a_dead_relay_there_is_one_copy_per_zone_again() -> None:
    simulation = running("mesh+zones")
    relay = min((1, 4, 7), key=lambda node: relay_score(0, 0, node))
    simulation._remove(relay)
    simulation.publish(0, 0)
    simulation.run_until(simulation.now_s + 5)
    simulation.book.take_tally()
    simulation.publish(0, 0)
    simulation.run_until(simulation.now_s + 5)
    # One to each zone; the mesh still tries the dead node, through the new relay of its zone.
    assert simulation.book.take_tally().crossing[0] == 2


def test_links_inside_a_zone_are_kept_alive_where_the_system_below_has_none() -> None:
    system, workload = system_named("star+zones"), everybody()
    overlay = system.plan(workload).overlay
    assert overlay.link_count == 8 + 9 - 2  # the hub's, and three in each zone, of which the hub has two
    simulation = running("star+zones")
    before = simulation.book.sent[Traffic.LINK_KEEPALIVE]
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.sent[Traffic.LINK_KEEPALIVE] - before == 2 * overlay.link_count


def test_a_plan_with_zones_survives_the_store(tmp_path: object) -> None:
    for name in ("mesh+zones", "star+zones"):
        design = system_named(name).plan(everybody())
        path = f"{tmp_path}/design.npz"
        save_design(design, path)
        again = load_design(path)
        assert slices(again) == slices(design)
        assert price(again, everybody()).columns() == price(design, everybody()).columns()


def test_what_it_fits() -> None:
    assert not ZONED.fits(replace(everybody(), zone_of=None))
    assert ZONED.fits(everybody())
    with pytest.raises(ConfigError, match="scribe"):
        zoned(system_named("scribe"))
    with pytest.raises(ConfigError, match="nothing"):
        system_named("nothing+zones")
