"""The driver itself: time, faults, and a book that notices every broken promise."""

from __future__ import annotations

from random import Random

import pytest

from coterie.errors import ConfigError, RunError
from coterie.model import Slice
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.protocol.events import Event, Timer
from coterie.protocol.wire import SystemMessage
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, FaultMix, Heal, Partition, Restart, Slow, Weather
from coterie.systems.flooding import SYSTEM, Alive, Flood, FloodingNode
from coterie.trace import TraceEvent, Traffic
from tests.conftest import small_workload


class Misbehaving(FloodingNode):
    """Does what `sin` says when it gets an event."""

    sin = ""

    def on_receive(self, source: int, message: SystemMessage) -> None:
        super().on_receive(source, message)
        if not isinstance(message, Flood):
            return
        if self.sin == "twice":
            self.deliver(message.event, 1)
        elif self.sin == "unwanted":
            self.deliver(Event(message.event.id, 99), 1)
        elif self.sin == "invented":
            self.deliver(Event(12345, message.event.topic), 1)
        elif self.sin == "forged":
            self.send(source, Flood(Event(54321, 0), 1))


def network(node: type[FloodingNode] = FloodingNode, nodes: int = 4, tracer: object = None) -> Simulation:
    workload = small_workload(nodes, 2, seed=1)
    system = SYSTEM if node is FloodingNode else type(SYSTEM)(**{**SYSTEM.__dict__, "node": node})
    design = SYSTEM.plan(workload)
    simulation = Simulation(system, SYSTEM.parameters(), slices(design), 1, Latency.constant(10), tracer)  # type: ignore[arg-type]
    simulation.start()
    for address in range(nodes):
        simulation.subscribe(address, 0)
    return simulation


def test_messages_take_their_time() -> None:
    simulation = network()
    simulation.publish(0, 0)
    simulation.run_until(0.009)
    assert simulation.book.tally.delivered == 1  # at home
    simulation.run_until(0.010)
    assert simulation.book.tally.delivered == 4
    assert simulation.book.tally.us_max == 10_000


@pytest.mark.parametrize(
    ("sin", "says"),
    [
        ("twice", "twice"),
        ("unwanted", "does not want"),
        ("invented", "nobody published"),
        ("forged", "nobody published"),
    ],
)
def test_broken_promises_stop_the_run(sin: str, says: str) -> None:
    simulation = network(type("Sinner", (Misbehaving,), {"sin": sin}))
    simulation.publish(0, 0)
    with pytest.raises(RunError, match=says):
        simulation.run_until(1.0)


def test_what_a_crashed_node_misses_is_listed_with_the_reason() -> None:
    simulation = network()
    simulation.inject(Crash(1.0, 2))
    simulation.run_until(2.0)
    assert simulation.publish(2, 0) is None
    simulation.publish(0, 0)
    simulation.run_until(3.0)
    assert [(entry.node, entry.reason) for entry in simulation.book.missing()] == [
        (2, "the node was down on the way from node 0 to node 2")
    ]


def test_a_restarted_node_is_subscribed_again() -> None:
    simulation = network()
    simulation.inject(Crash(1.0, 2))
    simulation.inject(Restart(2.0, 2))
    simulation.run_until(3.0)
    simulation.publish(0, 0)
    simulation.run_until(4.0)
    assert simulation.book.missing() == []


def test_a_partition_cuts_and_heals() -> None:
    simulation = network()
    simulation.inject(Partition(1.0, (2, 3)))
    simulation.inject(Heal(3.0))
    simulation.run_until(2.0)
    simulation.publish(0, 0)
    simulation.publish(2, 0)
    simulation.run_until(3.0)
    assert [entry.node for entry in simulation.book.missing()] == [2, 3, 0, 1]
    assert "cut off" in simulation.book.missing()[0].reason
    simulation.publish(0, 0)
    simulation.run_until(4.0)
    assert len(simulation.book.missing()) == 4


def test_weather_loses_doubles_and_reorders() -> None:
    simulation = network(nodes=10)
    simulation.inject(Weather(0.0, loss=0.3, duplication=0.3, jitter_s=0.5))
    simulation.run_until(0.1)
    for _ in range(100):
        simulation.publish(0, 0)
    simulation.run_until(5.0)
    tally = simulation.book.tally
    assert 0.6 < tally.delivered / tally.owed < 0.8
    assert tally.duplicate > 100
    assert tally.us_max > 400_000


def test_a_slow_node_is_slow() -> None:
    simulation = network()
    simulation.inject(Slow(0.0, 3, 5.0))
    simulation.run_until(0.1)
    simulation.publish(0, 0)
    simulation.run_until(1.0)
    assert simulation.book.tally.us_max == 50_000


class Ticking(FloodingNode):
    """Counts what its timers do."""

    def on_start(self, slice: Slice) -> None:
        self.fired: list[tuple[Timer, float]] = []
        self.set_timer("kept", 1.0)
        self.set_timer("moved", 1.0)
        self.set_timer("moved", 2.0)
        self.set_timer("cancelled", 1.0)
        self.cancel_timer("cancelled")

    def on_timer(self, timer: Timer) -> None:
        self.fired.append((timer, self.now_s))


def test_timers_fire_once_move_and_cancel() -> None:
    simulation = network(Ticking, nodes=1)
    simulation.run_until(10.0)
    node = simulation.nodes[0]
    assert isinstance(node, Ticking)
    assert node.fired == [("kept", 1.0), ("moved", 2.0)]


class Chatty(FloodingNode):
    """Never stops reorganising."""

    def on_timer(self, timer: Timer) -> None:
        super().on_timer(timer)
        self.send_all(self._peers, Reorganise())


class Reorganise(Alive, frozen=True):
    traffic = Traffic.OVERLAY


def test_a_network_that_never_settles_is_told_so() -> None:
    simulation = network(Chatty)
    with pytest.raises(RunError, match="still changing"):
        simulation.settle(quiet_s=100.0, limit_s=1000.0)


def test_the_trace_tells_the_story() -> None:
    lines: list[TraceEvent] = []
    simulation = network(tracer=lines.append)
    simulation.publish(0, 0)
    simulation.run_until(1.0)
    told = [line.what for line in lines]
    assert told.count("delivered") == 4
    assert told.count("sent") == 3
    assert {line.traffic for line in lines if line.what == "sent"} == {"event"}


def test_fault_schedules_are_over_in_time_and_repeatable() -> None:
    plan = FaultMix(crash_share=0.5)
    first = plan.schedule(20, 100.0, 200.0, Random(3))
    assert first == plan.schedule(20, 100.0, 200.0, Random(3))
    assert all(100.0 <= fault.time_s <= 200.0 for fault in first)
    crashed = [fault.node for fault in first if isinstance(fault, Crash)]
    assert sorted(crashed) == sorted(fault.node for fault in first if isinstance(fault, Restart))
    assert len(crashed) == 10
    with pytest.raises(ConfigError, match="loss"):
        FaultMix(loss=1.5)
