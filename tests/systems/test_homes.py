"""Homes: events by way of the topic's home, announcements to it alone, and what happens when it is gone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.model import Publications, Relation, Workload
from coterie.model.plan import slices
from coterie.model.store import load_design, save_design
from coterie.model.workload import Wishes
from coterie.sim.engine import Simulation
from coterie.sim.run import subscribe_all
from coterie.substrate.identifiers import topic_keys
from coterie.systems import mesh
from coterie.systems.homes import SYSTEM, HomesNode, HomesParameters, hashed_home, hashed_homes, homes_of
from coterie.trace import Traffic
from tests.conftest import small_workload

NODES = 6


def running(workload: Workload, parameters: HomesParameters | None = None) -> Simulation:
    chosen = parameters or HomesParameters()
    design = SYSTEM.plan(workload, chosen)
    simulation = Simulation(SYSTEM, chosen, slices(design), seed=1, through_wire=True)
    simulation.start()
    subscribe_all(simulation, workload.attachment, workload.interests)
    simulation.settle(5.0, 100.0)
    return simulation


def crowd() -> Workload:
    """Topic 0: two clients at node 1, one at 2, one at 3; topic 1: nobody, published at 4; topic 2: neither."""
    interests = Relation.from_rows([[0], [0], [0], [0], []], 3)
    publications = Publications.of([4, 4], [0, 1], [1.0, 1.0])
    return Workload("homes", interests, publications, np.array([1, 1, 2, 3, 4], np.int32), NODES)


def test_a_home_is_where_most_of_its_subscribers_are() -> None:
    workload = crowd()
    design = SYSTEM.plan(workload)
    assert design.trees.root.tolist()[:2] == [1, 4]
    bill = price(design, workload)
    assert bill.dissemination.copies == 3  # to the home, which wants it, and from there to two
    assert bill.dissemination.relayed == 0
    assert bill.setup.messages == 2
    assert bill.delay.hops.max == 2


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_few_more_copies_than_a_mesh_and_a_fraction_of_its_announcements(seed: int) -> None:
    """An event costs at most one copy more, and none if somebody wants it and nobody published it elsewhere."""
    workload = small_workload(12, 6, seed, subscribers=30)
    ours, theirs = price(SYSTEM.plan(workload), workload), price(mesh.SYSTEM.plan(workload), workload)
    events = float(workload.publications.rate.sum())
    assert theirs.dissemination.copies <= ours.dissemination.copies + 1e-9
    assert ours.dissemination.copies <= theirs.dissemination.copies + events + 1e-9
    assert ours.setup.messages <= theirs.setup.messages / 11
    wanted = workload.node_interests().lengths.sum()
    assert ours.setup.messages == wanted - np.count_nonzero(workload.node_interests().transposed.lengths)


def test_both_forms_of_the_hash_agree_and_spread_topics_evenly() -> None:
    homes = hashed_homes(topic_keys(5000), 7)
    assert [hashed_home(topic, range(7)) for topic in range(200)] == homes[:200].tolist()
    assert np.bincount(homes).max() < 1.15 * 5000 / 7
    fewer = np.array([hashed_home(topic, [0, 1, 2, 4, 5, 6]) for topic in range(500)])
    assert np.all((fewer == homes[:500]) | (homes[:500] == 3))  # only what was there moves


def test_a_wildcard_is_told_to_every_node() -> None:
    workload = replace(
        crowd(),
        wishes=Wishes(Relation.from_rows([[0], [0], [0], [1], []], 2), Relation.from_rows([[0], [0, 1]], 3)),
    )
    assert SYSTEM.plan(workload).announcements == 1 + (NODES - 1)


def test_a_change_is_told_to_the_home_and_to_nobody_else() -> None:
    simulation = running(crowd())
    before = simulation.book.sent[Traffic.SUBSCRIPTION]
    simulation.subscribe(5, 0)
    simulation.run_until(simulation.now_s + 1)
    simulation.unsubscribe(5, 0)
    simulation.run_until(simulation.now_s + 1)
    assert simulation.book.sent[Traffic.SUBSCRIPTION] == before + 2
    home = simulation.nodes[1]
    assert isinstance(home, HomesNode)
    assert sorted(home.wanted_by[0]) == [2, 3]


def test_when_the_home_is_gone_nothing_is_lost_to_the_living() -> None:
    """What was on its way to it, what is published while others do not know, and later, when all do."""
    simulation = running(crowd())
    simulation._remove(1)
    for wait_s in (0.0, 3.0, 30.0, 200.0):
        simulation.run_until(simulation.now_s + wait_s)
        simulation.publish(4, 0)
    simulation.run_until(simulation.now_s + 10)
    assert {one.node for one in simulation.book.missing()} == {1}
    sent = simulation.book.sent[Traffic.EVENT]
    simulation.publish(4, 0)
    simulation.run_until(simulation.now_s + 10)
    assert simulation.book.sent[Traffic.EVENT] - sent <= 3  # not to all any more


def test_when_the_home_is_back_it_is_home_again() -> None:
    simulation = running(crowd())
    simulation._remove(1)
    simulation.publish(4, 0)
    simulation.run_until(simulation.now_s + 300)
    simulation.start_node(1)
    for _ in range(2):
        simulation.subscribe(1, 0)
    simulation.run_until(simulation.now_s + 20)
    first = len(simulation.book.events)
    sent = simulation.book.sent[Traffic.EVENT]
    simulation.publish(4, 0)
    simulation.run_until(simulation.now_s + 10)
    assert [one for one in simulation.book.missing() if one.event >= first and one.node != 1] == []
    assert simulation.book.sent[Traffic.EVENT] - sent == 3


def test_the_plan_survives_the_store(tmp_path: object) -> None:
    design = SYSTEM.plan(crowd())
    path = f"{tmp_path}/design.npz"
    save_design(design, path)
    assert slices(load_design(path)) == slices(design)
    assert {part.node: part.topics for part in slices(design)[0].homes} == {1: (0,), 4: (1,)}


def test_without_a_plan_homes_are_by_hash() -> None:
    workload = crowd()
    parameters = HomesParameters(at="hash")
    placement = SYSTEM.stages.placement(workload, parameters, 0)
    assert homes_of(workload, placement, parameters).tolist() == hashed_homes(topic_keys(3), NODES).tolist()
    assert slices(SYSTEM.plan(workload, parameters))[0].homes == ()


def test_parameters_are_checked() -> None:
    with pytest.raises(ConfigError, match="at"):
        HomesParameters(at="anywhere")
