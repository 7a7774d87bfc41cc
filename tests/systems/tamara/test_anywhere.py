"""Clusters over every system in the registry, priced and run: everybody is served once, and both bills agree."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.errors import ConfigError, RemoteProtocolError
from coterie.model import Design, Spread, Workload
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.model.store import load_design, save_design
from coterie.protocol.events import Event
from coterie.protocol.system import System, attach_as_given
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.sim.run import simulate, subscribe_all
from coterie.systems import SYSTEMS, system_named
from coterie.systems.scribe import ScribeParameters
from coterie.systems.tamara.anywhere import over, virtual_workload
from coterie.systems.tamara.layered import LINGER_S, numbered
from coterie.systems.tamara.stages import clusters_of, planned_channels
from tests.bills import differing
from tests.conftest import small_workload
from tests.systems.tamara.test_planned import tasteful_workload

LAYERS = [system for name, system in SYSTEMS.items() if name not in ("tamara", "topic-clusters")]
layered = pytest.mark.parametrize("system", [pytest.param(over(system), id=system.name) for system in LAYERS])


def random_latency(nodes: int, seed: int) -> Latency:
    """Ways of equal length would make the order of arrivals a matter of taste."""
    return Latency.matrix(np.random.default_rng(seed).integers(1_000, 200_000, (nodes, nodes)) / 1000)


def running(system: System, design: Design, workload: Workload, seed: int) -> Simulation:
    simulation = Simulation(system, system.parameters(), slices(design), seed, through_wire=True)
    simulation.start()
    subscribe_all(simulation, design.placement.node_of, workload.interests)
    simulation.settle(5.0, 10_000.0)
    return simulation


@layered
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_priced_and_simulated_ledgers_agree_over_any_layer(system: System, seed: int) -> None:
    """All but what it takes to set up: layers negotiate as they like. Nothing is missing, twice or unwanted.

    Where one tree or hub serves all channels below, pricing lets a node keep what it passes on for others, so there
    the bill is the same but for what copies are called, and delays differ by a few per cent.
    """
    workload = tasteful_workload(seed, 24, 8)
    design = system.plan(workload, seed=seed)
    latency = random_latency(24, seed)
    outcome = simulate(system, system.parameters(), design, workload, seed, latency, through_wire=True)
    priced = price(design, workload, latency)
    assert outcome.missing == []
    assert priced.loss.lost == 0
    volume = msgspec.structs.replace(outcome.ledger.volume, control=priced.volume.control)
    simulated = msgspec.structs.replace(outcome.ledger, control=priced.control, setup=priced.setup, volume=volume)
    if design.trees.spread in (Spread.FILTERED, Spread.THROUGH):
        assert simulated.dissemination.wanted == pytest.approx(priced.dissemination.wanted)
        assert simulated.dissemination.copies == pytest.approx(priced.dissemination.copies)
        assert simulated.volume.copies == pytest.approx(priced.volume.copies)
        assert simulated.delay.milliseconds.mean == pytest.approx(priced.delay.milliseconds.mean, rel=0.1)
        simulated = msgspec.structs.replace(
            simulated, dissemination=priced.dissemination, volume=priced.volume, delay=priced.delay
        )
    assert differing(simulated, priced) == {}


@layered
def test_clusters_are_used(system: System) -> None:
    workload = tasteful_workload(6, 40, 10, events_max=1)
    design = system.plan(workload, seed=1)
    assert design.bundles is not None
    assert design.bundles.members.pair_count > 0
    told = slices(design, [3])[0].channels
    assert {part.channel - 10 for part in told if part.is_member} == set(design.bundles.members.transposed.row(3))
    owed = price(SYSTEMS["scribe"].plan(workload), workload).loss.owed
    assert price(design, workload).loss.owed == pytest.approx(owed)


@layered
@pytest.mark.parametrize("subscribers", [None, 40])
def test_anything_can_be_published_by_anybody(system: System, subscribers: int | None) -> None:
    workload = small_workload(20, 6, seed=4, subscribers=subscribers, wanted=0.5)
    design = system.plan(workload, seed=4)
    simulation = running(system, design, workload, 4)
    for topic in range(6):
        for node in range(0, 20, 4):
            simulation.publish(node, topic, b"what it is")
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []
    leaving = [(node, topic) for node in range(0, 20, 3) for topic in list(simulation.book.wanting[node])]
    for node, topic in leaving:
        while topic in simulation.book.wanting[node]:
            simulation.unsubscribe(node, topic)
    simulation.subscribe(1, 0)  # whether or not it was wanted when the plan was made
    simulation.settle(5.0, 10_000.0)
    for topic in range(6):
        simulation.publish(5, topic)
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []


@layered
@pytest.mark.parametrize("seed", range(2))
def test_recovers_with_the_layer_below(system: System, seed: int) -> None:
    workload = tasteful_workload(seed, 24, 6)
    design = system.plan(workload, seed=seed)
    outcome = simulate(system, system.parameters(), design, workload, seed, faults=FaultMix(crash_share=0.15))
    assert outcome.probes > 0
    assert all(missing.reason for missing in outcome.missing)


@layered
def test_a_later_workload_keeps_the_clusters(system: System) -> None:
    first, second = tasteful_workload(3, 30, 8), tasteful_workload(4, 30, 8)
    design = system.plan(first, seed=3)
    later = system.adopt(design, second, seed=3)
    assert later.overlay is design.overlay
    assert price(later, second).loss.lost == 0
    simulation = running(system, later, second, 3)
    simulation.run_until(simulation.now_s + 600)  # SpiderCast grows links for interests it was not planned for
    for topic in range(8):
        simulation.publish(topic, topic)
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []


def test_a_new_plan_is_taken_up_without_losing_an_event() -> None:
    system = over(SYSTEMS["scribe"])
    first, second = tasteful_workload(1, 40, 10), tasteful_workload(2, 40, 10)
    before, after = system.plan(first, seed=1), system.plan(second, seed=1)
    simulation = running(system, before, first, 1)
    changes = slices(system.adopt(after, first, seed=1), version=1)
    start_s = simulation.now_s
    for step in range(250):
        simulation.at(start_s + step, lambda step=step: simulation.publish(step % 40, step % 10))
    for node in range(40):
        simulation.at(start_s + 2 + 2 * node, lambda node=node: simulation.plan(node, changes[node]))
    simulation.run_until(start_s + 300)
    assert simulation.book.missing() == []
    joined = {channel for node in simulation.nodes if node for channel in node.state().memberships}
    told = {part.channel for part in changes[0].channels}
    assert {channel for channel in joined if channel >= 10} <= told
    assert LINGER_S > 80  # the plan above is spread over that long


@pytest.mark.parametrize("name", ["flooding", "scribe"])
def test_designs_are_kept_on_disk_with_their_clusters(name: str, tmp_path: object) -> None:
    design = over(SYSTEMS[name]).plan(tasteful_workload(6, 20, 8), seed=1)
    path = f"{tmp_path}/design"
    save_design(design, path)
    assert slices(load_design(path)) == slices(design)


@layered
@given(garbage=st.binary(max_size=60))
def test_garbage_is_the_peers_fault(system: System, garbage: bytes) -> None:
    codec = system.codec()
    try:
        message = codec.decode(b"\x01" + garbage, peer="node 7")
    except RemoteProtocolError as error:
        blamed = str(error).startswith("node 7: ")
    else:
        blamed = codec.decode(codec.encode(message)) == message
    assert blamed


def test_an_event_has_a_number_of_its_own_in_every_channel() -> None:
    numbers = {numbered(Event(id, "a/b"), channel).id for id in range(50) for channel in ("a/b", *range(50))}
    assert len(numbers) == 50 * 51


def test_found_by_name_and_only_over_systems_without_clusters() -> None:
    assert system_named("magnet+clusters").name == "magnet+clusters"
    for name in ("tamara+clusters", "topic-clusters+clusters", "scribe+clusters+clusters", "nothing+clusters"):
        with pytest.raises(ConfigError):
            system_named(name)


def test_publications_enter_every_channel_with_members() -> None:
    workload = tasteful_workload(6, 40, 10)
    channels = planned_channels(workload, attach_as_given(workload, None, 0), None, 0)  # type: ignore[arg-type]
    assert clusters_of(channels).row_count > 0
    below = virtual_workload(workload, workload.attachment, channels, ScribeParameters())
    assert below.workload.interests.pair_count < workload.interests.pair_count
    members = below.workload.interests.transposed
    for channel in range(channels.count):
        carried = channels.topics.row(channel)
        is_entered = channel < 10 or len(members.row(channel)) > 0
        expected = workload.rates[carried].sum() if is_entered else 0.0
        assert below.workload.rates[channel] == pytest.approx(expected)
    topics = channels.topics.transposed
    for origin, channel in zip(below.origin, below.workload.publications.topic, strict=True):
        assert channel in topics.row(workload.publications.topic[origin])
