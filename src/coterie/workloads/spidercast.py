"""SpiderCast's workloads (sections 3.1 and 3.8): topics drawn by popularity, lists of varying size, churn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model import Change, Publications, Relation, Timeline, Workload
from coterie.workloads.changes import Changes, drawn_anew, in_time_order
from coterie.workloads.parameters import ATTACHMENT, CHANGES, INTERESTS, Sized, above, at_least, one_of, stream, within
from coterie.workloads.popularity import draw_interests, exponential, zipf
from coterie.workloads.rates import publish, settled

POPULARITIES = ("zipf", "exponential", "uniform")


class Popular(Sized, frozen=True, kw_only=True):
    """Interests without correlation beyond popularity."""

    subscriptions: int = 10  # topics of a node, or the fewest if subscriptions_max is set (T, section 3.1)
    subscriptions_max: int = 0  # the most: numbers are drawn evenly from all between; 0: all have the same
    popularity: str = "zipf"  # of topics: zipf, exponential or uniform (p_i, section 3.1)
    exponent: float = 0.5  # alpha of zipf; 0.5 is RSS
    top_tenth: float = 0.55  # exponential: probability of the 10 % most popular topics (NYSE)

    def __post_init__(self) -> None:
        super().__post_init__()
        within("subscriptions", self.subscriptions, 0, self.topics)
        if self.subscriptions_max:
            within("subscriptions_max", self.subscriptions_max, self.subscriptions, self.topics)
        one_of("popularity", self.popularity, POPULARITIES)
        at_least("exponent", self.exponent, 0)
        if not 0.1 < self.top_tenth < 1:
            raise ConfigError("top_tenth", self.top_tenth, "more than 0.1 (uniform) and less than 1")


class Uniform(Popular, frozen=True, kw_only=True):
    """Every topic alike."""

    popularity: str = "uniform"


class Zipf(Popular, frozen=True, kw_only=True):
    """p_i proportional to i^-alpha."""

    exponent: float = 1.0


class Nyse(Popular, frozen=True, kw_only=True):
    """Exponential popularity: stocks of the New York exchange."""

    popularity: str = "exponential"


def popular(parameters: Popular, seed: int) -> Workload:
    interests = interests_of(parameters, stream(seed, INTERESTS), parameters.subscriber_count)
    return workload_of(parameters.popularity, parameters, interests, seed)


def weights_of(parameters: Popular) -> NDArray[np.float64]:
    if parameters.popularity == "zipf":
        return zipf(parameters.topics, parameters.exponent)
    if parameters.popularity == "exponential":
        return exponential(parameters.topics, parameters.top_tenth)
    return np.ones(parameters.topics)


def interests_of(parameters: Popular, draw: np.random.Generator, count: int) -> Relation:
    highest = parameters.subscriptions_max or parameters.subscriptions
    sizes = draw.integers(parameters.subscriptions, highest, count, np.int64, endpoint=True)
    return draw_interests(draw, weights_of(parameters), sizes)


def attach(parameters: Sized, seed: int) -> NDArray[np.int32]:
    """The node of every subscriber: its own in a peer network, else one drawn evenly."""
    if not parameters.subscribers:
        return np.arange(parameters.nodes, dtype=np.int32)
    return stream(seed, ATTACHMENT).integers(parameters.nodes, size=parameters.subscribers, dtype=np.int32)


def workload_of(
    name: str,
    parameters: Sized,
    interests: Relation,
    seed: int,
    modes: NDArray[np.int32] | None = None,
    publications: Publications | None = None,
) -> Workload:
    """Who wants what is drawn; nodes are drawn in the same way for all, and publications unless they are given."""
    return Workload(
        name=name,
        interests=interests,
        publications=publish(parameters, interests, seed) if publications is None else publications,
        attachment=attach(parameters, seed),
        node_count=parameters.nodes,
        modes=modes,
    )


class Churn(Popular, frozen=True, kw_only=True):
    """Section 3.8: nodes come and go, each time with another interest."""

    nodes: int = 1250
    mean_life_s: float = 100.0  # mean time connected, 100 to 500 s (lambda)
    mean_pause_s: float = 0.0  # mean time away; 0: a quarter of the mean time connected
    duration_s: float = 1000.0  # of the story
    crash_share: float = 0.0  # of the departures, those without a good-bye
    is_renewed: bool = True  # whether a node comes back with another interest

    def __post_init__(self) -> None:
        super().__post_init__()
        above("mean_life_s", self.mean_life_s, 0)
        at_least("mean_pause_s", self.mean_pause_s, 0)
        at_least("duration_s", self.duration_s, 0)
        within("crash_share", self.crash_share, 0, 1)
        if self.subscribers:
            raise ConfigError("subscribers", self.subscribers, "0, because under churn every node is one subscriber")


def churn(parameters: Churn, seed: int) -> Timeline:
    """Starts in the steady state: nodes that are away at the start leave at time 0.

    A node's new interest is set right before it joins, at the same moment.
    """
    draw = stream(seed, CHANGES)
    start = popular(parameters, seed)
    time_s, node, is_departure = _comings_and_goings(draw, parameters)
    kind = np.where(draw.random(len(node)) < parameters.crash_share, Change.CRASH, Change.LEAVE)
    kind[~is_departure] = Change.JOIN
    kind[(time_s == 0) & is_departure] = Change.LEAVE
    parts = [Changes.of(time_s, kind, node)]
    if parameters.is_renewed:
        parts.insert(0, _new_interests(draw, parameters, start.interests, time_s[~is_departure], node[~is_departure]))
    return in_time_order(start, parts)


def _comings_and_goings(
    draw: np.random.Generator, parameters: Churn
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.bool_]]:
    """(time, node, is departure) of every switch until the end, in time order."""
    pause_s = parameters.mean_pause_s or parameters.mean_life_s / 4
    is_up = draw.random(parameters.nodes) < parameters.mean_life_s / (parameters.mean_life_s + pause_s)
    node = np.arange(parameters.nodes, dtype=np.int32)
    times, nodes, departures = [np.zeros(int((~is_up).sum()))], [node[~is_up]], [np.ones(int((~is_up).sum()), bool)]
    now_s = np.zeros(parameters.nodes)
    while len(node):
        # Exponential stays have no memory, so the first one may be drawn like all others.
        now_s = now_s + draw.standard_exponential(len(node)) * np.where(is_up, parameters.mean_life_s, pause_s)
        on = now_s < parameters.duration_s
        node, now_s, is_up = node[on], settled(now_s[on]), ~is_up[on]
        times.append(now_s)
        nodes.append(node)
        departures.append(~is_up)
    time_s = np.concatenate(times)
    order = np.argsort(time_s, kind="stable")
    return time_s[order], np.concatenate(nodes)[order], np.concatenate(departures)[order]


def _new_interests(
    draw: np.random.Generator,
    parameters: Churn,
    first: Relation,
    time_s: NDArray[np.float64],
    node: NDArray[np.int32],
) -> Changes:
    """The changes that give each joining node a fresh interest instead of its last one."""
    return drawn_anew(first, interests_of(parameters, draw, len(node)), time_s, node)
