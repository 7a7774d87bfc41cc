"""Tamara's workloads (section 5.2): clustered or uniform interests, three frequency models, arrivals, shift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model import Change, Publications, Relation, Timeline, Workload
from coterie.workloads.changes import Changes, difference, in_time_order
from coterie.workloads.parameters import (
    CHANGES,
    INTERESTS,
    PUBLICATIONS,
    Sized,
    above,
    at_least,
    one_of,
    stream,
    within,
)
from coterie.workloads.popularity import draw_interests, even_bounds
from coterie.workloads.rates import FREQUENCY_BINS, PRINTED_FIRST_BIN, by_bins, publishers_of, settled, topic_rates
from coterie.workloads.spidercast import workload_of

DAY_S = 86_400.0
# What the text leaves open about clustered interests: (part of users with two favourite clusters, probability of a
# topic of a favourite, topics elsewhere). "tables" is chosen so that Scribe's and K-means' rows of Tables 2 and 3 come
# out (26.7 topics per user); "text" is the plain reading of "approximately 25 topics" in "10 clusters of approximately
# 12".
READINGS = {"tables": (0.8, 0.89, 7.5), "text": (1.0, 1.0, 1.0)}


class Tamara(Sized, frozen=True, kw_only=True):
    """Users and topics of section 5.2."""

    nodes: int = 3000  # how many users
    topics: int = 120  # how many topics
    subscriptions: float = 0.0  # topics per user on average; 0: as the reading has it (26.7 or 25)
    rates: str = "average"  # of topics: average, frequent or infrequent (freq(t), Table 1)
    frequency_spread: str = "uniform"  # inside a bin of Table 1: uniform (Scribe's DC comes out) or log-uniform
    is_first_bin_printed: bool = False  # take "0.6-0.6" in Table 1(a) literally instead of as 0.4-0.6
    interval_s: float = 360.0  # rates are events per so many seconds (M, the maintenance interval)
    duration_s: float = 60 * DAY_S  # time in which all (un)subscriptions are issued: two months to one day
    operations_max: int = 0  # of an interest shift; 0: all it takes (about 125,000), the text says 75,000
    shift_to: str = "clustered"  # what interests shift to: clustered (by another split of the topics) or uniform

    def __post_init__(self) -> None:
        super().__post_init__()
        within("subscriptions", self.subscriptions, 0, self.topics)
        one_of("frequency_spread", self.frequency_spread, ("log-uniform", "uniform"))
        one_of("shift_to", self.shift_to, ("clustered", "uniform"))
        above("interval_s", self.interval_s, 0)
        above("duration_s", self.duration_s, 0)
        at_least("operations_max", self.operations_max, 0)


class Clustered(Tamara, frozen=True, kw_only=True):
    """Topics split into clusters of which users have favourites."""

    clusters: int = 10  # section 5.2, "10 clusters, each containing approximately 12 topics"
    reading: str = "tables"  # of the paper: its tables or its text; the three below override it if not negative
    two_favourites: float = -1.0  # part of the users with two favourite clusters, the others have one
    inclination: float = -1.0  # probability of each topic of a favourite
    elsewhere: float = -1.0  # mean number (Poisson) of topics outside the favourites

    def __post_init__(self) -> None:
        super().__post_init__()
        within("clusters", self.clusters, 1, self.topics)
        one_of("reading", self.reading, tuple(READINGS))
        within("two_favourites", self.two_favourites, -1, 1)
        within("inclination", self.inclination, -1, 1)
        at_least("elsewhere", self.elsewhere, -1)
        if self.subscriptions and self.elsewhere < 0 and self.subscriptions < self._from_favourites:
            allowed = f"at least {self._from_favourites:.2f}, which favourites alone give; or lower the inclination"
            raise ConfigError("subscriptions", self.subscriptions, allowed)

    @property
    def taste(self) -> tuple[float, float, float]:
        """(part of users with two favourites, inclination, topics elsewhere) in force."""
        two, inclination, elsewhere = READINGS[self.reading]
        two = self.two_favourites if self.two_favourites >= 0 else two
        inclination = self.inclination if self.inclination >= 0 else inclination
        if self.elsewhere >= 0:
            return two, inclination, self.elsewhere
        return two, inclination, self.subscriptions - self._from_favourites if self.subscriptions else elsewhere

    @property
    def _from_favourites(self) -> float:
        two, inclination, _ = READINGS[self.reading]
        two = self.two_favourites if self.two_favourites >= 0 else two
        inclination = self.inclination if self.inclination >= 0 else inclination
        return (1 + (two if self.clusters > 1 else 0)) * inclination * self.topics / self.clusters


def clustered(parameters: Clustered, seed: int) -> Workload:
    """`modes` of the workload: the (first) favourite cluster of a user."""
    draw = stream(seed, INTERESTS)
    interests, favourite = _clustered_interests(draw, parameters, np.arange(parameters.topics))
    return _workload("tamara", parameters, interests, seed, favourite)


def uniform(parameters: Tamara, seed: int) -> Workload:
    return _workload("tamara-uniform", parameters, _uniform_interests(stream(seed, INTERESTS), parameters), seed, None)


def generate(parameters: Tamara, seed: int) -> Workload:
    return clustered(parameters, seed) if isinstance(parameters, Clustered) else uniform(parameters, seed)


def arrivals(parameters: Tamara, seed: int) -> Timeline:
    """From an empty system to the workload: every user's subscriptions in one random interleaving (section 5.2)."""
    goal = generate(parameters, seed)
    wanted = goal.interests
    draw = stream(seed, CHANGES)
    times_s = settled(draw.random(wanted.pair_count) * parameters.duration_s)
    start = replace(goal, interests=Relation.empty(wanted.row_count, wanted.column_count))
    return in_time_order(start, [Changes.of(times_s, Change.SUBSCRIBE, wanted.rows, wanted.columns)])


