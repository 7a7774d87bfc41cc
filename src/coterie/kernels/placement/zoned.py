"""Placement that may cross zones at a price: groups first, then zones for the groups, then everybody once more.

A copy to another zone costs `crossing` more than one inside, and is passed on inside that zone, so a topic crosses once
to every other zone that wants it. Groups of clients are found as if there were no zones; groups of like topics go to
one zone (the same problem again, groups being the clients and zones the brokers); at last single clients move with
both costs in view. Zones first and brokers inside them afterwards ends worse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coterie.kernels.placement.books import seats_of
from coterie.kernels.placement.moves import Moved, best_beginning, follow, gains, named_among, step_by_step
from coterie.kernels.placement.passes import FROM_PRESENT, Present, Zones, auctioned
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.solve import Solver
from coterie.kernels.rings.chord import Index, Offset


@dataclass(frozen=True, eq=False)
class Crossed:
    """A problem whose brokers lie in zones, and where clients are now."""

    problem: Problem
    zones: Zones
    present: Present
    packed: Index
    seed: int
    starts: tuple[Index, ...] = ()  # placements worth improving

    def cost(self, part: Index) -> float:
        """Copies, crossings, and what clients outside the zone of their home pay."""
        away = self.zones.zone_of[part] != self.zones.zone_of[self.present.node_of]
        moved = np.count_nonzero(part != self.present.node_of)
        leaving = float(self.zones.away[away].sum()) + self.present.move_price * moved
        return self.problem.copies(part) + self.zones.crossing * self.crossings(part) + leaving

    def crossings(self, part: Index) -> float:
        """Copies between zones, one to each that wants the topic."""
        between = replace(self.problem, capacity=np.zeros((self.zones.count, self.problem.weight.shape[1])))
        return between.copies(self.zones.zone_of[part])

    def moved(self, moves_max: int | None = None) -> Moved:
        """To the cheapest, one by one: limits hold after every move, and only moves that pay together are made."""
        now, target, zone_of = self.present.node_of, self.solved(), self.zones.zone_of
        crowd, rate, capacity = self.problem.crowd, self.problem.rate, self.problem.capacity
        topics, zones = len(rate), self.zones.count
        near, far = seats_of(crowd, now, topics, len(capacity)), seats_of(crowd, zone_of[now], topics, zones)
        leaving = np.where(zone_of[target] != zone_of[now], self.zones.away, 0.0)
        users = np.flatnonzero(target != now).astype(np.int32)
        promised = gains(crowd, rate, near, target, users) - leaving[users]
        promised += self.zones.crossing * gains(crowd, rate, far, zone_of[target], users)
        load = near.load.copy()
        order = users[np.argsort(-promised, kind="stable")]
        moved, saved = step_by_step(crowd, rate, near, capacity, target, order)
        saved += self.zones.crossing * follow(crowd, rate, far, zone_of[target], moved) - leaving[moved]
        worth = saved - self.present.move_price
        most = len(moved) if moves_max is None else moves_max
        steps = best_beginning(load, crowd.weight, capacity, now, target, moved[:most], worth)
        part = now.copy()
        part[moved[:steps]] = target[moved[:steps]]
        return Moved(part, moved[:steps], self.problem.copies(part))

    def solved(self) -> Index:
        """The cheapest of everybody where they are, and of groups mapped to zones, each with single moves after it."""
        now = self.present.node_of
        groups = self.mapped(Solver(self.problem, self.packed, self.seed).scratch())
        begun = (now, groups, *self.starts)
        joint = [auctioned(self.problem, self.seed, FROM_PRESENT, start, self.present, self.zones) for start in begun]
        fitting = [part for part in (*begun, *joint) if self.problem.is_within(part)]
        return min(fitting or [self.packed], key=self.cost)

    def mapped(self, part: Index) -> Index:
        """The groups of a placement at brokers of the zones where most of their topics are."""
        groups, problem, zone_of = self.problem.broker_count, self.problem, self.zones.zone_of
        wanted = np.unique(
            np.repeat(part, np.diff(problem.indptr)).astype(np.int64) * len(problem.rate) + problem.topics
        )
        group, topic = np.divmod(wanted, len(problem.rate))
        indptr: Offset = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))]).astype(np.int64)
        room = np.bincount(zone_of, minlength=self.zones.count).astype(np.float64)[:, None]
        coarse = Problem(
            indptr, topic.astype(np.int32), problem.rate, np.ones((groups, 1)), room,
            part[problem.publisher].astype(np.int32), problem.said_topic, problem.said_rate,
        )  # fmt: skip
        filled = np.repeat(np.arange(self.zones.count, dtype=np.int32), room[:, 0].astype(np.int64))
        zone = Solver(coarse, filled, self.seed).scratch()
        return named_among(part, self.present.node_of, zone[:, None] == zone_of[None, :])
