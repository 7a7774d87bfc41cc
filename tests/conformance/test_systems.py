"""The contract of a system: named checks, each run on every system in the registry."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.errors import ConfigError, RemoteProtocolError
from coterie.model import Workload
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.protocol.events import EventMessage
from coterie.protocol.system import System
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.sim.run import SPAN_S, STORM_S, simulate, subscribe_all
from coterie.systems import SYSTEMS
from coterie.trace import TraceEvent
from tests.bills import differing
from tests.conformance.deviations import CHECKED, DEVIATIONS, instance_for
from tests.conftest import small_workload


def check_name(name: str) -> list[object]:
    """Parametrise over the registry, marking the deviations of this check with their reasons."""
    return [
        pytest.param(system, id=system.name, marks=[pytest.mark.skip(reason=DEVIATIONS[system.name, name])])
        if (system.name, name) in DEVIATIONS
        else pytest.param(system, id=system.name)
        for system in CHECKED
    ]


def running(system: System, workload: Workload, seed: int = 1, through_wire: bool = True) -> Simulation:
    design = system.plan(workload, seed=seed)
    simulation = Simulation(system, system.parameters(), slices(design), seed, through_wire=through_wire)
    simulation.start()
    subscribe_all(simulation, design.placement.node_of, workload.interests)
    simulation.settle(5.0, 10_000.0)
    return simulation


@pytest.mark.parametrize("system", check_name("delivers"))
@pytest.mark.parametrize("seed", range(3))
def test_delivers_to_all_interested_exactly_once_and_to_nobody_else(system: System, seed: int) -> None:
    """Twice delivered or delivered to the uninterested raises inside the simulation."""
    workload = instance_for(system, nodes=17, topics=6, seed=seed)
    outcome = simulate(system, system.parameters(), system.plan(workload, seed=seed), workload, seed, through_wire=True)
    assert outcome.missing == []
    assert outcome.ledger.loss.owed == outcome.ledger.loss.delivered


instances = {"nodes": st.integers(1, 40), "topics": st.integers(1, 8), "seed": st.integers(0, 2**32)}


@pytest.mark.parametrize("system", check_name("bulk"))
@settings(max_examples=40)
@given(**instances)
def test_simulated_ledger_equals_priced_ledger(system: System, nodes: int, topics: int, seed: int) -> None:
    check_ledgers(system, nodes, topics, seed)


@pytest.mark.parametrize("name", ["flooding", "scribe"])
@settings(max_examples=200)
@given(**instances)
def test_the_baselines_on_two_hundred_instances(name: str, nodes: int, topics: int, seed: int) -> None:
    check_ledgers(SYSTEMS[name], nodes, topics, seed)


def check_ledgers(system: System, nodes: int, topics: int, seed: int) -> None:
    workload = instance_for(system, nodes, topics, seed)
    design = system.plan(workload, seed=seed)
    # Whole microseconds at random: ways of equal length would make arrival order a matter of taste.
    latency = Latency.matrix(np.random.default_rng(seed).integers(1_000, 200_000, (nodes, nodes)) / 1000)
    simulated = simulate(system, system.parameters(), design, workload, seed, latency).ledger
    priced = price(design, workload, latency)
    but = ("control", "setup", "volume.control", "volume.total") if (system.name, "control") in DEVIATIONS else ()
    assert differing(simulated, priced, but) == {}


@pytest.mark.parametrize("system", check_name("unsubscribe"))
def test_unsubscribing_stops_delivery(system: System) -> None:
    workload = instance_for(system, nodes=12, topics=4, seed=5)
    simulation = running(system, workload)
    topic = max(simulation.book.audience, key=lambda topic: len(simulation.book.audience[topic]))
    leaving = sorted(simulation.book.audience[topic])[::2]
    for node in leaving:
        while topic in simulation.book.wanting[node]:
            simulation.unsubscribe(node, topic)
    simulation.settle(5.0, 10_000.0)
    simulation.publish(3, topic)
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []  # and a delivery to who left would have raised


@pytest.mark.parametrize("system", check_name("outsider"))
def test_a_publisher_need_not_subscribe(system: System) -> None:
    workload = instance_for(system, nodes=10, topics=3, seed=2)
    simulation = running(system, workload)
    for topic in sorted(simulation.book.audience, key=str):
        outsiders = [node for node in range(10) if topic not in simulation.book.wanting[node]]
        for node in outsiders[:3]:
            simulation.publish(node, topic)
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []


@pytest.mark.parametrize("system", check_name("quiet"))
def test_silence_when_nothing_changes(system: System) -> None:
    """Control traffic ends; only keep-alives go on."""
    simulation = running(system, instance_for(system, nodes=14, topics=4, seed=3))
    simulation.run_until(simulation.now_s + 120)
    settled_us = simulation.last_control_us
    simulation.run_until(simulation.now_s + 600)
    assert simulation.last_control_us == settled_us


@pytest.mark.parametrize("system", check_name("faults"))
@pytest.mark.parametrize("seed", range(4))
def test_recovers_from_loss_crashes_and_a_partition(system: System, seed: int) -> None:
    """After the storm an event on every topic reaches everybody (else RunError); what was lost has a reason."""
    workload = instance_for(system, nodes=24, topics=5, seed=seed)
    design = system.plan(workload, seed=seed)
    outcome = simulate(system, system.parameters(), design, workload, seed, faults=FaultMix(crash_share=0.15))
    assert outcome.probes > 0
    assert all(missing.reason for missing in outcome.missing)
    missing = sum_of_missing(outcome.missing, workload, design.placement.node_of)
    assert outcome.ledger.loss.lost * STORM_S == pytest.approx(missing)


def sum_of_missing(missing: list, workload: Workload, node_of: np.ndarray) -> int:
    wanting = np.zeros((workload.node_count, workload.topic_count), int)
    np.add.at(wanting, (node_of[workload.interests.rows], workload.interests.columns), 1)
    return int(sum(wanting[entry.node, entry.topic] for entry in missing))


@pytest.mark.parametrize("system", check_name("trace"))
def test_same_seed_same_trace(system: System) -> None:
    def trace() -> list[TraceEvent]:
        lines: list[TraceEvent] = []
        workload = instance_for(system, nodes=12, topics=4, seed=9)
        design = system.plan(workload, seed=9)
        simulate(system, system.parameters(), design, workload, 9, faults=FaultMix(), tracer=lines.append)
        return lines

    first = trace()
    assert len(first) > 100
    assert first == trace()


TRACE_DIGEST = """
import hashlib, sys
from coterie.sim.faults import FaultMix
from coterie.sim.run import SPAN_S, STORM_S, simulate, subscribe_all
from tests.conformance.deviations import CHECKED, DEVIATIONS, instance_for
digest = hashlib.sha256()
for system in CHECKED:
    if (system.name, "trace") in DEVIATIONS:
        continue
    workload = instance_for(system, nodes=12, topics=4, seed=9)
    simulate(system, system.parameters(), system.plan(workload, seed=9), workload, 9, faults=FaultMix(),
             tracer=lambda line: digest.update(repr(line).encode()))
