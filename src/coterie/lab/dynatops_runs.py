"""The runs behind DYNATOPS' table and figures: one function per kind of experiment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.rings import slotcost
from coterie.kernels.trees import delays as treedelay
from coterie.lab.dynatops_measures import (
    Bayeux,
    GeoHierarchy,
    Performance,
    TopicConnected,
    chord_performance,
    performance_of_trees,
    users_at,
)
from coterie.lab.experiment import Point
from coterie.model import Relation, Timeline
from coterie.systems.dynatops.hypergraph import partitioned
from coterie.systems.dynatops.monitoring import decide
from coterie.systems.dynatops.placement import Clusters, Follower, join_all, population, settle_at
from coterie.systems.dynatops.positions import Slots, cost_bound, hashed_slots, optimise, slot_positions
from coterie.workloads import make_timeline
from coterie.workloads.popularity import draw_modal_interests, even_bounds, fixed_sizes
from coterie.workloads.rates import per_interval

HOUR_S = 3600.0
Values = Mapping[str, float]


# --- Table 1 and Figure 10: brokers with subscriptions of their own ---


def broker_interests(brokers: int, topics: int, each: int, pattern: str, seed: int) -> Relation:
    """Uniform, or multimodal: modes of 10 topics, each broker drawing from as many as it needs."""
    draw = np.random.default_rng([seed, 7])
    if pattern == "uniform":
        return draw_modal_interests(
            draw, np.ones(topics), fixed_sizes(brokers, each), np.zeros((brokers, 1), np.int32), np.array([0, topics])
        )
    modes = max(1, topics // 10)
    wanted = min(-(-each // 10), modes)
    chosen = np.argsort(draw.random((brokers, modes)), axis=1)[:, :wanted].astype(np.int32)
    sizes = fixed_sizes(brokers, min(each, topics))
    return draw_modal_interests(draw, np.ones(topics), sizes, chosen, even_bounds(topics, modes))


def run_configuration(point: Point, seed: int) -> Values:
    """One optimiser on one broker network: CPU time, and what it saves against consistent hashing."""
    brokers, topics = int(point["brokers"]), int(point["topics"])
    spacing, method = str(point["spacing"]), str(point["method"])
    interests = broker_interests(brokers, topics, int(point["each"]), str(point["pattern"]), seed)
    slots = Slots.at(slot_positions(brokers, spacing, seed))
    instance = slots.instance(interests, np.ones(topics), 1.0)
    start = hashed_slots(brokers, seed)
    optimise(slots, instance, start, "paper", seed)  # compiled before the clock runs
    began_s = time.process_time()
    found = optimise(slots, instance, start, method, seed)
    spent_s = time.process_time() - began_s
    before_relays, before_hops = slotcost.full_cost(instance, start)
    after_relays, after_hops = slotcost.full_cost(instance, found)
    before, after = before_relays + before_hops, after_relays + after_hops
    return {
        "milliseconds": spent_s * 1000,
        "saving": 100 * (1 - after / before),
        "relay_saving": 100 * (1 - after_relays / before_relays) if before_relays else 0.0,
        "delay_saving": 100 * (1 - after_hops / before_hops) if before_hops else 0.0,
        "bound_saving": 100 * (1 - cost_bound(instance) / before),
    }


# --- Figures 7, 8 and 9: users whose subscriptions change ---


@dataclass
class FollowedSystem:
    """One system following the timeline: where users are, where brokers sit, what it all cost so far."""

    follower: Follower
    slots: Slots
    slot_of: NDArray[np.int32]
    method: str  # of reconfiguration; "hash": never
    counts: NDArray[np.int32]  # tree counts by slot, for update messages
    broker_changes: int = 0
    handovers: int = 0
    tree_messages: int = 0
    cluster_messages: int = 0
    reconfiguration_messages: float = 0.0
    reconfigurations: int = 0
    performances: list[Performance] = field(default_factory=list)

    def advance(self, until_s: float) -> None:
        step = self.follower.advance(until_s)
        self.broker_changes += step.change_count
        self.handovers += step.handovers
        self.cluster_messages += step.cluster_messages
        roots = self.slots.roots(self.follower.timeline.start.topic_count)
        self.tree_messages += treedelay.update_messages(
            self.slots.parent, self.slots.depth, self.counts, roots, self.slot_of, step.broker, step.topic, step.sign
        )

    def go_on(self, hour: float, free_h: float) -> None:
        """To this hour, with a reconfiguration where one is due."""
        self.advance(hour * HOUR_S)
        if hour % free_h == 0:
            self.reconfigure(free_h)

    def reconfigure(self, free_h: float, beta: float = 0.1) -> None:
        if self.method == "hash":
            return
        interests = self.follower.interests()
        per_period = self.follower.timeline.start.rates * free_h * HOUR_S
        decision = decide(self.slots, self.slots.instance(interests, per_period, 1.0), self.slot_of, beta, self.method)
        self.reconfiguration_messages += decision.price
        self.reconfigurations += decision.is_reconfigured
        self.slot_of = decision.slot_of
        self.recount(interests)

    def recount(self, interests: Relation) -> None:
        instance = self.slots.instance(interests, np.ones(interests.column_count), 1.0)
        self.counts = slotcost.stand(instance, self.slot_of).counts

    def measure(self, plane: NDArray[np.float64]) -> None:
        members = self.follower.interests().transposed
        users = users_at(self.follower.users.counts, members)
        rates = per_interval(self.follower.timeline.start)
        self.performances.append(chord_performance(self.slots.positions[self.slot_of], members, rates, users, plane))

    def values(self, name: str) -> dict[str, float]:
        return {
            f"{name}_changes": float(self.broker_changes),
            f"{name}_handovers": float(self.handovers),
            f"{name}_updates": float(self.tree_messages),
            f"{name}_exchange": float(self.cluster_messages),
            f"{name}_management": float(self.tree_messages + self.cluster_messages),
            f"{name}_reconfiguration": self.reconfiguration_messages,
            f"{name}_reconfigurations": float(self.reconfigurations),
            f"{name}_load_spread": float(np.std(self.follower.users.load)),
            **averaged(name, self.performances),
        }


def averaged(name: str, performances: list[Performance]) -> dict[str, float]:
    keys = ("overhead", "relays", "broker_hops", "user_hops", "user_distance")
    return {f"{name}_{key}": float(np.mean([getattr(one, key) for one in performances])) for key in keys}


def networks(
    timeline: Timeline, point: Point, seed: int, systems: Mapping[str, tuple[str, str]]
) -> dict[str, FollowedSystem]:
    """name -> (placement policy, reconfiguration method), all starting from the same users and the same ring."""
    start = timeline.start
    clusters = Clusters.of_size(start.node_count, int(point.get("cluster", 10)), start.coordinates)
    slots = Slots.at(slot_positions(start.node_count, str(point.get("spacing", "random")), seed))
    load_weight = float(point.get("load_weight", 1.0))
    made = {}
    for name, (policy, method) in systems.items():
        users = population(start, width=int(point.get("width", 5)))
        if policy == "similarity":
            join_all(users, clusters, load_weight, joins_per_update=1, rounds=1)
        elif policy == "fanout":
            settle_at(users, partitioned(start, 0.03, seed).node_of)
        else:
            settle_at(users, start.attachment)
        update_s = float(point.get("update_h", 1.0)) * HOUR_S
        follower = Follower(timeline, users, clusters, policy, load_weight, update_s)
        slot_of = hashed_slots(start.node_count, seed)
        network = FollowedSystem(follower, slots, slot_of, method, np.zeros((0, 0), np.int32))
        network.recount(follower.interests())
        made[name] = network
    return made


def hours(until_h: float, step_h: float) -> Iterator[float]:
    count = round(until_h / step_h)
    for index in range(1, count + 1):
        yield index * step_h


POISSON = {
    "static": ("static", "hash"),
    "bnr": ("static", "paper"),
    "up": ("similarity", "hash"),
    "dynatops": ("similarity", "paper"),
    "ours": ("fanout", "fall-through"),
}


def run_poisson(point: Point, seed: int) -> Values:
    """Sections 6.1.2 and 6.3.1: hourly steps; performance every `sample_h`; reconfiguration every T_free."""
    keys = ("pattern", "change_rate", "nodes", "subscribers", "topics", "modes", "change")
    settings = {key: point[key] for key in keys if key in point}
    duration_h, free_h = float(point.get("duration_h", 100)), float(point.get("free_h", 10))
    timeline = make_timeline("dynatops", {**settings, "duration_s": duration_h * HOUR_S}, seed)
    start = timeline.start
    plane = np.zeros((start.node_count, 2))
    chosen = str(point.get("systems", "static,bnr,up,dynatops,ours")).split(",")
    made = networks(timeline, point, seed, {name: POISSON[name] for name in chosen})
    bayeux = {bits: Bayeux(start.node_count, bits, seed) for bits in (1, 4)}
    compared: dict[str, list[Performance]] = {"bayeux2": [], "bayeux16": [], "tco": []}
    tco = _TcoBill(made["static"].follower) if point.get("tco", True) and "static" in made else None
    for network in made.values():
        network.reconfigure(free_h)
    for hour in hours(duration_h, 1.0):
        for network in made.values():
            network.go_on(hour, free_h)
            if hour % float(point.get("sample_h", 10)) == 0:
                network.measure(plane)
        if tco is not None and hour % float(point.get("tco_h", 1)) == 0:
            tco.advance()
        if "static" in made and hour % float(point.get("sample_h", 10)) == 0:
            _compare(made["static"].follower, bayeux, tco, compared, plane)
    values: dict[str, float] = {}
    for name, network in made.items():
        values |= network.values(name)
    for name, performances in compared.items():
        if performances:
            values |= averaged(name, performances)
    if tco is not None:
        values |= {"tco_rebuild": tco.rebuild_links, "tco_repair": tco.repair_links}
    return values


class _TcoBill:
    """TCO under both ways of charging: rebuilt and compared, or repaired link by link."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.overlay = TopicConnected(self.wants)
        self._grown = TopicConnected(self.wants)
        self.rebuild_links = 0.0
        self.repair_links = 0.0

    @property
    def wants(self) -> NDArray[np.uint8]:
        return (self._follower.users.counts > 0).astype(np.uint8)

    def advance(self) -> None:
        self.overlay, changed = self.overlay.rebuilt(self.wants)
        self.rebuild_links += changed
        self.repair_links += self._grown.repaired(self.wants)


