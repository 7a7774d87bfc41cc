"""DYNATOPS' figures under every reading of the text that was plausible, side by side: what they run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.rings import slotdistance
from coterie.lab.dynatops_measures import Bayeux, GeoHierarchy, Performance, performance_of_trees, users_at
from coterie.lab.dynatops_rivals import (
    DividedOverlay,
    TapestryBayeux,
    first_members,
    flooded,
    random_members,
    shuffled,
)
from coterie.lab.dynatops_runs import HOUR_S, POISSON, FollowedSystem, averaged, hours, located, networks
from coterie.lab.experiment import Point
from coterie.model import Relation, Timeline
from coterie.systems.dynatops.monitoring import reconfiguration_cost
from coterie.systems.dynatops.placement import Clusters, Follower, join_all, population, settle_at
from coterie.systems.dynatops.positions import ImprovementPath, Slots, hashed_slots, slot_positions
from coterie.workloads import make_timeline
from coterie.workloads.rates import per_interval

Values = Mapping[str, float]
Floats = NDArray[np.float64]

# --- Figures 7, 8, 9: delay and reconfiguration by pattern ---

PATTERN_KEYS = ("pattern", "change_rate", "nodes", "subscribers", "topics", "modes")


def run_patterns(point: Point, seed: int) -> Values:
    """Static users and DYNATOPS under one pattern, beside Bayeux and TCO in all their readings."""
    settings = {key: point[key] for key in PATTERN_KEYS if key in point}
    duration_h, free_h = float(point["duration_h"]), float(point.get("free_h", 10))
    timeline = make_timeline("dynatops", {**settings, "duration_s": duration_h * HOUR_S}, seed)
    chosen = {name: POISSON[name] for name in ("static", "bnr", "dynatops")}
    made = networks(timeline, point, seed, chosen)
    rivals = Rivals(made["static"].follower, seed)
    for network in made.values():
        network.reconfigure(free_h)
    first = {name: network.reconfiguration_messages for name, network in made.items()}
    plane = np.zeros((timeline.start.node_count, 2))
    for hour in hours(duration_h, 1.0):
        for network in made.values():
            network.go_on(hour, free_h)
        if hour % float(point.get("tco_h", 1)) == 0:
            rivals.follow()
        if hour % float(point.get("sample_h", 10)) == 0:
            for network in made.values():
                network.measure(plane)
            rivals.measure(plane)
    values = rivals.values()
    for name, network in made.items():
        values |= network.values(name)
        values[f"{name}_reconfiguration_later"] = network.reconfiguration_messages - first[name]
    return values


class Rivals:
    """Bayeux and TCO for users who stay where they are."""

    def __init__(self, follower: Follower, seed: int) -> None:
        self._follower = follower
        self._draw = np.random.default_rng([seed, 29])
        count = follower.timeline.start.node_count
        self._bayeux: dict[str, Bayeux | TapestryBayeux] = {
            "bayeux2": Bayeux(count, 1, seed),
            "bayeux16": Bayeux(count, 4, seed),
            "tapestry2": TapestryBayeux(count, 1, seed),
            "tapestry4": TapestryBayeux(count, 2, seed),
            "tapestry16": TapestryBayeux(count, 4, seed),
        }
        self._divided = DividedOverlay(self._wants, seed)
        self._found: dict[str, list[Performance]] = {name: [] for name in self._bayeux}
        self._hops: dict[str, list[float]] = {}
        self._changed = 0

    @property
    def _wants(self) -> NDArray[np.uint8]:
        return (self._follower.users.counts > 0).astype(np.uint8)

    def follow(self) -> None:
        self._changed += self._divided.follow(self._wants)

    def measure(self, plane: Floats) -> None:
        members = self._follower.interests().transposed
        rates, users = per_interval(self._follower.timeline.start), users_at(self._follower.users.counts, members)
        for name, system in self._bayeux.items():
            self._found[name].append(system.performance(members, rates, users, plane))
        wants = self._wants
        merged, name_of = shuffled(wants, self._draw)
        links = np.empty_like(merged.links)
        links[np.ix_(name_of, name_of)] = merged.links
        anybody = random_members(members, self._draw)
        for key, overlay, source in (
            ("tco_merged", links, first_members(members)),
            ("tco_merged_anybody", links, anybody),
            ("tco_divided", self._divided.links, first_members(members)),
            ("tco_divided_anybody", self._divided.links, anybody),
        ):
            self._hops.setdefault(key, []).append(flooded(overlay, wants, members, rates, users, source))
        events = float(rates.sum())
        relayed = float((rates * np.maximum(members.lengths - 1, 0)).sum()) / events
        self._hops.setdefault("tco_overhead", []).append(relayed)

    def values(self) -> dict[str, float]:
        found = {
            (key if key == "tco_overhead" else f"{key}_hops"): float(np.mean(it)) for key, it in self._hops.items()
        }
        for name, performances in self._found.items():
            found |= averaged(name, performances)
        return found | {"tco_divided_changed": float(self._changed)}


# --- Figure 6: people who move ---

TRIES = {"distance": 1, "distance, next-worst too": 12}  # brokers whose swaps are tried before giving up


def run_located(point: Point, seed: int) -> Values:
    """DYNATOPS on people who move, under one reading of L_b and of the delay that brokers are placed by."""
    timeline = located(point, seed)
    assert timeline.start.coordinates is not None
    plane = timeline.start.coordinates
    network = _located_network(timeline, point, seed)
    at_home = _follower(timeline, point, "location")
    far = _distances(plane)
    bayeux, geo = _located_rivals(timeline, seed)
    found: dict[str, list[Performance]] = {name: [] for name in (*bayeux, "geops")}
    end_h = float(np.ceil((timeline.time_s[-1] if timeline.change_count else 0.0) / HOUR_S / 24) * 24)
    samples, updates = int(point.get("samples", 3)), int(point.get("updates_per_sample", 20))
    handovers = 0
    for index, hour in enumerate(hours(end_h, end_h / (samples * updates)), 1):
        network.advance(hour * HOUR_S)
        handovers += at_home.advance(hour * HOUR_S).handovers
        if index % updates == 0:
            period_h = end_h / samples
            if point["delay"] == "hops":
                network.reconfigure(period_h)
            else:
                reconfigure_by_distance(network, period_h, far, TRIES[str(point["delay"])])
            network.measure(plane)
            _measure_located(at_home, bayeux, geo, found, plane)
    values = network.values("dynatops") | {"loc_handovers": float(handovers)}
    for name, performances in found.items():
        values |= averaged(name, performances)
    return values


def _follower(timeline: Timeline, point: Point, policy: str) -> Follower:
    """Users under a policy; `load` "all" is L_b as printed: a share of all subscriptions, not of a cluster."""
    start = timeline.start
    clusters = Clusters.of_size(start.node_count, int(point.get("cluster", 10)), start.coordinates)
    users, weight = population(start, width=6), float(point.get("load_weight", 0.1))
    whole = float(start.interests.pair_count) if point.get("load") == "all" else 0.0
    if policy == "similarity":
        join_all(users, clusters, weight, joins_per_update=1, rounds=1, whole=whole)
    else:
        settle_at(users, start.attachment)
    update_s = float(point.get("update_h", 24.0)) * HOUR_S
    return Follower(timeline, users, clusters, policy, weight, update_s, whole=whole)


def _located_network(timeline: Timeline, point: Point, seed: int) -> FollowedSystem:
    count = timeline.start.node_count
    slots = Slots.at(slot_positions(count, "random", seed))
    follower = _follower(timeline, point, "similarity")
    network = FollowedSystem(follower, slots, hashed_slots(count, seed), "paper", np.zeros((0, 0), np.int32))
    network.recount(follower.interests())
    return network


@lru_cache(maxsize=2)
def _located_rivals(timeline: Timeline, seed: int) -> tuple[dict[str, Bayeux | TapestryBayeux], GeoHierarchy]:
    """They depend on nothing but where the brokers are, which all readings of the same people share."""
    count, plane = timeline.start.node_count, timeline.start.coordinates
    assert plane is not None
    return {
        "bayeux_loc": Bayeux(count, 4, seed),
        "tapestry_loc": TapestryBayeux(count, 4, seed),
        "tapestry_loc_pns": TapestryBayeux(count, 4, seed, plane),
        "tapestry2_loc": TapestryBayeux(count, 1, seed),
        "tapestry2_loc_pns": TapestryBayeux(count, 1, seed, plane),
    }, GeoHierarchy(plane)


def _measure_located(
    located: Follower,
    bayeux: Mapping[str, Bayeux | TapestryBayeux],
    geo: GeoHierarchy,
    found: dict[str, list[Performance]],
    plane: Floats,
) -> None:
    members: Relation = located.interests().transposed
    rates, users = per_interval(located.timeline.start), users_at(located.users.counts, members)
    for name, system in bayeux.items():
        found[name].append(system.performance(members, rates, users, plane))
    cells = np.arange(members.row_count, dtype=np.int32) % len(plane)  # topic = cell = the broker in it
    found["geops"].append(performance_of_trees(geo.trees(cells, members), rates, users, plane))


def _distances(plane: Floats) -> Floats:
    """Between all brokers, the mean of all pairs being 1: what a hop between any two costs on average."""
    far = np.sqrt(((plane[:, None, :] - plane[None, :, :]) ** 2).sum(axis=2))
    mean = float(far.sum()) / max(len(plane) * (len(plane) - 1), 1)
    return np.asarray(far / (mean or 1.0), np.float64)


def reconfigure_by_distance(network: FollowedSystem, free_h: float, far: Floats, tries: int) -> None:
    """Algorithms 3 and 4 with delays that are distances between brokers, as section 5 defines them."""
    interests = network.follower.interests()
    per_period = network.follower.timeline.start.rates * free_h * HOUR_S
    instance = network.slots.instance(interests, per_period, 1.0)
    broker_at = np.argsort(network.slot_of).astype(np.int32)
    before = slotdistance.add_costs(
        instance, slotdistance.members_of(instance), broker_at, far, np.zeros(len(broker_at))
    )
    one, other, costs = slotdistance.descend_far(instance, network.slot_of, far, tries, 20 * len(broker_at))
    path = ImprovementPath(network.slot_of.copy(), one, other, before, costs)
    if len(costs):
        prices = reconfiguration_cost(len(broker_at), interests.column_count, path.moved())
        at = int(np.argmax(before - costs - prices))
        if before - costs[at] > prices[at]:
            network.slot_of = path.configuration(at + 1)
            network.reconfiguration_messages += float(prices[at])
            network.reconfigurations += 1
    network.recount(interests)
