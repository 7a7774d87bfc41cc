"""A hub and bridges: where copies go, how they are called, and how it lives through the loss of its hub."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.model import Publications, Relation, Workload
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, FaultMix, Restart
from coterie.sim.run import SPAN_S, simulate
from coterie.systems.star import SYSTEM, StarParameters, hub_of
from coterie.trace import TraceEvent, Traffic
from tests.bills import differing
from tests.conftest import small_workload

KINDS = [StarParameters(crossing=crossing, hub=hub) for crossing in ("all", "wanted") for hub in (0, 2, -1)]
every_kind = pytest.mark.parametrize("parameters", KINDS, ids=[f"{one.crossing} {one.hub}" for one in KINDS])


def running(parameters: StarParameters, nodes: int = 6, tracer: list[TraceEvent] | None = None) -> Simulation:
    design = SYSTEM.plan(small_workload(nodes, 3, seed=1, wanted=0.0), parameters)
    watch = None if tracer is None else tracer.append
    simulation = Simulation(SYSTEM, parameters, slices(design), seed=1, tracer=watch, through_wire=True)
    simulation.start()
    simulation.settle(5.0, 100.0)
    return simulation


def one_event(nodes: int, wanting: list[int], publisher: int) -> Workload:
    interests = Relation.from_rows([[0] if node in wanting else [] for node in range(nodes)], 1)
    return Workload(
        "one", interests, Publications.of([publisher], [0], [1 / SPAN_S]), np.arange(nodes, dtype=np.int32), nodes
    )


@every_kind
@settings(max_examples=30)
@given(nodes=st.integers(3, 20), topics=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_simulated_and_priced_ledgers_agree(parameters: StarParameters, nodes: int, topics: int, seed: int) -> None:
    workload = small_workload(nodes, topics, seed, subscribers=None if seed % 2 else 2 * nodes)
    design = SYSTEM.plan(workload, parameters, seed)
    latency = Latency.matrix(np.random.default_rng(seed).integers(1_000, 200_000, (nodes, nodes)) / 1000)
    simulated = simulate(SYSTEM, parameters, design, workload, seed, latency).ledger
    assert differing(simulated, price(design, workload, latency)) == {}


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("crossing", ["all", "wanted"])
@pytest.mark.parametrize("hub", [0, -1])
def test_the_smallest_stars(nodes: int, crossing: str, hub: int) -> None:
    workload = small_workload(nodes, 3, seed=4, wanted=0.6)
    parameters = StarParameters(crossing=crossing, hub=hub)
    design = SYSTEM.plan(workload, parameters)
    simulated = simulate(SYSTEM, parameters, design, workload, seed=1).ledger
    assert differing(simulated, price(design, workload)) == {}


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_recovers_from_storms(parameters: StarParameters, seed: int) -> None:
    workload = small_workload(20, 5, seed, subscribers=40)
    design = SYSTEM.plan(workload, parameters, seed)
    outcome = simulate(SYSTEM, parameters, design, workload, seed, faults=FaultMix(crash_share=0.15))
    assert outcome.probes > 0
    assert all(missing.reason for missing in outcome.missing)


@pytest.mark.parametrize(
    ("crossing", "wanting", "publisher", "wanted", "relayed", "filtered"),
    [
        ("all", [1], 1, 0, 1, 3),  # nobody else wants it: the hub has it, and so have three spokes
        ("all", [0, 2], 1, 2, 0, 2),
        ("all", [2], 0, 1, 0, 3),  # published at the hub
        ("wanted", [1], 1, 0, 1, 0),  # a spoke cannot know
        ("wanted", [2, 3], 1, 2, 1, 0),
        ("wanted", [0, 2], 1, 2, 0, 0),  # the hub is a member and relays
        ("wanted", [], 0, 0, 0, 0),
    ],
)
def test_what_copies_are_called(
    crossing: str, wanting: list[int], publisher: int, wanted: int, relayed: int, filtered: int
) -> None:
    parameters = StarParameters(crossing=crossing)
    workload = one_event(5, wanting, publisher)
    design = SYSTEM.plan(workload, parameters)
    for ledger in (price(design, workload), simulate(SYSTEM, parameters, design, workload, seed=1).ledger):
        booked = ledger.dissemination
        columns = (booked.wanted, booked.relayed, booked.filtered, booked.duplicate, booked.inbound)
        assert [one * SPAN_S for one in columns] == pytest.approx([wanted, relayed, filtered, 0, 0])


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_the_chosen_hub_makes_the_fewest_copies(seed: int) -> None:
    workload = small_workload(7, 5, seed, subscribers=14)
    chosen = SYSTEM.plan(workload, StarParameters(crossing="wanted", hub=-1))
    copies = [
        price(SYSTEM.plan(workload, StarParameters(crossing="wanted", hub=hub)), workload).dissemination.copies
        for hub in range(7)
    ]
    assert price(chosen, workload).dissemination.copies == pytest.approx(min(copies))


def test_under_all_every_event_goes_everywhere_whatever_the_hub() -> None:
    workload = small_workload(7, 5, seed=2, subscribers=14)
    for hub in range(7):
        ledger = price(SYSTEM.plan(workload, StarParameters(hub=hub)), workload)
        assert ledger.dissemination.copies == pytest.approx(6 * workload.publications.rate.sum())
        assert ledger.setup.messages == 0


def test_a_later_workload_keeps_the_hub() -> None:
    parameters = StarParameters(crossing="wanted", hub=-1)
    first = small_workload(7, 5, seed=2, subscribers=14)
    design = SYSTEM.plan(first, parameters)
    hub = hub_of(design.overlay)
    others = [small_workload(7, 5, seed, subscribers=14) for seed in range(20)]
    moved = next(one for one in others if hub_of(SYSTEM.plan(one, parameters).overlay) != hub)
    assert set(SYSTEM.adopt(design, moved, parameters).trees.root.tolist()) == {hub}


def test_only_the_hub_passes_on_so_nothing_goes_round() -> None:
    for crossing in ("all", "wanted"):
        lines: list[TraceEvent] = []
        simulation = running(StarParameters(crossing=crossing, hub=3), tracer=lines)
        for node in range(6):
            simulation.subscribe(node, 0)
        simulation.run_until(simulation.now_s + 1)
        simulation.publish(1, 0)
        simulation.run_until(simulation.now_s + 1)
        copies = [(line.node, line.peer) for line in lines if line.what == "sent" and line.traffic == Traffic.EVENT]
        assert copies == [(1, 3), (3, 0), (3, 2), (3, 4), (3, 5)]
        assert simulation.book.missing() == []


def test_spokes_tell_the_hub_alone_and_under_all_they_tell_nothing() -> None:
    for crossing, told in (("wanted", 2), ("all", 0)):
        simulation = running(StarParameters(crossing=crossing))
        for node in (0, 1, 2):  # the hub and two spokes
            simulation.subscribe(node, 0)
        simulation.run_until(simulation.now_s + 1)
        assert simulation.book.sent[Traffic.SUBSCRIPTION] == told


def test_a_hub_that_comes_back_learns_what_is_wanted_at_once() -> None:
    simulation = running(StarParameters(crossing="wanted"))
    for node in (2, 4):
        simulation.subscribe(node, 1)
    simulation.run_until(simulation.now_s + 1)
    start_s = simulation.now_s
    simulation.inject(Crash(start_s + 1, 0))
    simulation.at(start_s + 2, lambda: simulation.publish(1, 1))  # lost: a star has one point that must not fail
    simulation.at(start_s + 3, lambda: simulation.subscribe(5, 1))
    simulation.inject(Restart(start_s + 20, 0))
    simulation.run_until(start_s + 21)
    assert {(one.event, one.node) for one in simulation.book.missing()} == {(0, 2), (0, 4)}
    simulation.publish(1, 1)
    simulation.run_until(start_s + 22)
    assert {one.event for one in simulation.book.missing()} == {0}
    assert simulation.book.tally.wanted == 3


def test_a_hub_that_no_node_is() -> None:
    workload = small_workload(4, 2, seed=1)
    with pytest.raises(ConfigError, match="hub"):
        SYSTEM.plan(workload, StarParameters(hub=4))
    with pytest.raises(ConfigError, match="hub"):
        StarParameters(hub=-2)
    with pytest.raises(ConfigError, match="crossing: expected one of all, wanted, got 'some'"):
        SYSTEM.configure({"crossing": "some"})


def test_pruning_saves_exactly_what_was_filtered() -> None:
    workload = small_workload(8, 6, seed=5, subscribers=20)
    everything, pruned = (
        price(SYSTEM.plan(workload, StarParameters(crossing=crossing)), workload).dissemination
        for crossing in ("all", "wanted")
    )
    assert pruned.wanted == pytest.approx(everything.wanted)
    assert pruned.relayed == pytest.approx(everything.relayed)
    assert pruned.filtered == 0
    assert everything.filtered > 0