def _compare(
    follower: Follower,
    bayeux: Mapping[int, Bayeux],
    tco: _TcoBill | None,
    compared: Mapping[str, list[Performance]],
    plane: NDArray[np.float64],
) -> None:
    members = follower.interests().transposed
    rates = per_interval(follower.timeline.start)
    users = users_at(follower.users.counts, members)
    for bits, system in bayeux.items():
        compared[f"bayeux{1 << bits}"].append(system.performance(members, rates, users, plane))
    if tco is not None:
        compared["tco"].append(tco.overlay.performance(tco.wants, members, rates, users))


# --- Figure 6: people who move ---

LOCATION = {
    "static": ("static", "hash"),
    "loc": ("location", "hash"),
    "up": ("similarity", "hash"),
    "dynatops": ("similarity", "paper"),
    "dynatops_fall": ("similarity", "fall-through"),
}


def located(point: Point, seed: int) -> Timeline:
    """The people of a point and where they go; of the last ones only, for neighbouring points ask for the same."""
    settings = tuple((key, point[key]) for key in ("subscribers", "rows", "columns", "duration_s") if key in point)
    return _located(str(point["workload"]), settings, seed)


@lru_cache(maxsize=2)
def _located(workload: str, settings: tuple[tuple[str, object], ...], seed: int) -> Timeline:
    return make_timeline(workload, dict(settings), seed)


