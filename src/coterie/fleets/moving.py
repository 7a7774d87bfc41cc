"""Making clients go where the map says: paced, clean sessions first, each asked once, the fleet's health watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from coterie.fleets.balancer import LiveBalancer, Seat
from coterie.fleets.fleet import BrokerFleet

TICK_S = 0.25
LOOK_S = 1.0

HomeOf = Callable[[str], str | None]  # None: anywhere


class Movable(Protocol):
    """Who can say where clients are and end their connection."""

    def seats(self) -> dict[str, Seat]: ...

    def end(self, clients: Sequence[str], seats: Mapping[str, Seat], home_of: HomeOf) -> None: ...


class BehindBalancer:
    """Clients behind HAProxy."""

    def __init__(self, balancer: LiveBalancer) -> None:
        self.balancer = balancer

    def seats(self) -> dict[str, Seat]:
        return self.balancer.seats()

    def end(self, clients: Sequence[str], seats: Mapping[str, Seat], home_of: HomeOf) -> None:
        self.balancer.end([seats[client] for client in clients])


@dataclass
class Journey:
    """What became of the clients: asked to move, arrived, and left where they were because their session lasts."""

    asked: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)  # asked, and not (yet) seen at their home
    seconds: float = 0.0


def misplaced(seats: Mapping[str, Seat], home_of: HomeOf, lasting: bool) -> list[str]:
    """Connected clients that should be elsewhere and may be moved; clean sessions first."""
    found = [
        client
        for client, seat in seats.items()
        if seat.session and home_of(client) not in (None, seat.broker) and (lasting or not seat.is_lasting)
    ]
    return sorted(found, key=lambda client: (seats[client].is_lasting, client))


def move_clients(
    fleet: BrokerFleet,
    movable: Movable,
    home_of: HomeOf,
    lasting: bool,
    look: Callable[[], None],
    asking: Callable[[Sequence[str]], None] = lambda clients: None,
    who: Sequence[str] | None = None,
) -> Journey:
    """Ask everybody who should be elsewhere to go, at the fleet's pace; `look` raises when the fleet is not well.

    `asking` hears who is about to be asked. With `who`, these clients are asked wherever they are.
    """
    journey, started_s = Journey(), time.monotonic()
    seats = movable.seats()
    waiting = list(who) if who is not None else misplaced(seats, home_of, lasting)
    waiting = [client for client in waiting if client in seats and seats[client].session]
    looked_s, allowance = time.monotonic(), 0.0
    while waiting:
        allowance += fleet.limits.moves_per_s * TICK_S
        batch, waiting = waiting[: int(allowance)], waiting[int(allowance) :]
        if batch:
            allowance -= len(batch)
            asking(batch)
            movable.end(batch, seats, home_of)
            journey.asked += batch
        time.sleep(TICK_S)
        if time.monotonic() - looked_s > LOOK_S:
            look()
            looked_s = time.monotonic()
    journey.late = _wait_seated(fleet, movable, home_of, journey.asked)
    journey.seconds = time.monotonic() - started_s
    return journey


def _wait_seated(fleet: BrokerFleet, movable: Movable, home_of: HomeOf, clients: Sequence[str]) -> list[str]:
    """Those who have not come back to their home in time (clients that are off are nobody's fault)."""
    deadline_s = time.monotonic() + fleet.limits.patience_s
    late = list(clients)
    while late:
        seats = movable.seats()
        late = [client for client in late if not _is_seated(seats.get(client), home_of(client))]
        if not late or time.monotonic() > deadline_s:
            break
        time.sleep(TICK_S)
    return late


def _is_seated(seat: Seat | None, home: str | None) -> bool:
    return seat is not None and bool(seat.session) and home in (None, seat.broker)
