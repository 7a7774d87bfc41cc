"""Observe, plan, apply, and again when it pays: one process that a person can leave running.

Between two rounds newcomers are admitted as the journal shows them. A round plans for the wishes of now, keeps brokers'
names close to where clients already are, weighs what the plan saves within the horizon against the moves it takes, and
stays within the moves an hour that the fleet file allows: the moves that save most come first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.errors import CoterieError, InputError
from coterie.fleets.admission import Admission, Admitter, Places
from coterie.fleets.applying import Application
from coterie.fleets.audience import Audience, JournalTail
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.export.target import LinkShape
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout
from coterie.fleets.outlook import as_seated, copies_now, copies_per_s, copies_under

HOUR_S = 3600.0

Planner = Callable[[FleetLayout], FleetLayout]  # the fleet as it is -> as it should be
Observe = Callable[[], object]  # brings the journal up to date


@dataclass(frozen=True)
class RoundReport:
    """What a round found and did."""

    clients: int
    copies_now_per_s: float
    copies_planned_per_s: float
    moves: int
    decision: str
    is_applied: bool = False


class MoveBudget:
    """Moves within the last hour."""

    def __init__(self, moves_per_hour: int, clock: Callable[[], float]) -> None:
        self._allowed, self._clock = moves_per_hour, clock
        self._spent: deque[tuple[float, int]] = deque()

    @property
    def left(self) -> int:
        while self._spent and self._spent[0][0] < self._clock() - HOUR_S:
            self._spent.popleft()
        return self._allowed - sum(count for _, count in self._spent)

    def spend(self, count: int) -> None:
        if count:
            self._spent.append((self._clock(), count))


class FleetLoop:
    """One fleet followed."""

    def __init__(
        self,
        fleet: BrokerFleet,
        journal: Path,
        names: Sequence[str],
        folder: Path,
        planner: Planner,
        is_dry: bool = False,
        observe: Observe = lambda: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.fleet, self.folder, self.say, self._planner, self._observe = fleet, folder, say, planner, observe
        observe()
        self.targets = chosen_targets(names, fleet)
        self.tail, self.audience = JournalTail(journal), Audience()
        self.is_dry = is_dry
        self.budget = MoveBudget(fleet.limits.moves_per_hour, time.monotonic)
        self._application = Application(fleet, self.targets, folder, TARGETS, say)
        self._is_star = any(target.shape is LinkShape.STAR for target in self.targets)
        self._admitter = (
            Admitter(fleet, self.audience, self._is_star, is_dry) if self._application.balancer is not None else None
        )

    def listen(self) -> int:
        """Take in what is new in the journal; returns how many lines."""
        self._observe()
        return self.audience.take(self.tail.lines())

    def admit(self) -> list[Admission]:
        if self._admitter is None:
            return []
        found = self._admitter.step(self.budget.left)
        self.budget.spend(len(found))
        for one in found:
            verb = "would go" if self.is_dry else "goes"
            self.say(
                f"{one.client} {verb} from {one.origin} to {one.home}: saves {one.saves_per_s:.3g} copies a second"
            )
        return found

    def round(self) -> RoundReport:
        """Plan for now; apply if it pays."""
        self.listen()
        seats = {client: seat.broker for client, seat in self._application.seats().items() if seat.session}
        now = self.audience.layout(self.fleet.names, seats)
        if not now.home:
            return RoundReport(0, 0.0, 0.0, 0, "the journal shows no clients yet")
        planned = self._planner(now)
        if not any(target.shape is LinkShape.STAR for target in self.targets):
            planned = replace(planned, home=renamed(planned.home, now.home, self.fleet.names))
        planned = self._within_budget(as_seated(now, seats), planned, seats)
        before = copies_per_s(now, copies_now(self.fleet, self.targets, now)) or 0.0
        after = copies_per_s(planned, copies_under(self.fleet, self.targets, planned)) or 0.0
        moves = [client for client, broker in planned.home.items() if seats.get(client, broker) != broker]
        saved, price = (before - after) * self.fleet.limits.horizon_s, len(moves) * self.fleet.limits.move_price
        facts = f"saves {saved:,.0f} copies in {self.fleet.limits.horizon_s:g} s, moves cost {price:,.0f}"
        report = RoundReport(len(now.home), before, after, len(moves), f"kept: {facts}")
        if saved <= price:
            return report
        if self.is_dry:
            return replace(report, decision=f"would be applied: {facts}")
        done = self._application.apply(planned)
        self.budget.spend(len(done.journey.asked))
        return replace(report, decision=f"applied: {facts}", is_applied=True)

    def _within_budget(self, now: FleetLayout, planned: FleetLayout, seats: Mapping[str, str]) -> FleetLayout:
        """The moves that save most, as many as are left this hour; the others stay where they are."""
        moving = [client for client, broker in planned.home.items() if seats.get(client, broker) != broker]
        if len(moving) <= self.budget.left:
            return planned
        there = Places(planned, self.fleet.hub if self._is_star else "", self.fleet.limits)
        here = Places(now, self.fleet.hub if self._is_star else "", self.fleet.limits)
        gain = {client: here.weight(client) - there.weight(client) for client in moving}
        kept = sorted(moving, key=lambda client: (-gain[client], client))[max(self.budget.left, 0) :]
        return replace(planned, home={**planned.home, **{client: seats[client] for client in kept}})

    def run(self, every_s: float, rounds: int = 0, look_s: float = 1.0) -> None:
        """Until interrupted, or for so many rounds; what fails is told and tried again."""
        done = 0
        while True:
            try:
                report = self.round()
                self.say(
                    f"{report.clients} clients, {report.copies_now_per_s:.3g} copies a second now, "
                    f"{report.copies_planned_per_s:.3g} planned with {report.moves} moves; {report.decision}"
                )
            except CoterieError as error:
                self.say(f"this round failed: {error}")
            done += 1
            if rounds and done >= rounds:
                return
            deadline_s = time.monotonic() + every_s
            while time.monotonic() < deadline_s:
                time.sleep(min(look_s, max(deadline_s - time.monotonic(), 0.0)))
                self._between_rounds()

    def _between_rounds(self) -> None:
        try:
            if self.listen():
                self.admit()
        except CoterieError as error:
            self.say(f"newcomers were not admitted: {error}")


def renamed(home: Mapping[str, str], now: Mapping[str, str], brokers: Sequence[str]) -> dict[str, str]:
    """The same groups of clients with brokers' names exchanged so that most clients stay where they are."""
    number = {broker: at for at, broker in enumerate(brokers)}
    together = np.zeros((len(brokers), len(brokers)))
    for client, broker in home.items():
        if now.get(client) in number:
            together[number[broker], number[now[client]]] += 1
    rows, columns = linear_sum_assignment(together, maximize=True)
    new = {brokers[row]: brokers[column] for row, column in zip(rows.tolist(), columns.tolist(), strict=True)}
    return {client: new[broker] for client, broker in home.items()}


def plan_here(system: str, seed: int = 1) -> Planner:
    """Plan in this process: for fleets whose wishes fit in it with ease."""

    def plan(now: FleetLayout) -> FleetLayout:
        from coterie.fleets.workload import planned_home

        return replace(now, home=planned_home(now, system, seed))

    return plan


def journal_of(fleet: BrokerFleet, given: Path | None) -> Path:
    path = given or fleet.journal
    if path is None:
        raise InputError(fleet.source, "journal is missing: the folder that `coterie observe` writes (or --journal)")
    return path