def run_location(point: Point, seed: int) -> Values:
    """Section 6.1.1: brokers and topics are cells, delay is distance; Bayeux and GeoPS beside it."""
    timeline = located(point, seed)
    start = timeline.start
    assert start.coordinates is not None
    plane = start.coordinates
    end_h = float(np.ceil((timeline.time_s[-1] if timeline.change_count else 0.0) / HOUR_S / 24) * 24)
    made = networks(timeline, {**point, "width": 6}, seed, LOCATION)
    geo = GeoHierarchy(plane)
    bayeux = Bayeux(start.node_count, 4, seed)
    compared: dict[str, list[Performance]] = {"bayeux_static": [], "bayeux_loc": [], "geops": []}
    samples = int(point.get("samples", 6))
    updates = int(point.get("updates_per_sample", 10))
    step_h = end_h / (samples * updates)
    for index, hour in enumerate(hours(end_h, step_h), 1):
        for network in made.values():
            network.advance(hour * HOUR_S)
        if index % updates == 0:
            for network in made.values():
                network.reconfigure(step_h * updates)
                network.measure(plane)
            _compare_located(made, geo, bayeux, compared, plane)
    values: dict[str, float] = {}
    for name, network in made.items():
        values |= network.values(name)
    for name, performances in compared.items():
        values |= averaged(name, performances)
    return values


def _compare_located(
    made: Mapping[str, FollowedSystem],
    geo: GeoHierarchy,
    bayeux: Bayeux,
    compared: Mapping[str, list[Performance]],
    plane: NDArray[np.float64],
) -> None:
    rates = per_interval(made["static"].follower.timeline.start)
    for name, key in (("static", "bayeux_static"), ("loc", "bayeux_loc")):
        members = made[name].follower.interests().transposed
        users = users_at(made[name].follower.users.counts, members)
        compared[key].append(bayeux.performance(members, rates, users, plane))
    members = made["loc"].follower.interests().transposed
    users = users_at(made["loc"].follower.users.counts, members)
    cells = np.arange(members.row_count, dtype=np.int32) % len(plane)  # topic = cell = the broker in it
    compared["geops"].append(performance_of_trees(geo.trees(cells, members), rates, users, plane))
