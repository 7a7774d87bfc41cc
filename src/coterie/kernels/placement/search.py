"""Searches for a balanced placement of least fan-out: one by one, by exchanges, and by groups that move together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.kernels.placement import books
from coterie.kernels.placement.books import Crowd, Floats, Seats
from coterie.kernels.placement.levels import coarsened, part_of_groups
from coterie.kernels.placement.swaps import swap_sweep
from coterie.kernels.rings.chord import Index

Schedule = Sequence[tuple[float, int]]  # (smoothing, sweeps)
MOVES: Schedule = ((0.9, 3), (0.7, 4), (0.5, 6), (0.3, 4), (0.1, 3), (0.0, 4))
SWAPS: Schedule = ((0.7, 1), (0.5, 3), (0.3, 3), (0.0, 2))
CYCLE: Schedule = ((0.3, 1), (0.0, 2))  # at each level
CYCLES_MAX = 3
CYCLE_PAYS = 0.005  # the share of the cost that a cycle must have saved for another one
HEAVIEST = 0.25  # of a broker's capacity: larger groups fit nowhere


def heaviest_of(capacity: Floats) -> Floats:
    """What a group may weigh, by dimension."""
    return HEAVIEST * capacity.min(axis=0)


@dataclass(frozen=True, eq=False)
class Search:
    """One instance of the problem, and the draws its local searches take their order from."""

    crowd: Crowd
    rate: Floats
    broker_count: int
    capacity: Floats  # [broker, dimension]
    draw: np.random.Generator

    def order(self, count: int) -> Index:
        return self.draw.permutation(count).astype(np.int32)

    def seats(self, part: Index) -> Seats:
        return books.seats_of(self.crowd, part, len(self.rate), self.broker_count)

    def cost(self, seats: Seats) -> float:
        return books.cost_of(seats, self.rate)

    def is_within(self, seats: Seats) -> bool:
        return books.is_within(seats, self.capacity)

    def grown(self) -> Index:
        order = self.order(len(self.crowd.weight))
        counted = len(self.rate) if self.crowd.said.any() else 0
        seats = Seats(
            np.zeros(len(order), np.int32),
            np.zeros((len(self.rate), self.broker_count), np.int32),
            np.zeros((counted, self.broker_count)),
            np.zeros_like(self.capacity),
        )
        books.grow(self.crowd, self.rate, seats, self.capacity, books.powers(0.9), order)
        return seats.part

    def refined(self, start: Index, schedule: Schedule = MOVES, *, has_swaps: bool = False) -> Seats:
        """Local search from a placement, smoothing first; the exact objective decides in the end."""
        seats = self.seats(start)
        self.polish(self.crowd, seats, schedule, has_swaps)
        return seats

    def cycled(self, start: Index) -> Seats:
        """Like users of one broker are gathered into ever larger groups; then these move, and split again step by step.

        What one user cannot do alone, a group can: leave a broker together for the one that holds the rest of its kind.
        """
        levels: list[tuple[Crowd, Index]] = []
        crowd, part = self.crowd, start
        heaviest = heaviest_of(self.capacity)
        while len(part) > 2 * self.broker_count:
            coarse, group = coarsened(crowd, self.rate, part, heaviest, self.order(len(part)))
            if len(coarse.weight) > 0.95 * len(part):
                break
            levels.append((crowd, group))
            crowd, part = coarse, part_of_groups(part, group, len(coarse.weight))
        seats = self._level(crowd, part)
        for crowd, group in reversed(levels):
            seats = self._level(crowd, seats.part[group])
        return seats

    def improved(self, start: Seats) -> Seats:
        """Exchanges, then cycles as long as they pay; never worse than the start."""
        best = min(start, self.refined(start.part, SWAPS, has_swaps=True), key=self.cost)
        for _ in range(CYCLES_MAX):
            found = self.cycled(best.part)
            before, after = self.cost(best), self.cost(found)
            if after < before:
                best = found
            if before - after <= CYCLE_PAYS * before:
                break
        return best

    def polish(self, crowd: Crowd, seats: Seats, schedule: Schedule, has_swaps: bool) -> None:
        """Sweeps over users or groups until they no longer find much; `seats` changes in place."""
        for smoothing, sweeps in schedule:
            table = books.powers(smoothing)
            for _ in range(sweeps):
                order = self.order(len(seats.part))
                moved = books.sweep(crowd, self.rate, seats, self.capacity, table, order, seats.part, 0.0)
                if has_swaps:
                    moved += swap_sweep(crowd, self.rate, seats, self.capacity, table, order, 0.0)
                if moved * 1000 < len(order):
                    break

    def _level(self, crowd: Crowd, part: Index) -> Seats:
        seats = books.seats_of(crowd, part, len(self.rate), self.broker_count)
        self.polish(crowd, seats, CYCLE, has_swaps=True)
        return seats
