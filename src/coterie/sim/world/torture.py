"""One scenario from its start to its verdict, and many of them: storm, heal, settle, judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from coterie.broker.commands import Reload, Setup
from coterie.broker.credentials import NO_ONE
from coterie.broker.leaf import leaf_slice
from coterie.broker.machine import Broker
from coterie.broker.settings import (
    AccessSection,
    DurabilitySection,
    JournalSection,
    NetworkSection,
    PeerEntry,
    StoreSection,
    User,
)
from coterie.broker.writes import Shelf
from coterie.model.plan import renumbered, slices
from coterie.model.workload import nobody_yet
from coterie.mqtt.options import ServerOptions
from coterie.plans.orders import PlanPart
from coterie.protocol.system import System
from coterie.sim.world.board import SimBoard
from coterie.sim.world.calm import check_calm
from coterie.sim.world.drawing import Swarm, draw_scenario
from coterie.sim.world.judge import Judge
from coterie.sim.world.record import Violation
from coterie.sim.world.scenario import Resident, Scenario, Tenant
from coterie.sim.world.site import Machine
from coterie.sim.world.turns import missing_wills
from coterie.sim.world.world import APPLIED, Plans, Rights, World

LOOKS_S = (2.0, 5.0, 10.0, 20.0, 45.0, 90.0, 150.0)  # after the storm: when to see whether all is well
CALM_S = 3.0  # and what is waited then, for what comes once too often
LOOK_FOR_S = 6.0  # how long somebody looks at what is retained: a SUBACK that waits in vain takes five
LOOK_LONGER_S = 15.0  # where a node is gone without a word, SUBACK takes as long as others wait for it
LOOK_AGAIN_S = (0.0, 20.0, 90.0)  # what was missed is found by an audit at the latest

RENEW_S = 4.0

Making = Callable[[int, Shelf], Machine]


class Ordeal(msgspec.Struct):
    """What became of a scenario."""

    seed: int
    system: str
    violations: list[Violation]
    injected: dict[str, int]
    checked: dict[str, int]
    facts: int
    simulated_s: float
    said: list[str] = []

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(sorted({one.rule for one in self.violations}))


def setups(scenario: Scenario, system_named: Callable[[str], System]) -> list[Setup]:
    """What the brokers of a scenario are told: as `coterie up` would, and with its users."""
    system = system_named(scenario.system)
    founders = scenario.nodes - scenario.late
    peers = [
        PeerEntry(id=node, host="node", port=node + 1, server=f"node:{node}") for node in range(founders)
    ] if founders > 1 else []  # fmt: skip
    design = system.plan(nobody_yet(founders), system.parameters(), 0)
    late = [leaf_slice(node) for node in range(founders, scenario.nodes)]
    return [
        Setup(
            node=part.node,
            name=f"node-{part.node}",
            system_named=system_named,
            slice=part,
            network=NetworkSection(
                system=scenario.system, peers=peers if part.node < founders else [], renew_s=RENEW_S
            ),
            may_grow=scenario.late > 0,
            machine=tuple(range(scenario.nodes)) if scenario.is_machine else (),
            access=_access(scenario.users),
            store=StoreSection(sync="full" if scenario.sync == "full" else "normal"),
            durability=DurabilitySection(copies=scenario.copies),
            journal=JournalSection(enabled=False),
            options=ServerOptions(inflight_count_max=scenario.inflight_max),
        )
        for part in (*slices(design, version=1), *late)
    ]


def _access(tenants: tuple[Tenant, ...]) -> AccessSection:
    users = [
        User(name=one.name, password=NO_ONE, publish=one.publish, subscribe=one.subscribe, share=one.share)
        for one in tenants
    ]
    return AccessSection(anonymous="always", users=users)


def rights_of(scenario: Scenario, system_named: Callable[[str], System]) -> Rights:
    made = setups(scenario, system_named)

    def rights(node: int, tenants: tuple[Tenant, ...]) -> Reload:
        setup = made[node]
        return Reload(_access(tenants), setup.limits, setup.options, setup.mqtt.connections_max)

    return rights


def brokers_of(scenario: Scenario, system_named: Callable[[str], System]) -> Making:
    made = setups(scenario, system_named)
    numbers = [0] * scenario.nodes
    return lambda node, shelf: Broker(made[node], shelf, SimBoard(numbers, node) if scenario.is_machine else None)


def plans_of(scenario: Scenario, system_named: Callable[[str], System]) -> Plans:
    def plans(system: str, count: int, nodes: list[int]) -> list[PlanPart]:
        chosen = system_named(system)
        design = chosen.plan(nobody_yet(len(nodes)), chosen.parameters(), count)
        parts = slices(design, version=count + 1)
        return [PlanPart(generation=APPLIED * count, slice=renumbered(part, nodes)) for part in parts]

    return plans


def run_scenario(scenario: Scenario, make: Making, system_named: Callable[[str], System]) -> Ordeal:
    """Until the verdict; the same scenario gives the same run anywhere."""
    world = World(scenario, make, plans_of(scenario, system_named), rights_of(scenario, system_named))
    world.start()
    world.run_until(scenario.storm_s)
    world.heal()
    judge = Judge(world)
    for look_s in LOOKS_S:
        world.run_until(scenario.storm_s + look_s)
        if _is_well(world, judge):
            world.run_until(world.now_us / 1e6 + CALM_S)
            if _is_well(world, judge):  # somebody may have come to what it is owed since, and reads slowly
                break
    else:
        world.run_until(world.now_us / 1e6 + CALM_S)
    judge.judge()
    world.roster.judge()
    _look_at_retained(world, judge)
    if scenario.has_calm:
        check_calm(world)
    record = world.record
    return Ordeal(
        scenario.seed, scenario.system, record.violations, dict(record.injected), dict(record.checked),
        world.fact_count, world.now_us / 1e6, record.said,
    )  # fmt: skip


def _is_well(world: World, judge: Judge) -> bool:
    is_here = _is_settled(world, judge) and not judge.missing() and not judge.crowded()
    return is_here and not missing_wills(world, judge) and not world.roster.missing()


def _is_settled(world: World, judge: Judge) -> bool:
    return all(
        person.client.is_connected and not person.client.unfinished_count
        for person in world.people
        if (person.resident.roams or not world.is_stranded(person)) and judge.may_enter(person)
    )


def _look_at_retained(world: World, judge: Judge) -> None:
    """Somebody new at every node asks for everything that is retained; if they differ, others do so later."""
    if not any(one.retain for one in world.record.uttered.values()):
        return
    wrong: list[str] = []
    for number, wait_s in enumerate(LOOK_AGAIN_S):
        world.run_until(world.now_us / 1e6 + wait_s)
        lookers = []
        for site in world.sites:
            if site.broker is not None and world.roster.is_served(site.node):
                looker = world.add_person(Resident(f"looker {number} {site.node}", site.node, is_lasting=False))
                looker.arrive(-1)
                looker.wish("#", 0)
                lookers.append(looker)
        world.run_until(world.now_us / 1e6 + (LOOK_LONGER_S if world.gone else LOOK_FOR_S))
        wrong = judge.wrong_retained(lookers)
        if not wrong:
            break
        for looker in lookers:
            looker.depart("said")
    for text in wrong:
        world.record.violate("retained", text)


class Job(msgspec.Struct, frozen=True):
    """Some seeds for one process; each seed runs one of the systems, in turn."""

    systems: tuple[str, ...]
    first: int
    count: int
    limits: Swarm = Swarm()

    def system_of(self, seed: int) -> str:
        return self.systems[seed % len(self.systems)]


class Score(msgspec.Struct):
    """Trials of many seeds, added up."""

    seeds: int = 0
    systems: dict[str, int] = {}
    facts: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    injected: dict[str, int] = {}
    checked: dict[str, int] = {}
    broken: list[Ordeal] = []
    job: Job | None = None  # that it is the score of, where it is of one

    def add(self, other: Score) -> None:
        self.seeds += other.seeds
        self.systems = dict(Counter(self.systems) + Counter(other.systems))
        self.facts += other.facts
        self.simulated_s += other.simulated_s
        self.cpu_s += other.cpu_s
        self.injected = dict(Counter(self.injected) + Counter(other.injected))
        self.checked = dict(Counter(self.checked) + Counter(other.checked))
        self.broken = self.broken + other.broken


def run_job(job: Job, system_named: Callable[[str], System]) -> Score:
    """All seeds of a job; those that broke something are told whole."""
    score = Score()
    for seed in range(job.first, job.first + job.count):
        system = job.system_of(seed)
        scenario = draw_scenario(seed, system, job.limits)
        trial = run_scenario(scenario, brokers_of(scenario, system_named), system_named)
        broken = [trial] if trial.violations else []
        score.add(Score(1, {system: 1}, trial.facts, trial.simulated_s, 0.0, trial.injected, trial.checked, broken))
    return score
