"""Two windows of a real trace as workloads over one id space: one to learn from, the next to price on.

Who does something about a topic in a window wants it from then on (from the window's start, if it did so before), and
every such act is an event. Clients are attached by hash, inside their own zone where there are zones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.model import Publications, Relation, Workload
from coterie.model.workload import Stays
from coterie.substrate.identifiers import splitmix64_array
from coterie.workloads.traces import trace_table

DAY_S = 86_400.0
CHECKINS = {
    "gowalla": ("checkins_gowalla_1000u.csv.gz", 1.0),
    "gowalla, fine": ("checkins_gowalla_1000u.csv.gz", 0.2),
    "foursquare": ("checkins_foursquare_us_5000u.csv.gz", 1.0),
    "foursquare, fine": ("checkins_foursquare_us_5000u.csv.gz", 0.2),
}
TRACES = ("wiki", "wiki, one day", *CHECKINS)


@dataclass(frozen=True, eq=False)
class Acts:
    """Who did something about what when; densely numbered, times from 0 on."""

    who: np.ndarray
    what: np.ndarray
    time_s: np.ndarray


def acts_of(name: str) -> Acts:
    if name == "wiki":
        table = trace_table("wiki_edits_1month.csv.gz", ("user", "page", "t_seconds"))
        return _acts(table["user"], table["page"], table["t_seconds"])
    if name == "wiki, one day":
        table = trace_table("wiki_edits_24h_multilang.csv.gz", ("unix_time", "channel", "user"))
        return _acts(table["user"], table["channel"], table["unix_time"])
    file, degrees = CHECKINS[name]
    table = trace_table(file, ("user", "unix_time", "lat", "lon"))
    cell = np.floor(table["lat"] / degrees) * 100_000 + np.floor(table["lon"] / degrees)
    return _acts(table["user"], cell, table["unix_time"])


def _acts(who: np.ndarray, what: np.ndarray, time_s: np.ndarray) -> Acts:
    numbers = [np.unique(column, return_inverse=True)[1] for column in (who, what)]
    time = time_s.astype(np.float64)
    return Acts(numbers[0], numbers[1], time - time.min())


def windows_of(
    acts: Acts, brokers: int, zones: int = 1, share: float = 0.5, traffic: float = 1.0
) -> tuple[Workload, Workload]:
    """Cut where this share of the acts has happened; `traffic` times as many events as there were."""
    cut_s, end_s = float(np.quantile(acts.time_s, share)), float(acts.time_s.max()) + 1
    first = _window(acts, 0.0, cut_s, brokers, zones, traffic)
    return first, _window(acts, cut_s, end_s, brokers, zones, traffic)


def _window(acts: Acts, start_s: float, end_s: float, brokers: int, zones: int, traffic: float) -> Workload:
    clients, topics = int(acts.who.max()) + 1, int(acts.what.max()) + 1
    inside = (acts.time_s >= start_s) & (acts.time_s < end_s)
    key = acts.who.astype(np.int64) * topics + acts.what
    pairs, at, count = np.unique(key[inside], return_index=True, return_counts=True)
    client, topic = np.divmod(pairs, topics)
    begin_s = np.where(np.isin(pairs, key[acts.time_s < start_s]), -np.inf, acts.time_s[inside][at] - start_s)
    fresh = np.isfinite(begin_s)
    span_s = end_s - start_s
    who, what = client[fresh].astype(np.int32), topic[fresh].astype(np.int32)
    stays = Stays(who, what, begin_s[fresh], np.full(len(who), np.inf), span_s)
    zone_of = (np.arange(brokers) % zones).astype(np.int32)
    return Workload(
        "trace",
        Relation.from_pairs(client, topic, clients, topics),
        Publications.of(client, topic, traffic * count / span_s),
        by_hash(clients, brokers, zones),
        brokers,
        stays=stays,
        zone_of=zone_of if zones > 1 else None,
        zones=tuple(f"zone-{zone}" for zone in range(zones)) if zones > 1 else (),
    )


def by_hash(clients: int, brokers: int, zones: int) -> np.ndarray:
    """A zone by one hash, a broker in it by another."""
    number = np.arange(clients, dtype=np.uint64)
    zone = (splitmix64_array(number ^ np.uint64(1 << 40)) % np.uint64(zones)).astype(np.int64)
    sizes = np.bincount(np.arange(brokers) % zones, minlength=zones)
    seat = splitmix64_array(number).astype(np.uint64) % sizes[zone].astype(np.uint64)
    return (seat.astype(np.int64) * zones + zone).astype(np.int32)
