"""What this node keeps for others: a copy of all that they must not lose, for the day they do not come back.

A copy is a node's rows as of some *serial*: it takes the next one only, so it is never with holes. Small tables are in
memory as well; the log and bodies are read from the shelf. Its log is whole from `log_first` on: what is older than
the day this node became keeper is filled in later, from the new to the old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from coterie.broker.carried import TIME_BITS, TIME_MASK, decode_carried, origin_of
from coterie.broker.frames import AskKept, HeldFor, HoldFor, Keep, KeepAll, KeepLog, Kept, decode_control
from coterie.broker.marks import unpacked_mark
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import (
    COPIED_BODIES,
    COPIED_GUESTS,
    COPIED_LOG,
    COPIES,
    DELIVERIES,
    INCOMING,
    LAST,
    LOG,
    MARKS,
    MESSAGES,
    SESSIONS,
    SUBSCRIPTIONS,
    WISHES,
    Between,
    DeliveryRow,
    Key,
    Saved,
    SessionRow,
    Shelf,
    Since,
    StoreWrite,
)
from coterie.errors import RemoteProtocolError
from coterie.mqtt.packets import Subscription
from coterie.mqtt.session import Delivery, SessionState
from coterie.protocol.wire import MALFORMED

SMALL = (SESSIONS, SUBSCRIPTIONS, INCOMING, DELIVERIES, MARKS, WISHES, LAST)
COPIED = (*SMALL, LOG, MESSAGES)
SINGLE = (SESSIONS, WISHES, LAST)  # tables whose key is one name
CODES = {table: code for code, table in enumerate(COPIED)}
STATE = "state"
PART_BYTES = 512 << 10
STRETCH_ROWS = 256
DRIFT = 1e-3  # what two clocks may gain on each other
SAID_AGAIN_US = 60_000_000  # nothing waits longer than this to be safe; a clock that goes back further was set
_pack = msgspec.msgpack.Encoder().encode
_unpack_rows = msgspec.msgpack.Decoder(list[tuple[int, Any, bytes | None]]).decode
delivery_row = msgspec.msgpack.Decoder(DeliveryRow).decode
session_row = msgspec.msgpack.Decoder(SessionRow).decode
_since = msgspec.msgpack.Decoder(Since).decode
_subscription = msgspec.msgpack.Decoder(Subscription).decode


def pack_rows(writes: Iterable[StoreWrite]) -> bytes:
    return _pack([(CODES[table], key, value) for table, key, value in writes])


def unpack_rows(data: bytes) -> list[StoreWrite]:
    try:
        return [(COPIED[code], _key(COPIED[code], key), value) for code, key, value in _unpack_rows(data)]
    except (*MALFORMED, IndexError, TypeError, ValueError) as error:
        raise RemoteProtocolError(f"rows to keep are malformed: {error}") from None


def _key(table: str, plain: Any) -> Key | Between:
    if table in (LOG, MESSAGES):
        return Between(*plain) if isinstance(plain, list) else int(plain)
    return str(plain) if table in SINGLE else tuple(plain)


def whole_in_parts(rows: Iterable[StoreWrite], life: int, serial: int, now_us: int, log_last: int) -> list[KeepAll]:
    parts: list[list[StoreWrite]] = [[]]
    size = 0
    for row in rows:
        parts[-1].append(row)
        size += 64 + len(row[2] or b"")
        if size > PART_BYTES:
            parts.append([])
            size = 0
    last = len(parts) - 1
    return [
        KeepAll(life, serial, now_us, pack_rows(part), log_last, number == 0, number == last)
        for number, part in enumerate(parts)
    ]


def log_stretch(shelf: Shelf, tables: tuple[str, str], low: int, high: int) -> KeepLog:
    """A part of a log that ends with `high` and does not go below `low`; `tables` hold it and its bodies."""
    log, bodies = tables
    rows: list[tuple[int, bytes, bytes]] = []
    size = 0
    found = shelf.between(log, low, high, STRETCH_ROWS, newest_first=True)
    for identifier, topic in found:
        body = shelf.get(bodies, identifier)
        if body is not None:
            rows.append((identifier, topic, body))
            size += len(body)
        if size > PART_BYTES:
            return KeepLog(identifier, high, tuple(rows))
    return KeepLog(low if len(found) < STRETCH_ROWS else found[-1][0], high, tuple(rows))


class _State(msgspec.Struct, frozen=True, array_like=True):
    """How far a copy is. `now_us` and `here_us` are one moment, by the clocks of its origin and of this node."""

    life: int = 0
    serial: int = 0
    log_first: int = 1
    log_last: int = 0
    now_us: int = 0
    here_us: int = 0
    older: tuple[int, int] = (1, 0)  # another stretch of the log that is whole: from the last time
    given_last: int = 0  # the end of the log that it was given all of: what follows came with batches


def _said_us(state: _State, changes: dict[str, Any], heard_us: int) -> int:
    """When that was said, by this node's clock. It may have been held up on its way: then less time has passed at its
    origin since the last word than here. Behind everything, what was not safe is said again: that is older, by as much
    as its origin says. A clock that was set back further says nothing."""
    passed_us = int((changes["now_us"] - state.now_us) * (1 + DRIFT))
    is_same = state.here_us > 0 and changes.get("life", state.life) == state.life and passed_us >= -SAID_AGAIN_US
    return min(heard_us, state.here_us + passed_us) if is_same else heard_us


class Copy:
    """All of one origin. `rows` are its small tables."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.state = _State()
        self.rows: dict[str, dict[Key, bytes]] = {table: {} for table in SMALL}
        self.parts: dict[int, list[StoreWrite]] = {}  # of a whole that has not all come yet, by who says it

    @property
    def place(self) -> tuple[int, int]:
        """How far it is: of two copies, the greater has more."""
        return self.state.life, self.state.serial

    @property
    def has_log(self) -> bool:
        """Whether the end of the log is here that it was to be given; it comes behind everything else."""
        return self.state.log_first <= self.state.given_last or self.state.given_last <= self.base()

    @property
    def held(self) -> tuple[int, int, int, int]:
        state = self.state
        return state.life, state.serial, state.log_first, state.log_last

    def of_client(self, table: str, client: str) -> list[tuple[tuple[str | int, ...], bytes]]:
        """The rows of a client, in a table whose keys begin with its name."""
        rows = self.rows[table].items()
        return [(key, value) for key, value in rows if isinstance(key, tuple) and key[0] == client]

    def marks(self) -> list[tuple[tuple[int, str], int]]:
        """How far it has dealt with each origin and topic."""
        rows = ((key, value) for key, value in self.rows[MARKS].items() if isinstance(key, tuple))
        own = [((self.origin, str(topic)), value) for topic, value in self.rows[LAST].items()]
        found = [((int(key[0]), str(key[1])), value) for key, value in rows] + own
        return [(place, unpacked_mark(value)[0]) for place, value in found]

    def ahead(self) -> list[tuple[tuple[int, str], dict[int, int]]]:
        """And what it has dealt with beyond something that was missing there."""
        rows = ((key, unpacked_mark(value)[1]) for key, value in self.rows[MARKS].items() if isinstance(key, tuple))
        return [((int(key[0]), str(key[1])), found) for key, found in rows if found]

    def subscriptions(self, client: str) -> tuple[Subscription, ...]:
        return tuple(_subscription(value) for _, value in self.of_client(SUBSCRIPTIONS, client))

    def wishes(self) -> dict[str, Since]:
        return {str(key): _since(value) for key, value in self.rows[WISHES].items()}

    def now_us(self, now_us: int) -> int:
        """By the clock of its origin, as far as that was heard."""
        return self.state.now_us + now_us - self.state.here_us

    def base(self) -> int:
        return self.origin << TIME_BITS


