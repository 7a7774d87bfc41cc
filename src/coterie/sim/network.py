"""The simulated network: how long messages take and what becomes of them on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from coterie.errors import ConfigError
from coterie.model.latency import CONSTANT, Latency


@dataclass
class Network:
    """Latency plus the faults in force. Random loss is silent; that a peer is down or cut off, its sender notices."""

    latency: Latency
    random: Random
    loss: float = 0.0  # probability that a message vanishes
    duplication: float = 0.0  # probability that it arrives twice
    jitter_us: int = 0  # extra delay up to this, which reorders messages
    slow: dict[int, float] = field(default_factory=dict)  # node -> factor on everything it sends and receives
    island: dict[int, int] = field(default_factory=dict)  # node -> part of a partition; absent is part 0
    detect_us: int = 1_000_000  # how long a sender takes to notice that a peer is out of reach

    def __post_init__(self) -> None:
        for key, value in (("loss", self.loss), ("duplication", self.duplication)):
            if not 0 <= value < 1:
                raise ConfigError(key, value, "a probability below 1")

    @property
    def is_ideal(self) -> bool:
        return not (self.loss or self.duplication or self.jitter_us or self.slow or self.island)

    @property
    def is_uniform(self) -> bool:
        return self.latency.kind == CONSTANT and self.is_ideal

    def is_cut(self, source: int, target: int) -> bool:
        island = self.island
        return bool(island) and island.get(source, 0) != island.get(target, 0)

    def arrivals_us(self, source: int, target: int) -> list[int]:
        """When the copies of one message arrive, counted from now: none if it is lost, two if it is duplicated."""
        if self.loss and self.random.random() < self.loss:
            return []
        delays = [self._delay_us(source, target)]
        if self.duplication and self.random.random() < self.duplication:
            delays.append(self._delay_us(source, target))
        return delays

    def _delay_us(self, source: int, target: int) -> int:
        delay_us = self.latency.between_us(source, target)
        if self.slow:
            delay_us = int(delay_us * max(self.slow.get(source, 1.0), self.slow.get(target, 1.0)))
        if self.jitter_us:
            delay_us += self.random.randrange(self.jitter_us)
        return delay_us
