"""SpiderCast's workloads (section 3.1): topics drawn by popularity, fixed or varying list sizes, and churn (section 3.8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model import Relation, Workload
from coterie.workloads.parameters import ATTACHMENT, INTERESTS, Sized, at_least, one_of, stream, within
from coterie.workloads.popularity import draw_interests, exponential, zipf
from coterie.workloads.rates import publish

POPULARITIES = ("zipf", "exponential", "uniform")


class Popular(Sized, frozen=True, kw_only=True):
    """Interests without correlation beyond popularity."""

    subscriptions: int = 10  # min of T, section 3.1; every list has this size unless subscriptions_max is set
    subscriptions_max: int = 0  # max of T: sizes even over [min : max]
    popularity: str = "zipf"  # p_i, section 3.1
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
    return Workload(
        name=parameters.popularity,
        interests=interests,
        publications=publish(parameters, interests, seed),
        attachment=attach(parameters, seed),
        node_count=parameters.nodes,
    )


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
