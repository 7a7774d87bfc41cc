"""How long changes kept paying: what was promised of moves and redirects, and what became of it, by age.

What is chosen for its gain gains less than it seems, and what was true of one window is less so of the next. Both are
seen in the log itself: every change is looked at again after every window, as long as its client sits where it was put.
The sum over ages of what was kept of the promise is for how many windows a promise may be counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.placement.books import Crowd, Seats, seats_of
from coterie.kernels.placement.moves import follow
from coterie.kernels.placement.problem import Problem
from coterie.model import Workload
from coterie.model.relation import Index

F64 = NDArray[np.float64]
MOVES, REDIRECTS = 0, 1
AGES = 128  # windows; nothing is followed for longer
KEPT_FIRST = 0.5  # of a promise, before anything was seen
CHANGES_FIRST = 20  # changes that this opinion weighs


@dataclass(eq=False)
class Cohort:
    """Clients put at `seat` instead of `other` in one window."""

    kind: int
    client: Index
    other: Index
    seat: Index
    promised: float  # copies a window
    cost: float
    age: int = 0
    kept: float = 0.0
    kept_last: float = 0.0


@dataclass(eq=False)
class Experience:
    """`first` is by kind for how many windows a promise counts before anything was seen, `cost` what a change costs."""

    first: tuple[float, float]
    cost: tuple[float, float]
    cohorts: list[Cohort] = field(default_factory=list)
    promised: F64 = field(default_factory=lambda: np.zeros((2, AGES + 1)))
    kept: F64 = field(default_factory=lambda: np.zeros((2, AGES + 1)))

    def note(self, kind: int, client: Index, other: Index, seat: Index, promised: float) -> None:
        if len(client):
            self.cohorts.append(Cohort(kind, client, other, seat, promised, self.cost[kind] * len(client)))

    def learn(self, demand: Workload, span_s: float, seats: Index) -> None:
        """A window has passed: what did every change save in it, everybody else being where they were?"""
        if not self.cohorts:
            return
        now = SeatedDemand.of(demand, seats)
        for one in self.cohorts:
            one.age += 1
            one.kept_last = span_s * now.worth(one.client, one.other, one.seat)
            one.kept += one.kept_last
            self.promised[one.kind, one.age] += one.promised
            self.kept[one.kind, one.age] += one.kept_last

    def lasts(self, kind: int, windows: int) -> float:
        """For how many windows a promise may be counted, so many being left."""
        ages = np.arange(1, min(windows, AGES) + 1)
        opinion = CHANGES_FIRST * self.cost[kind] / max(self.first[kind], 1e-30)
        first = np.where(ages <= self.first[kind] / KEPT_FIRST, KEPT_FIRST, 0.0)
        promised, kept = self.promised[kind, 1:], self.kept[kind, 1:]
        seen = int(np.max(np.flatnonzero(promised), initial=-1)) + 1
        share = (kept[: len(ages)] + opinion * first) / (promised[: len(ages)] + opinion)
        if seen:  # what has lasted so long will last as long again
            late = slice(seen - -(-seen // 3), seen)
            tail = float(kept[late].sum() / max(promised[late].sum(), 1e-30))
            share = np.where((ages > seen) & (ages <= 2 * seen), np.maximum(tail, share), share)
        return float(np.maximum(share, 0.0).sum())

    def forget_who(self) -> None:
        """Keep what was learned, but follow nobody any more."""
        self.cohorts.clear()


def plain_problem(demand: Workload) -> Problem:
    """Without room: only copies count."""
    interests, said = demand.interests, demand.publications
    nothing = np.zeros((demand.subscriber_count, 0)), np.zeros((demand.node_count, 0))
    return Problem(
        interests.indptr, interests.columns, demand.rates, *nothing, said.publisher, said.topic, said.rate
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SeatedDemand:
    """A demand with everybody where they sit: what would it cost with some of them elsewhere?"""

    problem: Problem
    crowd: Crowd
    books: Seats

    @classmethod
    def of(cls, demand: Workload, seats: Index) -> SeatedDemand:
        problem = plain_problem(demand)
        crowd = problem.crowd
        return cls(
            problem, crowd, seats_of(crowd, np.maximum(seats, 0), len(problem.rate), problem.broker_count)
        )  # fmt: skip

    def worth(self, client: Index, other: Index, seat: Index) -> float:
        """Copies per second that they save together at `seat` against `other`; who is at neither counts nothing."""
        here, saved = self.books.part[client], 0.0
        for at, to, sign in ((seat, other, -1.0), (other, seat, 1.0)):
            mine = np.flatnonzero((here == at) & (seat != other))
            if len(mine):
                own = self.books
                books = Seats(own.part.copy(), own.counts.copy(), own.entering.copy(), own.load)
                target = own.part.copy()
                target[client[mine]] = to[mine]
                saved += sign * float(follow(self.crowd, self.problem.rate, books, target, client[mine]).sum())
        return saved
