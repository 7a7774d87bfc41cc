"""Faults as data: what breaks when, and seeded schedules of them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from coterie.errors import ConfigError


@dataclass(frozen=True)
class Crash:
    """The node stops at once and forgets everything."""

    time_s: float
    node: int


@dataclass(frozen=True)
class Stop:
    """The node says good-bye and stops."""

    time_s: float
    node: int


@dataclass(frozen=True)
class Restart:
    """The node starts again from its slice of the plan; its subscribers come back to it."""

    time_s: float
    node: int


@dataclass(frozen=True)
class Partition:
    """These nodes can reach each other but nobody else."""

    time_s: float
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Heal:
    """The partition is over."""

    time_s: float


@dataclass(frozen=True)
class Weather:
    """From now on messages are lost, doubled and delayed like this."""

    time_s: float
    loss: float = 0.0
    duplication: float = 0.0
    jitter_s: float = 0.0


@dataclass(frozen=True)
class Slow:
    """Everything to and from this node takes `factor` times as long; 1 ends it."""

    time_s: float
    node: int
    factor: float


Fault = Crash | Stop | Restart | Partition | Heal | Weather | Slow


@dataclass(frozen=True)
class FaultMix:
    """How bad it gets; `schedule` turns it into faults between two moments, all of them over at the second."""

    crash_share: float = 0.05  # of the nodes, each back after a while
    partition_share: float = 0.3  # of the nodes cut off for the middle third
    loss: float = 0.05
    duplication: float = 0.02
    jitter_s: float = 0.2
    slow_share: float = 0.02

    def __post_init__(self) -> None:
        for key in ("crash_share", "partition_share", "slow_share", "loss", "duplication"):
            if not 0 <= getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "a share from 0 to below 1")

    def schedule(self, node_count: int, start_s: float, end_s: float, random: Random) -> list[Fault]:
        span_s = end_s - start_s
        faults: list[Fault] = [Weather(start_s, self.loss, self.duplication, self.jitter_s), Weather(end_s)]
        for node in _some(node_count, self.crash_share, random):
            down_s = start_s + random.random() * span_s * 0.6
            faults += [Crash(down_s, node), Restart(down_s + random.uniform(0.1, 0.35) * span_s, node)]
        cut_off = tuple(_some(node_count, self.partition_share, random))
        if cut_off:
            faults += [Partition(start_s + span_s / 3, cut_off), Heal(start_s + 2 * span_s / 3)]
        for node in _some(node_count, self.slow_share, random):
            faults += [Slow(start_s, node, 5.0), Slow(end_s, node, 1.0)]
        return sorted(faults, key=lambda fault: fault.time_s)


def _some(node_count: int, share: float, random: Random) -> list[int]:
    count = min(round(node_count * share + 0.49), node_count - 1) if share else 0
    return sorted(random.sample(range(node_count), max(count, 0)))
