"""Giving a plan to a running fleet in the order that loses least, and taking it back.

First whoever may receive by the old or the new plan does; then the balancer's map says where clients belong; then they
move, paced; then only the new plan holds. What was there before is on disk before the first change. When brokers or
deliveries fail on the way, everything is put back by the same steps; what could not be put back is said.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from coterie.errors import CoterieError, InputError, RunError
from coterie.fleets.balancer import LiveBalancer, Seat
from coterie.fleets.export import haproxy
from coterie.fleets.export.target import BALANCER, Mover, Piece, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout
from coterie.fleets.movers import movable_of
from coterie.fleets.moving import HomeOf, Journey, misplaced, move_clients
from coterie.fleets.probing import look_across, look_at_all, until_well
from coterie.fleets.record import (
    APPLIED,
    APPLYING,
    BEFORE,
    UNDONE,
    BeforeRecord,
    KeptFile,
    check_writable,
    read_record,
    write_record,
    write_whole,
)
from coterie.fleets.telling import can_be_told, pid_of, tell

Say = Callable[[str], None]


@dataclass(frozen=True)
class FileChange:
    """A file that changes: what it shall be (None: gone), and the target that knows how old and new go together."""

    piece: Piece
    target: Target
    is_removed: bool = False

    @property
    def place(self) -> Path:
        assert self.piece.place is not None
        return self.piece.place


@dataclass
class Applied:
    """What was done, or would be."""

    wanted: FleetLayout  # as it is in force: who could not be moved keeps the place it has
    files: list[str] = field(default_factory=list)
    entries: int = 0  # of the balancer's map
    to_move: int = 0
    journey: Journey = field(default_factory=Journey)
    lasting: int = 0  # sessions left where they are
    strangers: int = 0  # connected clients that the plan does not know
    seconds: float = 0.0


class Application:
    """One plan, one fleet, some targets."""

    def __init__(
        self,
        fleet: BrokerFleet,
        targets: Sequence[Target],
        folder: Path,
        by_name: Mapping[str, Target],
        say: Say = lambda text: None,
    ) -> None:
        self.fleet, self.targets, self.folder, self.say = fleet, list(targets), folder, say
        self._by_name = by_name
        self._speaks = "nats" if any(target.speaks == "nats" for target in targets) else "mqtt"
        has_map = any(target.moves in (Mover.BALANCER, Mover.API) for target in targets)
        self.balancer: LiveBalancer | None = None
        if has_map and fleet.balancer is not None:
            self.balancer = LiveBalancer(fleet.balancer, fleet.limits.patience_s)
        self._movable = movable_of(fleet, targets, self.balancer)

    # --- looking ---

    def look(self) -> None:
        """RunError unless every broker answers and delivers, in a star also across the hub."""
        look_at_all(self.fleet, self._speaks)
        down = [name for name, is_up in (self.balancer.up() if self.balancer is not None else {}).items() if not is_up]
        if down:
            raise RunError(f"HAProxy finds {', '.join(down)} down")
        look_across(self.fleet, [way for target in self.targets for way in target.ways(self.fleet)])

    def _until_well(self) -> None:
        until_well(self.look, self.fleet.limits.patience_s)

    def settled(self, wanted: FleetLayout, lasting: bool) -> tuple[FleetLayout, Applied]:
        """The plan as it can be carried out: lasting sessions keep their place unless they are asked to move too."""
        seats = self.seats()
        stay = {
            client: seat.broker
            for client, seat in seats.items()
            if seat.is_lasting and not lasting and client in wanted.home and seat.broker in wanted.brokers
        }
        kept = {client: broker for client, broker in stay.items() if wanted.home[client] != broker}
        wanted = replace(wanted, home={**wanted.home, **kept}) if kept else wanted
        result = Applied(wanted, lasting=len(kept))
        result.strangers = sum(bool(seat.session) and client not in wanted.home for client, seat in seats.items())
        result.to_move = len(misplaced(seats, self._home_of(wanted.home), lasting))
        changes = self.changes(wanted)
        result.files = [str(one.place) for one in changes if self._differs(one)]
        if self.balancer is not None:
            there, homes = self.balancer.homes(), self._homes(changes)
            result.entries = sum(there.get(client) != homes.get(client) for client in {*there, *homes})
        return wanted, result

    def seats(self) -> dict[str, Seat]:
        return self._movable.seats() if self._movable is not None else {}

    def _home_of(self, homes: Mapping[str, str]) -> HomeOf:
        balancer = self.fleet.balancer
        other = self.fleet.hub if balancer is not None and balancer.unknown == "hub" else None
        return lambda client: homes.get(client, other)

    def changes(self, wanted: FleetLayout) -> list[FileChange]:
        return [
            FileChange(piece, target)
            for target in self.targets
            for piece in target.pieces(self.fleet, wanted)
            if piece.place is not None
        ]

    @staticmethod
    def _differs(change: FileChange) -> bool:
        return (change.place.read_text() if change.place.is_file() else None) != change.piece.text

    @staticmethod
    def _homes(changes: Sequence[FileChange]) -> dict[str, str]:
        texts = [change.piece.text for change in changes if change.piece.tells == BALANCER]
        return haproxy.homes_in(texts[0]) if texts else {}

    # --- doing ---

    def apply(self, wanted: FleetLayout, lasting: bool = False) -> Applied:
        """RunError when it failed and was taken back; the message says what is left, if anything is."""
        started_s = time.monotonic()
        self._refuse_if_half_done()
        wanted, result = self.settled(wanted, lasting)
        changes = self.changes(wanted)
        self._check_before(changes)
        if not result.files and not result.entries and not result.to_move:
            self.say("nothing to do: the fleet is as the plan wants it")
            return result
        record = self._keep(changes, wanted.version)
        try:
            result.journey = self._carry_out(changes, self._home_of(wanted.home), record, lasting)
            result.wanted = self._finish(wanted)
        except (CoterieError, OSError, KeyboardInterrupt) as error:
            self._take_back(record, error)
        record.state = APPLIED
        write_record(self.folder, record)
        result.seconds = time.monotonic() - started_s
        return result

    def _refuse_if_half_done(self) -> None:
        record = read_record(self.folder)
        if record is not None and record.state == APPLYING:
            raise RunError(
                f"{self.folder}: plan {record.version} was left half-applied; take it back first with --rollback"
            )

    def _check_before(self, changes: Sequence[FileChange]) -> None:
        """What can be known to go wrong is told before anything is changed."""
        check_writable(change.place for change in changes)
        for change in changes:
            piece = change.piece
            if piece.tells in ("", BALANCER):
                continue
            if wrong := can_be_told(self.fleet, piece.tells, piece.needs_restart):
                raise InputError(self.fleet.source, wrong)
            broker = self.fleet.named(piece.tells)
            if broker.pid_file is not None and not broker.reload and not piece.needs_restart:
                pid_of(self.fleet, piece.tells)
        if self.balancer is not None:
            self.balancer.map_name()
        self._until_well()

    def _keep(self, changes: Sequence[FileChange], version: int) -> BeforeRecord:
        files = []
        for change in changes:
            text = change.place.read_text() if change.place.is_file() else None
            piece = change.piece
            place = str(change.place)
            files.append(KeptFile(piece.name, place, piece.tells, change.target.name, piece.needs_restart, text))
        names = [target.name for target in self.targets]
        homes = self.balancer.homes() if self.balancer is not None else None
        shutil.rmtree(self.folder / BEFORE, ignore_errors=True)
        seats = {client: seat.broker for client, seat in self.seats().items() if seat.session}
        record = BeforeRecord(names, version, APPLYING, files, homes, seats)
        write_record(self.folder, record)
        return record

    def _carry_out(
        self,
        changes: Sequence[FileChange],
        home_of: HomeOf,
        record: BeforeRecord,
        lasting: bool,
    ) -> Journey:
        """Widen, place, move. Narrowing is `_finish`."""
        self._write(changes, is_merged=True)
        self._until_well()
        self._place(self._homes(changes), changes)
        self._restart(changes)
        if self._movable is None:
            return Journey()

        def asking(clients: Sequence[str]) -> None:
            record.moved += clients
            write_record(self.folder, record)

        journey = move_clients(self.fleet, self._movable, home_of, lasting, self._until_well, asking)
        self.say(f"{len(journey.asked)} clients moved in {journey.seconds:.1f} s")
        return journey

    def _finish(self, wanted: FleetLayout) -> FleetLayout:
        """Only the new plan, but for clients that are elsewhere after all: their wishes are served where they are."""
        actual = dict(wanted.home)
        for client, seat in self.seats().items():
            if client in actual and seat.session and seat.broker in wanted.brokers:
                actual[client] = seat.broker
        served = wanted.moved(actual)
        changes = [change for change in self.changes(served) if change.piece.tells != BALANCER]
        self._write(changes, is_merged=False)
        self._until_well()
        return served

    def _write(self, changes: Sequence[FileChange], is_merged: bool) -> None:
        """Link files, and whoever reads them is told; the map and what needs a restart come with the clients."""
        told: dict[str, None] = {}
        for change in changes:
            if change.piece.tells == BALANCER or change.piece.needs_restart:
                continue
            there = change.place.read_text() if change.place.is_file() else ""
            text = change.target.merge(change.piece, there) if is_merged else change.piece.text
            if change.is_removed and not is_merged:
                change.place.unlink(missing_ok=True)
                told[change.piece.tells] = None
            elif text != there:
                write_whole(change.place, text)
                told[change.piece.tells] = None
        for name in filter(None, told):
            tell(self.fleet, name)
        if told:
            time.sleep(self.fleet.limits.settle_s)

    def _place(self, homes: Mapping[str, str], changes: Sequence[FileChange]) -> None:
        for change in changes:
            if change.piece.tells == BALANCER:
                write_whole(change.place, change.piece.text)
        if self.balancer is not None:
            count = self.balancer.set_homes(homes)
            self.say(f"{count} entries of the balancer's map changed")

    def _restart(self, changes: Sequence[FileChange]) -> None:
        """All files first, then all brokers: in between two plans would be mixed."""
        names: dict[str, None] = {}
        for change in changes:
            if change.piece.needs_restart and self._differs(change):
                if change.is_removed:
                    change.place.unlink(missing_ok=True)
                else:
                    write_whole(change.place, change.piece.text)
                names[change.piece.tells] = None
        for name in names:
            tell(self.fleet, name, needs_restart=True)
        if names:
            self._until_well()

    # --- taking back ---

    def _take_back(self, record: BeforeRecord, error: BaseException) -> None:
        why = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        self.say(f"taking plan {record.version} back: {why}")
        problems = self.roll_back(record)
        if problems:
            left = "; ".join(problems)
            raise RunError(
                f"plan {record.version} failed ({why}) and could not be taken back: {left}; use --rollback"
            ) from None
        raise RunError(f"plan {record.version} was not applied, everything is as before: {why}") from None

    def roll_back(self, record: BeforeRecord) -> list[str]:
        """By the same steps to what was there before; goes as far as it can and returns what it could not do."""
        problems: list[str] = []

        def attempt(step: Callable[[], object]) -> None:
            try:
                step()
            except (CoterieError, OSError) as error:
                problems.append(str(error))

        changes = [self._undoing(kept) for kept in record.files]
        homes = record.homes or {}
        attempt(lambda: self._write(changes, is_merged=True))
        attempt(lambda: self._place(homes, changes))
        attempt(lambda: self._restart(changes))
        attempt(lambda: self._move_back(record, homes))
        attempt(lambda: self._write(changes, is_merged=False))
        record.state = APPLYING if problems else UNDONE
        record.problem = "; ".join(problems)
        write_record(self.folder, record)
        return problems

    def _undoing(self, kept: KeptFile) -> FileChange:
        piece = Piece(kept.name, kept.text or "", Path(kept.place), kept.tells, kept.needs_restart)
        return FileChange(piece, self._by_name[kept.target], is_removed=kept.text is None)

    def _move_back(self, record: BeforeRecord, homes: Mapping[str, str]) -> None:
        if self._movable is None or not record.moved:
            return
        home_of = self._home_of(homes)
        if any(target.moves is Mover.LISTS for target in self.targets):
            home_of = record.seats.get
        move_clients(self.fleet, self._movable, home_of, True, lambda: None, who=list(dict.fromkeys(record.moved)))


def roll_back(
    fleet: BrokerFleet, folder: Path, by_name: Mapping[str, Target], say: Say = lambda text: None
) -> BeforeRecord:
    """Restore what an application kept; RunError says what could not be."""
    record = read_record(folder)
    if record is None:
        raise InputError(str(folder), "holds no record of an application: there is nothing to take back")
    if record.state == UNDONE:
        raise InputError(str(folder), f"plan {record.version} has been taken back already")
    strange = [name for name in record.targets if name not in by_name]
    if strange:
        raise InputError(str(folder), f"was applied with target {strange[0]!r}, which does not exist")
    application = Application(fleet, [by_name[name] for name in record.targets], folder, by_name, say)
    if problems := application.roll_back(record):
        raise RunError(f"plan {record.version} could not be taken back in full: {'; '.join(problems)}")
    return record
