"""How long a message takes from node to node, in whole microseconds so that sums do not depend on their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError

MICROSECONDS = 1_000_000

CONSTANT, MATRIX, DISTANCE = 0, 1, 2
MATRIX_NODES_MAX = 2048


@dataclass(frozen=True, eq=False)
class Latency:
    """One of three models; the unused arrays are empty, so that kernels can take all of them.

    MATRIX looks a pair up (node indices modulo the size of the matrix); DISTANCE is `base_us` plus `us_per_unit` times
    the Euclidean distance of the nodes' coordinates.
    """

    kind: int
    base_us: int
    matrix_us: NDArray[np.int64]
    coordinates: NDArray[np.float64]
    us_per_unit: float

    @classmethod
    def constant(cls, milliseconds: float = 50.0) -> Latency:
        if milliseconds < 0:
            raise ConfigError("latency", milliseconds, "milliseconds, at least 0")
        return cls(CONSTANT, round(milliseconds * 1000), np.zeros((1, 1), np.int64), np.zeros((1, 2)), 0.0)

    @classmethod
    def matrix(cls, milliseconds: NDArray[np.float64]) -> Latency:
        """From measured round trips or one-way times; gaps are filled with the median."""
        if milliseconds.ndim != 2 or milliseconds.shape[0] != milliseconds.shape[1]:
            raise ConfigError("latency", milliseconds.shape, "a square matrix")
        filled = np.where(np.isfinite(milliseconds), milliseconds, np.nanmedian(milliseconds))
        matrix_us = np.maximum(np.rint(filled * 1000), 1).astype(np.int64)
        return cls(MATRIX, 0, matrix_us, np.zeros((1, 2)), 0.0)

    @classmethod
    def by_zone(cls, zone_of: NDArray[np.int32] | None, hop_ms: float, zone_ms: float) -> Latency:
        """So long from node to node, so long between zones; without zones, or with too many nodes, always the first."""
        if zone_of is None or len(zone_of) > MATRIX_NODES_MAX:
            return cls.constant(hop_ms)
        return cls.matrix(np.where(zone_of[:, None] != zone_of[None, :], zone_ms, hop_ms))

    @classmethod
    def distance(cls, coordinates: NDArray[np.float64], milliseconds_per_unit: float, base_ms: float = 1.0) -> Latency:
        plane = np.ascontiguousarray(coordinates, np.float64)
        return cls(DISTANCE, round(base_ms * 1000), np.zeros((1, 1), np.int64), plane, milliseconds_per_unit * 1000)

    def between_us(self, source: int, target: int) -> int:
        """The same arithmetic as the pricing kernel's."""
        if self.kind == CONSTANT:
            return self.base_us
        if self.kind == MATRIX:
            size = len(self.matrix_us)
            return int(self.matrix_us[source % size, target % size])
        span = self.coordinates[source] - self.coordinates[target]
        return self.base_us + int(np.sqrt(span[0] * span[0] + span[1] * span[1]) * self.us_per_unit)