class HeldCopies:
    """See the module; by origin in `of`."""

    def __init__(self, talk: Talk, shelf: Shelf, turn: Turn) -> None:
        self.of: dict[int, Copy] = {}
        self._talk, self._shelf, self._turn = talk, shelf, turn

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(COPIES):
            assert isinstance(key, tuple)
            copy = self._copy(int(key[0]))
            table, rest = str(key[1]), key[2:]
            if table == STATE:
                copy.state = msgspec.msgpack.decode(value, type=_State)
            else:
                copy.rows[table][str(rest[0]) if table in SINGLE else rest] = value

    def _copy(self, origin: int) -> Copy:
        return self.of.setdefault(origin, Copy(origin))

    # --- what origins say ---

    def on_ask(self, peer: int, said: AskKept) -> None:
        self._answer(peer)

    def on_keep(self, peer: int, said: Keep) -> None:
        copy = self._copy(peer)
        if said.life == copy.state.life and said.serial == copy.state.serial + 1:
            rows = unpack_rows(said.rows)
            last = max((int(key) for table, key, value in rows if table == LOG and value is not None), default=0)  # type: ignore[arg-type]
            self._apply(copy, rows)
            self._set(copy, serial=said.serial, log_last=max(copy.state.log_last, last), now_us=said.now_us)
        self._answer(peer)

    def on_all(self, peer: int, said: KeepAll) -> None:
        self._take_all(self._copy(peer), peer, said, self._turn.now_us)
        if said.is_last:
            self._answer(peer)

    def on_log(self, peer: int, said: KeepLog) -> None:
        self._take_log(self._copy(peer), said)
        self._answer(peer)

    def on_hold(self, peer: int, said: HoldFor) -> None:
        """From another one that keeps for that node: if the node itself says more later, it goes on from there."""
        copy, inner = self._copy(said.node), decode_control(said.said)
        match inner:
            case KeepAll() if (inner.life, inner.serial) > copy.place:
                self._take_all(copy, peer, inner, max(1, self._turn.now_us - said.ago_us))
                if not inner.is_last:
                    return
            case KeepLog():
                self._take_log(copy, inner)
        self._talk.tell(peer, HeldFor(said.node, *copy.held))

    def _take_all(self, copy: Copy, source: int, said: KeepAll, here_us: int) -> None:
        if said.is_first:
            copy.parts[source] = []
        parts = copy.parts.setdefault(source, [])
        parts += unpack_rows(said.rows)
        if not said.is_last:
            return
        copy.parts.clear()
        self._empty(copy)
        self._apply(copy, parts)
        state = copy.state
        older = (state.log_first, state.log_last) if state.log_first <= state.log_last else state.older
        first = said.log_last + 1
        self._set(
            copy, life=said.life, serial=said.serial, log_first=first, log_last=said.log_last, now_us=said.now_us,
            here_us=here_us, older=older, given_last=said.log_last,
        )  # fmt: skip
        self._close_gap(copy)

    def _take_log(self, copy: Copy, said: KeepLog) -> None:
        """The next stretch downwards."""
        for identifier, topic, body in said.rows:
            if origin_of(identifier) == copy.origin:
                self._turn.write(COPIED_LOG, identifier, topic)
                self._turn.write(COPIED_BODIES, identifier, body)
        if said.first < copy.state.log_first <= said.last + 1:
            self._set(copy, log_first=said.first)
            self._close_gap(copy)

    def _close_gap(self, copy: Copy) -> None:
        """What was whole before is whole still, once there is no hole above it."""
        first, last = copy.state.older
        if first < copy.state.log_first <= last + 1:
            self._set(copy, log_first=first, log_last=max(last, copy.state.log_last))

    def _answer(self, peer: int) -> None:
        """It leaves with the batch that this turn writes."""
        copy = self.of.get(peer) or Copy(peer)  # who only asks has nothing here
        self._talk.tell(peer, Kept(*copy.held))

    # --- rows ---

    def _set(self, copy: Copy, **changes: Any) -> None:
        if "now_us" in changes:
            changes["here_us"] = _said_us(copy.state, changes, changes.get("here_us", self._turn.now_us))
        copy.state = msgspec.structs.replace(copy.state, **changes)
        self._turn.write(COPIES, (copy.origin, STATE), _pack(copy.state))

    def _apply(self, copy: Copy, rows: Iterable[StoreWrite]) -> None:
        write, origin = self._turn.write, copy.origin
        for table, key, value in rows:
            if isinstance(key, Between):
                span = Between(max(key.first, copy.base()), min(key.last, copy.base() | TIME_MASK))
                self._turn.writes.append((COPIED_LOG if table == LOG else COPIED_BODIES, span, None))
            elif table == LOG:
                write(COPIED_LOG, key, value)
            elif table == MESSAGES:
                assert isinstance(key, int)
                is_own = origin_of(key) == origin
                write(COPIED_BODIES if is_own else COPIED_GUESTS, key if is_own else (origin, key), value)
            else:
                self._put(copy, table, key, value)

    def _put(self, copy: Copy, table: str, key: Key, value: bytes | None) -> None:
        if value is None:
            copy.rows[table].pop(key, None)
        else:
            copy.rows[table][key] = value
        self._turn.write(COPIES, (copy.origin, table, *(key if isinstance(key, tuple) else (key,))), value)

    def _empty(self, copy: Copy) -> None:
        """All but the log, which only grows at its ends."""
        for value in copy.rows[DELIVERIES].values():
            message = delivery_row(value).message
            if origin_of(message) != copy.origin:
                self._turn.write(COPIED_GUESTS, (copy.origin, message), None)
        for table in SMALL:
            for key in list(copy.rows[table]):
                self._put(copy, table, key, None)

    def settle(self, copy: Copy, client: str) -> None:
        """That session of a removed node lives elsewhere now. Others may wait for the same messages."""
        rows = copy.rows[DELIVERIES].items()
        awaited = {delivery_row(value).message for key, value in rows if isinstance(key, tuple) and key[0] != client}
        for _, value in copy.of_client(DELIVERIES, client):
            message = delivery_row(value).message
            if origin_of(message) != copy.origin and message not in awaited:
                self._turn.write(COPIED_GUESTS, (copy.origin, message), None)
        for table in (SUBSCRIPTIONS, INCOMING, DELIVERIES):
            for key, _ in copy.of_client(table, client):
                self._put(copy, table, key, None)
        self._put(copy, SESSIONS, client, None)

    def drop(self, origin: int) -> None:
        """Others keep for it now."""
        copy = self.of.pop(origin, None)
        if copy is not None:
            self._empty(copy)
            self._turn.write(COPIES, (origin, STATE), None)
            for table in (COPIED_LOG, COPIED_BODIES):
                self._turn.writes.append((table, Between(copy.base(), copy.base() | TIME_MASK), None))

    def trim(self, hours: float) -> None:
        """Whoever is gone for good trims its log no more."""
        for copy in self.of.values():
            behind_us = self._turn.now_us - copy.state.here_us
            before_us = copy.state.now_us + behind_us - int(hours * 3600e6)
            if behind_us > 0 and before_us > 0:
                for table in (COPIED_LOG, COPIED_BODIES):
                    self._turn.writes.append((table, Between(copy.base(), copy.base() | before_us), None))

    # --- for those who miss something of an origin that is away ---

    def body(self, identifier: int) -> bytes | None:
        return self._shelf.get(COPIED_BODIES, identifier)

    def guest(self, origin: int, identifier: int) -> bytes | None:
        """A message that waits for one of its clients."""
        if origin_of(identifier) == origin:
            return self._shelf.get(COPIED_BODIES, identifier)
        return self._shelf.get(COPIED_GUESTS, (origin, identifier))

    def session(self, copy: Copy, client: str) -> SessionState | None:
        """A session out of the copy of its node's rows."""
        value = copy.rows[SESSIONS].get(client)
        if value is None:
            return None
        row, deliveries = session_row(value), []
        for key, data in copy.of_client(DELIVERIES, client):
            one = delivery_row(data)
            body = self.guest(copy.origin, one.message)
            if body is not None:
                message, sequence = decode_carried(body).message(), int(key[1])
                deliveries.append(
                    Delivery(sequence, message, one.qos, one.retain, one.identifiers, one.packet_id, one.state)
                )  # fmt: skip
        deliveries.sort(key=lambda one: one.sequence)
        # What its node may not have been able to give before it was lost is better taken twice than not at all.
        incoming = [int(key[1]) for key, _ in copy.of_client(INCOMING, client)] if copy.has_log else []
        return SessionState(
            client, row.expiry_s, copy.subscriptions(client), tuple(deliveries), tuple(incoming),
            max((one.packet_id for one in deliveries), default=0), max((one.sequence for one in deliveries), default=0),
            owner=row.owner, owed=row.owed,
        )  # fmt: skip

    def everything(self, copy: Copy) -> Iterator[StoreWrite]:
        """All but the log, as its origin would say it."""
        for table in SMALL:
            for key, value in copy.rows[table].items():
                yield table, key, value
                if table == DELIVERIES:
                    message = delivery_row(value).message
                    if (body := self.guest(copy.origin, message)) is not None:
                        yield MESSAGES, message, body

    def is_sure(self, identifier: int) -> bool:
        """Whether what is not in the copy of its origin's log never was."""
        copy = self.of.get(origin_of(identifier))
        return copy is not None and copy.state.log_first <= identifier <= copy.state.log_last

    def log(self, origin: int, since_us: int, until_us: int) -> list[tuple[int, bytes]]:
        base = origin << TIME_BITS
        return self._shelf.between(COPIED_LOG, base | since_us, base | until_us)

    def orphans(self, is_there: Iterable[int]) -> Iterator[Copy]:
        """Copies of origins that are not among these."""
        there = frozenset(is_there)
        return (copy for origin, copy in sorted(self.of.items()) if origin not in there and copy.state.life)
