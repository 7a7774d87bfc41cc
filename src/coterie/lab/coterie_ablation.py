"""What each idea of the sixth system is worth: the whole, and the whole without one of them, on the same demand.

Over time (who comes, who goes, what is learned) by the accountant of the back-test; at one moment (publishers, zones,
links, wildcards) by the bill. Wishes over time are read off recorded or drawn events: who does something about a topic
wants it until nothing was done for a lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.accounting.burden import burden
from coterie.accounting.overtime import Course, LogWindow
from coterie.accounting.price import price
from coterie.lab.experiment import Point
from coterie.model import Publications, Relation, Workload
from coterie.model.relation import Index
from coterie.model.workload import Stays
from coterie.pipeline.backtest import follow
from coterie.substrate.attaching import COTERIE, HASH, REGIMES, Regime, Sight, Terms, at_home, if_it_pays, pay, rebuild
from coterie.substrate.attaching import stay as nobody_moves
from coterie.systems.coterie import SYSTEM, CoterieParameters, place_together
from coterie.workloads.recorded import Events, wiki24h_events, wiki_events

DAY_S = 86400.0
BYTES = 200.0
SITE, WATCHED = 50, 10  # sensors of a site, and how many of them a dashboard shows

# --- over time ---


def pay_for_subscribers(sight: Sight, seats: Index, terms: Terms) -> Index:
    """Moves that pay, by a planner that does not know where publications enter."""
    return pay(replace(sight, demand=without_publishers(sight.demand, seats)), seats, terms)


def without_publishers(demand: Workload, seats: Index) -> Workload:
    """The same rates, said by a client that sits nowhere (or by the one who says least)."""
    said = demand.publications
    absent = np.flatnonzero(seats < 0)
    spoken = np.bincount(said.publisher, said.rate, demand.subscriber_count)
    nobody = int(absent[0]) if len(absent) else int(np.argmin(spoken))
    return replace(demand, publications=replace(said, publisher=np.full_like(said.publisher, nobody)))


OVER_TIME = {
    "whole": next(one for one in REGIMES if one.name == COTERIE),
    "admission": Regime("without admission", "newcomers by hash", pay, at_home, is_careful=True),
    "moves": Regime("without moves", "nobody is ever moved", nobody_moves, if_it_pays, is_careful=True),
    "prices": Regime("without prices", "planned anew for every window, whoever must move", rebuild, if_it_pays),
    "publishers": Regime(
        "publishers not counted", "moves by subscriptions alone", pay_for_subscribers, if_it_pays, is_careful=True
    ),
}


def run_over_time(point: Point, seed: int) -> Mapping[str, float]:
    """Net and gross saving against hash, in per cent, of the whole and without each idea."""
    windows = windows_of(events_of(point, seed), point, seed)
    terms = Terms(seed=seed)
    before = follow(REGIMES[0], windows, terms)
    assert before.policy == HASH
    values: dict[str, float] = {"copies_per_delivery": before.copies_per_delivery}
    for name, regime in OVER_TIME.items():
        values |= _course_values(name, follow(regime, windows, terms, before), before)
    return values | {
        f"{name}_loss": values["whole_net"] - values[f"{name}_net"] for name in OVER_TIME if name != "whole"
    }


def _course_values(name: str, course: Course, before: Course) -> dict[str, float]:
    return {
        f"{name}_net": 100 * course.net(before),
        f"{name}_gross": 100 * course.gross(before),
        f"{name}_hottest": course.hottest_messages,
        f"{name}_moves": course.moves_per_client_day,
    }


def events_of(point: Point, seed: int) -> Events:
    if point["events"] == "wiki":
        return wiki_events()
    if point["events"] == "wiki24h":
        return wiki24h_events(is_with_robots=True)
    return drawn_events(int(point["clients"]), int(point["topics"]), int(point["groups"]), float(point["days"]), seed)


def drawn_events(clients: int, topics: int, groups: int, days: float, seed: int) -> Events:
    """Everybody is there for a while and does most about a group of topics; each has a rate of its own."""
    draw = np.random.default_rng([seed, 3])
    begin = draw.uniform(-0.3 * days, days, clients)
    end = begin + draw.exponential(0.3 * days, clients)
    group = draw.integers(groups, size=clients)
    count = draw.poisson(draw.lognormal(2.5, 0.8, clients))
    who = np.repeat(np.arange(clients), count)
    own = group[who] + groups * draw.integers(topics // groups, size=len(who))
    what = np.where(draw.random(len(who)) < 0.1, draw.integers(topics, size=len(who)), own)
    when = draw.uniform(begin[who], end[who])
    kept = (when >= 0) & (when < days)
    order = np.argsort(when[kept], kind="stable")
    who, what, when = who[kept][order], what[kept][order], when[kept][order]
    return Events(who.astype(np.int64), what.astype(np.int64), when * DAY_S)


def windows_of(events: Events, point: Point, seed: int) -> list[LogWindow]:
    """Cut into windows of equal length."""
    count, lease_s = int(point["windows"]), float(point["lease_days"]) * DAY_S
    clients, topics, brokers = int(events.who.max()) + 1, int(events.what.max()) + 1, int(point["brokers"])
    attachment = np.random.default_rng([seed, 5]).integers(brokers, size=clients).astype(np.int32)
    pair, begin, end = intervals(events.who * topics + events.what, events.time_s, lease_s)
    edges = np.linspace(0.0, float(events.time_s[-1]) + 1.0, count + 1)
    windows = []
    for low, high in pairwise(edges):
        here = (begin < high) & (end > low)
        told = (events.time_s >= low) & (events.time_s < high)
        span_s = float(high - low)
        said, times = np.unique(events.who[told] * topics + events.what[told], return_counts=True)
        passing = here & ((begin >= low) | (end < high))
        stays = Stays(
            (pair[passing] // topics).astype(np.int32),
            (pair[passing] % topics).astype(np.int32),
            np.where(begin[passing] >= low, begin[passing] - low, -np.inf),
            np.where(end[passing] < high, end[passing] - low, np.inf),
            span_s,
        )
        demand = Workload(
            str(point["events"]),
            Relation.from_pairs(pair[here] // topics, pair[here] % topics, clients, topics),
            Publications.of(said // topics, said % topics, times / span_s, BYTES),
            attachment,
            brokers,
            stays=stays,
        )
        windows.append(LogWindow(demand, span_s))
    return windows


def intervals(
    pair: NDArray[np.int64], time_s: NDArray[np.float64], lease_s: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """(pair, from, to) of every wish: from the first event until a lease after the last one before a longer pause."""
    order = np.lexsort((time_s, pair))
    pair, time_s = pair[order], time_s[order]
    is_first = np.concatenate([[True], (pair[1:] != pair[:-1]) | (np.diff(time_s) > lease_s)])
    first = np.flatnonzero(is_first)
    last = np.concatenate([first[1:] - 1, [len(pair) - 1]])
    return pair[first], time_s[first], time_s[last] + lease_s


# --- at one moment ---


def drawn_fleet(point: Point, seed: int) -> Workload:
    """Sensors with a topic each, dashboards that watch some of one site, and a few that watch everything.

    A site is in a zone, with its sensors and nine in ten of its dashboards; who watches everything is in the first one.
    """
    draw = np.random.default_rng([seed, 7])
    sensors, dashboards, everything = int(point["sensors"]), int(point["dashboards"]), int(point["everything"])
    brokers, zones = int(point["brokers"]), int(point["zones"])
    site = draw.integers(sensors // SITE, size=dashboards)
    watched = SITE * site[:, None] + np.argsort(draw.random((dashboards, SITE)), axis=1)[:, :WATCHED]
    rows = np.concatenate(
        [np.repeat(np.arange(dashboards), WATCHED), np.repeat(np.arange(everything), sensors) + dashboards]
    )
    columns = np.concatenate([watched.ravel(), np.tile(np.arange(sensors), everything)])
    abroad = draw.random(dashboards) < 0.1
    zone = np.concatenate([
        np.arange(sensors) // SITE % zones,
        np.where(abroad, draw.integers(zones, size=dashboards), site % zones),
        np.zeros(everything, np.int64),
    ])  # fmt: skip
    clients = sensors + dashboards + everything
    return Workload(
        "sensors",
        Relation.from_pairs(sensors + rows, columns, clients, sensors),
        Publications.of(np.arange(sensors), np.arange(sensors), np.full(sensors, float(point["rate"])), BYTES),
        (zone + zones * draw.integers(brokers // zones, size=clients)).astype(np.int32),
        brokers,
        zone_of=(np.arange(brokers) % zones).astype(np.int32),
        zones=tuple(f"z{one}" for one in range(zones)),
    )


def run_fleet(point: Point, seed: int) -> Mapping[str, float]:
    """Bytes per second, those between zones counted as what they cost more, and the hottest broker."""
    fleet, parameters = drawn_fleet(point, seed), CoterieParameters(message_imbalance=float(point["message_imbalance"]))
    zoneless = replace(fleet, zone_of=None, zones=())
    designs = {
        "whole": SYSTEM.plan(fleet, parameters, seed),
        "publishers": SYSTEM.plan(fleet, parameters, seed, node_of=_blind_to_publishers(fleet, parameters, seed)),
        "zones": SYSTEM.plan(zoneless, parameters, seed),
        **{
            links: SYSTEM.plan(fleet, msgspec.structs.replace(parameters, links=links), seed)
            for links in ("mesh", "star", "lean")
        },
        "wildcards": SYSTEM.plan(fleet, parameters, seed, node_of=_wildcards_stay(fleet, parameters, seed, point)),
        "placement": SYSTEM.plan(fleet, msgspec.structs.replace(parameters, placement="given"), seed),
    }
    values: dict[str, float] = {}
    for name, design in designs.items():
        bill = price(design, fleet)
        values |= {f"{name}_burden": burden(bill), f"{name}_hottest": bill.load.hottest}
        values |= {f"{name}_hops": bill.delay.hops.mean, f"{name}_crossing": bill.crossing.copies}
    whole = values["whole_burden"]
    return values | {
        f"{name}_more": 100 * (values[f"{name}_burden"] / whole - 1) for name in designs if name != "whole"
    }


def _blind_to_publishers(fleet: Workload, parameters: CoterieParameters, seed: int) -> Index:
    blind = without_publishers(fleet, fleet.attachment)
    return place_together(blind, parameters, seed).node_of


def _wildcards_stay(fleet: Workload, parameters: CoterieParameters, seed: int, point: Point) -> Index:
    """Placed as if nobody watched everything; those who do stay wherever they came."""
    watching = fleet.subscriber_count - int(point["everything"])
    kept = fleet.interests.rows < watching
    rows, columns = fleet.interests.rows[kept], fleet.interests.columns[kept]
    few = replace(fleet, interests=Relation.from_pairs(rows, columns, fleet.subscriber_count, fleet.topic_count))
    node_of = place_together(few, parameters, seed).node_of.copy()
    node_of[watching:] = fleet.attachment[watching:]
    return node_of
