"""What every generator's parameters share, and the checks they are validated with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from coterie.errors import ConfigError

INTERESTS, PUBLICATIONS, ATTACHMENT, CHANGES, NETWORK, MODES = range(
    6
)  # streams of randomness: one does not shift another
RATE_MODELS = ("constant", "power-law", "average", "frequent", "infrequent")
INT32_MAX = 2**31 - 1
INTERVAL_S = 60.0  # the papers' M: in their experiments rates are events per interval, and so far apart are heartbeats


class WorkloadParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who publishes how often; every paper adds who wants what. Rates are events per INTERVAL_S."""

    rate_models: ClassVar[tuple[str, ...]] = RATE_MODELS

    publishers: int = 1  # of a topic, drawn from its subscribers; they share the topic's rate
    rates: str = "constant"  # constant, power-law (Magnet 4.2), average, frequent or infrequent (Tamara Table 1)
    rate: float = 1.0  # of every topic (constant), or the mean over topics (power-law)
    rate_exponent: float = 0.75  # alpha of the publication rates, Magnet section 4.2
    whole_rates: bool = False  # rounds to whole events, at least 1: what a simulation publishes

    def __post_init__(self) -> None:
        at_least("publishers", self.publishers, 1)
        one_of("rates", self.rates, self.rate_models)
        above("rate", self.rate, 0)
        at_least("rate_exponent", self.rate_exponent, 0)


class Sized(WorkloadParameters, frozen=True, kw_only=True):
    """The sizes of a synthetic workload."""

    nodes: int = 1000  # how many nodes
    topics: int = 100  # how many topics
    subscribers: int = 0  # 0: a peer network, every node is one subscriber; else they sit at nodes drawn evenly

    def __post_init__(self) -> None:
        super().__post_init__()
        within("nodes", self.nodes, 1, INT32_MAX)
        within("topics", self.topics, 1, INT32_MAX)
        within("subscribers", self.subscribers, 0, INT32_MAX)

    @property
    def subscriber_count(self) -> int:
        return self.subscribers or self.nodes


def stream(seed: int, purpose: int) -> np.random.Generator:
    """The randomness of one purpose under a seed."""
    if seed < 0:
        raise ConfigError("seed", seed, "a whole number from 0")
    return np.random.default_rng([seed, purpose])


def at_least(key: str, value: float, low: float) -> None:
    if not (math.isfinite(value) and value >= low):
        raise ConfigError(key, value, f"at least {low}")


def above(key: str, value: float, low: float) -> None:
    if not (math.isfinite(value) and value > low):
        raise ConfigError(key, value, f"more than {low}")


def within(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(key, value, f"from {low} to {high}")


def one_of(key: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(key, value, f"one of {', '.join(allowed)}")