print(digest.hexdigest())
"""


def test_same_trace_under_another_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", TRACE_DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("system", check_name("wire"))
@given(garbage=st.binary(max_size=60), version=st.booleans())
def test_garbage_on_the_wire_is_the_peers_fault(system: System, garbage: bytes, version: bool) -> None:
    codec = system.codec()
    frame = b"\x01" + garbage if version else garbage
    try:
        message = codec.decode(frame, peer="node 7")
    except RemoteProtocolError as error:
        blamed = str(error).startswith("node 7: ")
    else:
        blamed = codec.decode(codec.encode(message)) == message
    assert blamed


@pytest.mark.parametrize("system", check_name("wire"))
def test_messages_survive_mutation(system: System) -> None:
    """Real traffic, each frame cut and flipped: a message or RemoteProtocolError, nothing else."""
    codec = system.codec()
    sent: list[bytes] = []
    simulation = running(system, instance_for(system, nodes=8, topics=3, seed=4), through_wire=False)
    original = simulation._send
    simulation._send = lambda source, targets, message: (  # type: ignore[method-assign]
        sent.append(codec.encode(message)),
        original(source, targets, message),
    )
    for topic in list(simulation.book.audience):
        simulation.publish(0, topic)
    simulation.run_until(simulation.now_s + 120)
    draw = np.random.default_rng(0)
    assert sent
    for frame in sent[:200]:
        assert isinstance(codec.decode(frame), msgspec.Struct)
        for _ in range(20):
            broken = bytearray(frame)
            broken[int(draw.integers(0, len(broken)))] ^= 1 << int(draw.integers(0, 8))
            for bad in (bytes(broken), frame[: int(draw.integers(0, len(frame)))]):
                try:
                    codec.decode(bad)
                except RemoteProtocolError:
                    continue


@pytest.mark.parametrize("system", check_name("cover"))
def test_a_plan_covers_every_node_and_every_publication(system: System) -> None:
    workload = instance_for(system, nodes=20, topics=6, seed=8)
    design = system.plan(workload, seed=8)
    assert design.overlay.node_count == workload.node_count
    assert len(slices(design)) == workload.node_count
    assert set(np.flatnonzero(workload.publications.rate > 0)) <= set(design.entries.publication.tolist())
    assert price(design, workload).loss.lost == 0


@pytest.mark.parametrize("system", check_name("adopt"))
def test_a_design_serves_a_later_workload(system: System) -> None:
    """What was learned is kept (placement, channels, overlay); everyone is served under the new interests."""
    first = instance_for(system, nodes=20, topics=6, seed=8)
    second = instance_for(system, nodes=20, topics=6, seed=80)
    if first.content is not None:
        second = first
    design = system.plan(first, seed=8)
    later = system.adopt(design, second, seed=8)
    assert later.overlay is design.overlay
    assert np.array_equal(later.placement.node_of, design.placement.node_of)
    assert price(later, second).loss.lost == 0
    with pytest.raises(ConfigError):
        system.adopt(design, small_workload(20, 7, seed=1), seed=8)


@pytest.mark.parametrize("system", check_name("parameters"))
def test_parameters_come_from_plain_values_and_bad_ones_are_named(system: System) -> None:
    with pytest.raises(ConfigError, match="no_such_thing"):
        system.configure({"no_such_thing": 1})
    defaults = msgspec.to_builtins(system.parameters())
    assert system.configure(defaults) == system.parameters()
    numeric = [key for key, value in defaults.items() if type(value) in (int, float)]
    for key in numeric:
        with pytest.raises(ConfigError, match=key):
            system.configure({key: "many"})


@pytest.mark.parametrize("system", check_name("hops"))
def test_every_system_marks_its_event_messages(system: System) -> None:
    assert any(issubclass(message, EventMessage) for message in system.messages)


@pytest.mark.parametrize("system", check_name("delivers"))
def test_a_lone_node_serves_itself(system: System) -> None:
    workload = instance_for(system, nodes=1, topics=3, seed=1)
    workload = replace(
        workload, publications=replace(workload.publications, rate=np.ones(workload.publications.count) / SPAN_S)
    )
    outcome = simulate(system, system.parameters(), system.plan(workload, seed=1), workload, 1)
    assert outcome.missing == []
    assert outcome.ledger.dissemination.copies == 0
