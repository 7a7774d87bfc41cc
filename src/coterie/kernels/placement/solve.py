"""A placement for a problem of any size: from nothing, or from where clients are, at a price for every move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.kernels.placement import books
from coterie.kernels.placement.books import Crowd, Seats
from coterie.kernels.placement.moves import Moved, gains, paying_moves, renamed, step_by_step
from coterie.kernels.placement.passes import CAREFUL, FROM_PRESENT, QUICK, THOROUGH, Present, auctioned
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.search import MOVES, Schedule, Search
from coterie.kernels.rings.chord import Index

Start = tuple[Index, Schedule]  # and how it is refined
SMALL_PINS = 300_000  # up to here every start is tried, and exchanges and groups after it
CAREFUL_PINS = 5_000_000  # up to here a second fall of p is worth its time
HOME_PRICE = 1e-6  # of a wish's mean rate: who could as well stay stays
SETTLING = 3  # passes in which single moves must pay


@dataclass(frozen=True, eq=False)
class Solver:
    """One problem, somewhere everybody fits (`packed`), and the seed."""

    problem: Problem
    packed: Index
    seed: int

    def scratch(self, starts: Sequence[Start] = ()) -> Index:
        """The fewest copies, whoever has to move for it; `starts` are placements worth improving."""
        if not self._is_small:
            return self._large()
        search = self.search(self.problem.crowd)
        found = [search.refined(search.grown(), MOVES)]
        found += [search.refined(start, schedule) for start, schedule in starts]
        first = search.improved(self._best(search, found))
        bought = [search.seats(auctioned(self.problem, self.seed, manner)) for manner in THOROUGH]
        second = search.improved(self._best(search, bought))
        return min(first, second, key=search.cost).part

    def search(self, crowd: Crowd) -> Search:
        problem = self.problem
        draw = np.random.default_rng(self.seed)
        return Search(crowd, problem.rate, problem.broker_count, problem.capacity, draw)

    def moved(self, present: Present, moves_max: int | None = None) -> Moved:
        """From the present placement, by moves that each save more than they cost.

        Tried: who sits badly moves; the smoothed search from here; and all from scratch under the names of today.
        """
        crowd, problem = self.problem.crowd, self.problem
        search = self.search(crowd)
        nearby = auctioned(problem, self.seed, FROM_PRESENT, present.node_of, present)
        targets = [self._settled(search, nearby, present)]
        at = self._admitted(present.node_of, nearby)
        targets.append(self._settled(search, at, present))
        if self._is_small:
            targets.append(
                self._settled(search, self.named(search, self.scratch([(at, MOVES[-1:])]), present.node_of), present)
            )
        price, most = max(present.move_price, self._home_price), len(at) if moves_max is None else moves_max
        found = [
            paying_moves(crowd, problem.rate, search.seats(at), problem.capacity, target, price, most)
            for target in targets
        ]
        return min(found, key=lambda moved: (self._is_over(crowd, moved.part), moved.cost + price * len(moved.order)))

    def renewed(self, present: Index, starts: Sequence[Start] = ()) -> Index:
        """From scratch, never dearer than the present placement where that keeps the limits; names are kept."""
        now = self._admitted(present, self.packed)
        found = self.scratch([*starts, (now, MOVES[-1:])])
        search = self.search(self.problem.crowd)
        named, stayed = search.seats(self.named(search, found, present)), search.seats(now)
        is_better = not search.is_within(stayed) or search.cost(named) < search.cost(stayed)
        return named.part if is_better else stayed.part

    def in_order(self, present: Index, target: Index) -> Moved:
        """All the way to `target`; the order has whoever can move with limits kept, newcomers before everybody else."""
        problem = self.problem
        seats = self.search(problem.crowd).seats(self._admitted(present, target))
        users = np.flatnonzero((target != present) & (present >= 0)).astype(np.int32)
        worth = gains(problem.crowd, problem.rate, seats, target, users)
        order = users[np.argsort(-worth, kind="stable")]
        moved, _ = step_by_step(problem.crowd, problem.rate, seats, problem.capacity, target, order)
        newcomers = np.flatnonzero(present < 0).astype(np.int32)
        return Moved(target, np.concatenate([newcomers, moved]), problem.copies(target))

    def named(self, search: Search, part: Index, present: Index) -> Index:
        """Brokers take the names under which most clients stay; who could as well be at home goes home."""
        named = renamed(part, present, search.seats(part).load, self.problem.capacity)
        return self._settled(search, named, Present(present, 0.0))

    @property
    def _is_small(self) -> bool:
        return len(self.problem.topics) + len(self.problem.publisher) <= SMALL_PINS

    @property
    def _home_price(self) -> float:
        rates = self.problem.rate[self.problem.topics]
        return HOME_PRICE * float(rates.mean()) if len(rates) and rates.any() else HOME_PRICE

    def _large(self) -> Index:
        manner = CAREFUL if len(self.problem.topics) <= CAREFUL_PINS else QUICK
        found = auctioned(self.problem, self.seed, manner)
        search = self.search(self.problem.crowd)
        seats = search.seats(found)
        if not search.is_within(seats):
            seats = search.seats(auctioned(self.problem, self.seed, manner, self.packed))
        if len(self.problem.publisher):  # bytes are too coarse for the shares of many publishers
            books.sweep(search.crowd, search.rate, seats, search.capacity, books.powers(0.0),
                        search.order(len(found)), seats.part, 0.0)  # fmt: skip
        return seats.part

    def _best(self, search: Search, found: Sequence[Seats]) -> Seats:
        """The cheapest that keeps the limits; if none does, the packing, improved."""
        fitting = [seats for seats in found if search.is_within(seats)]
        return min(fitting or [search.refined(self.packed, MOVES)], key=search.cost)

    def _settled(self, search: Search, part: Index, present: Present) -> Index:
        seats, exact = search.seats(part), books.powers(0.0)
        price = max(present.move_price, self._home_price)
        for _ in range(SETTLING):
            order = search.order(len(part))
            if not books.sweep(search.crowd, search.rate, seats, search.capacity, exact, order, present.node_of, price):
                break
        return seats.part

    def _admitted(self, node_of: Index, elsewhere: Index) -> Index:
        """Where everybody is; newcomers where the search put them."""
        return np.where(node_of >= 0, node_of, elsewhere).astype(np.int32)

    def _is_over(self, crowd: Crowd, part: Index) -> bool:
        load = np.zeros_like(self.problem.capacity)
        np.add.at(load, part, crowd.weight)
        return bool((load > self.problem.capacity * (1 + books.DUST)).any())