def shift(parameters: Tamara, seed: int) -> Timeline:
    """From the workload to fresh interests of the same users: another split into clusters, or uniform (section 5.2)."""
    start = generate(parameters, seed)
    draw = stream(seed, CHANGES)
    if parameters.shift_to == "clustered":
        after, _ = _clustered_interests(draw, _as_clustered(parameters), draw.permutation(parameters.topics))
    else:
        after = _uniform_interests(draw, parameters)
    change, who, topic = difference(start.interests, after)
    order = draw.permutation(len(change))[: parameters.operations_max or None]
    times_s = np.sort(settled(draw.random(len(order)) * parameters.duration_s))
    return in_time_order(start, [Changes.of(times_s, change[order], who[order], topic[order])])


def _as_clustered(parameters: Tamara) -> Clustered:
    if isinstance(parameters, Clustered):
        return parameters
    return Clustered(nodes=parameters.nodes, topics=parameters.topics, subscribers=parameters.subscribers)


def _clustered_interests(
    draw: np.random.Generator, parameters: Clustered, topic_order: NDArray[np.int64]
) -> tuple[Relation, NDArray[np.int32]]:
    """Cluster c holds topic_order[bounds[c]:bounds[c + 1]]."""
    users, topics, clusters = parameters.subscriber_count, parameters.topics, parameters.clusters
    two, inclination, elsewhere = parameters.taste
    cluster_of = np.empty(topics, np.int64)
    cluster_of[topic_order] = np.repeat(np.arange(clusters), np.diff(even_bounds(topics, clusters)))
    first = draw.integers(clusters, size=users)
    second = np.where(draw.random(users) < two, (first + draw.integers(1, max(clusters, 2), users)) % clusters, first)
    rows, columns = [], []
    step = max(1, 2**24 // topics)  # users at a time: memory stays bounded
    for begin in range(0, users, step):
        some = slice(begin, begin + step)
        is_favourite = (cluster_of == first[some, None]) | (cluster_of == second[some, None])
        outside = topics - is_favourite.sum(axis=1)
        extra = np.minimum(draw.poisson(elsewhere, len(outside)), outside)
        lottery = np.where(is_favourite, 2.0, draw.random(is_favourite.shape))
        is_extra = np.argsort(np.argsort(lottery, axis=1), axis=1) < extra[:, None]
        row, column = np.nonzero(np.where(is_favourite, draw.random(is_favourite.shape) < inclination, is_extra))
        rows.append(row + begin)
        columns.append(column)
    return Relation.from_pairs(np.concatenate(rows), np.concatenate(columns), users, topics), first.astype(np.int32)


def _uniform_interests(draw: np.random.Generator, parameters: Tamara) -> Relation:
    mean = parameters.subscriptions or min(26.7, parameters.topics)
    sizes = np.floor(mean + draw.random(parameters.subscriber_count)).astype(np.int64)
    return draw_interests(draw, np.ones(parameters.topics), np.minimum(sizes, parameters.topics))


def _workload(
    name: str, parameters: Tamara, interests: Relation, seed: int, favourite: NDArray[np.int32] | None
) -> Workload:
    said = _publications(parameters, interests, seed)
    return workload_of(name, parameters, interests, seed, favourite, said)


def _publications(parameters: Tamara, interests: Relation, seed: int) -> Publications:
    draw = stream(seed, PUBLICATIONS)
    if parameters.rates in FREQUENCY_BINS and not parameters.whole_rates:
        bins = FREQUENCY_BINS[parameters.rates]
        if parameters.is_first_bin_printed and parameters.rates == "average":
            bins = (PRINTED_FIRST_BIN, *bins[1:])
        rates = by_bins(draw, bins, parameters.topics, parameters.frequency_spread == "log-uniform")
    else:
        rates = topic_rates(draw, parameters, np.bincount(interests.columns, minlength=parameters.topics))
    return publishers_of(draw, interests, rates, parameters.publishers)
