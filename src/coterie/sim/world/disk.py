"""A simulated disk with the store of one node on it, and what is left of it after each kind of end.

Batches are *handed over* (reads see them at once), become *safe* some time later, in order, and are *synced* later
still or at the same moment (`sync = "full"`). A kill leaves all that was safe, and of what was not, as many bytes as
chance says: the last batch may be there in part. A power cut leaves all that was synced, and as many bytes of the rest;
or all of the rest but a stretch somewhere in it. What that means for batches is for the reader of their files to say,
the same one as on a real disk (`broker.batches`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from coterie.broker.batches import boot_mark, encode_batch, encode_head, pack_writes, read_files, rows_of
from coterie.broker.carried import decode_carried, origin_of
from coterie.broker.writes import COPIED_BODIES, LOADED, MESSAGES, TABLES, Between, Key, Rows, Saved, StoreWrite
from coterie.sim.world.chance import Chance

SYNC_ONE_IN = 5  # batches between syncs that the system makes on its own
NEVER_US = 1 << 62
CUT, GAP, PLACE, LENGTH = (which << 40 for which in range(1, 5))  # draws for crashes begin here


class _Written(NamedTuple):
    """A batch that a power cut may still take away."""

    number: int
    file: int  # it stands in; each life of the node begins one
    boot: int  # of the machine, when that was begun
    synced: int  # what the node knew to be on the disk when it wrote it
    writes: list[StoreWrite]
    before: list[tuple[str, Any, bytes | None]]  # newest first when it is undone


class Disk:
    """See the module; the `Shelf` of the broker that runs on it."""

    def __init__(self, chance: Chance, is_full_sync: bool, node: int = 0) -> None:
        self._node = node
        self.tables: dict[str, dict[Any, bytes]] = {name: {} for name in TABLES}
        self.is_full_sync = is_full_sync
        self.handed = self.safe = self.synced = 0  # batches, over all lives
        self.slowness = 1.0
        self.is_full = False
        self.write_count = 0
        self._bodies: dict[bytes, int] = {}  # payload -> the batch that first held it
        self._taken_in: set[bytes] = set()  # payloads that its node itself took from a client
        self._new: deque[bytes] = deque()  # those that are not safe yet
        self._had: dict[bytes, tuple[int, int]] = {}  # payload -> since when it was safe, and until when
        self._chance = chance
        self._written: list[_Written] = []
        self._file = self._boot = 0  # that batches go to; of the machine

    # --- writing ---

    def hand_over(self, writes: list[StoreWrite]) -> int:
        self.handed += 1
        known = self.synced if self.is_full_sync else 0
        before = self._apply(writes)
        self._written.append(_Written(self.handed, self._file, self._boot, known, list(writes), before))
        self.write_count += len(writes)
        return self.handed

    def _apply(self, writes: Iterable[StoreWrite]) -> list[tuple[str, Any, bytes | None]]:
        before: list[tuple[str, Any, bytes | None]] = []
        for table, key, value in writes:
            rows = self.tables[table]
            if isinstance(key, Between):
                gone = [one for one in rows if key.first <= one <= key.last]
                before.extend((table, one, rows.pop(one)) for one in gone)
                continue
            before.append((table, key, rows.get(key)))
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = bytes(value)
                is_own = table == MESSAGES and isinstance(key, int) and origin_of(key) == self._node
                if is_own or table == COPIED_BODIES:
                    payload = decode_carried(value).payload
                    if is_own:
                        self._taken_in.add(payload)
                    if payload not in self._bodies:
                        self._bodies[payload] = self.handed
                        self._new.append(payload)
        return before

    def make_safe(self, batch: int, now_us: int = 0) -> None:
        self._note_safe(batch, now_us)
        if self.is_full_sync or self._chance.number(batch, SYNC_ONE_IN) == 0:
            self._note_synced(batch)

    def _note_safe(self, batch: int, now_us: int) -> None:
        self.safe = batch
        while self._new and self._bodies[self._new[0]] <= batch:
            self._had[self._new.popleft()] = now_us, NEVER_US

    def _note_synced(self, batch: int) -> None:
        self.synced = batch
        self._written = [one for one in self._written if one.number > batch]

    # --- ends ---

    def crash(self, number: int, with_power: bool, now_us: int = 0) -> bool:
        """The node ended; the store holds what a reader finds from now on. Whether there was anything else."""
        least = self.synced if with_power else self.safe
        kept = least + self._chance.number(number + CUT, self.handed - least + 1)
        self._boot += with_power
        after = self._written[0].number - 1 if self._written else self.handed
        files = self._left(number, kept, with_power)
        found = read_files(files, after, boot_mark(b"%d" % self._boot))
        assert found.number >= least, f"batches {found.number + 1} to {least} were promised, and are not found"
        while self._written and self._written[-1].number > found.number:
            for table, key, value in reversed(self._written.pop().before):
                if value is None:
                    self.tables[table].pop(key, None)
                else:
                    self.tables[table][key] = value
        assert [list(rows_of(one)) for one in found.batches] == [one.writes for one in self._written]
        for payload in [one for one, batch in self._bodies.items() if batch > found.number]:
            del self._bodies[payload]
            if payload in self._had:
                self._had[payload] = self._had[payload][0], now_us
        self._new = deque(one for one in self._new if one in self._bodies)
        self.handed = found.number
        self._note_safe(found.number, now_us)
        self._file += 1
        if with_power or self.is_full_sync:  # what is found at a start is synced then, where that is asked for
            self._note_synced(found.number)
        return found.torn < len(files)

    def _left(self, number: int, kept: int, with_power: bool) -> list[tuple[int, bytes]]:
        """Files as a crash leaves them: whole batches up to `kept`, the next one in part, those behind it or none."""
        has_gap = with_power and self._chance.number(number + GAP, 2) == 0
        files = []
        for _, group in groupby(self._written, lambda one: one.file):
            batches = list(group)
            data = encode_head(b"%d" % batches[0].boot, batches[0].number)
            for one in batches:
                whole = encode_batch(one.number, one.synced, pack_writes(one.writes))
                if one.number == kept + 1:
                    place = self._chance.number(number + PLACE, len(whole))
                    lost = len(whole) - place
                    lost = 1 + self._chance.number(number + LENGTH, lost) if has_gap else lost
                    data += whole[:place] + (bytes(lost) + whole[place + lost :] if has_gap else b"")
                elif one.number <= kept or has_gap:
                    data += whole
            files.append((batches[0].number, data))
        return files

    def had(self, payload: bytes, since_us: int, until_us: int) -> bool:
        """Whether a body was safe here at some time between these."""
        from_us, lost_us = self._had.get(payload, (NEVER_US, 0))
        return from_us <= until_us and lost_us >= since_us

    def took_in(self, payload: bytes) -> bool:
        """Whether it is in the log of this disk's own node."""
        return payload in self._taken_in and payload in self._bodies

    # --- reading ---

    def saved(self) -> Saved:
        return Saved({name: list(self.tables[name].items()) for name in LOADED})

    def get(self, table: str, key: Key) -> bytes | None:
        return self.tables[table].get(key)

    def between(
        self, table: str, first: int, last: int, count_max: int = 0, newest_first: bool = False
    ) -> list[tuple[int, bytes]]:
        rows = self.tables[table]
        keys = sorted(rows)
        keys = keys[bisect_left(keys, first) : bisect_right(keys, last)]
        if newest_first:
            keys.reverse()
        return [(key, rows[key]) for key in (keys[:count_max] if count_max else keys)]

    def rows(self, table: str) -> Rows:
        return list(self.tables[table].items())

    def bytes_in(self, table: str) -> int:
        return sum(len(value) for value in self.tables[table].values())
