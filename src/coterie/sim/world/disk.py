"""A simulated disk with the store of one node on it, and what is left of it after each kind of end.

Batches are *handed over* (reads see them at once), become *safe* some time later, in order, and are *synced* later
still or at the same moment (`sync = "full"`). A kill leaves all that was safe, and of what was not, as much as chance
says; a power cut leaves all that was synced, and as much of the rest. Never anything of a batch without those before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from coterie.broker.carried import decode_carried, origin_of
from coterie.broker.writes import COPIED_BODIES, LOADED, MESSAGES, TABLES, Between, Key, Rows, Saved, StoreWrite
from coterie.sim.world.chance import Chance

SYNC_ONE_IN = 5  # batches between syncs that the system makes on its own


class _Undo(NamedTuple):
    batch: int
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
        self.bodies: dict[bytes, int] = {}  # payload -> the batch that first held it, for whoever asks for it
        self._chance = chance
        self._undo: list[_Undo] = []

    # --- writing ---

    def hand_over(self, writes: list[StoreWrite]) -> int:
        self.handed += 1
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
                if table == COPIED_BODIES or (
                    table == MESSAGES and isinstance(key, int) and origin_of(key) == self._node
                ):
                    self.bodies.setdefault(decode_carried(value).payload, self.handed)
        self.write_count += len(writes)
        self._undo.append(_Undo(self.handed, before))
        return self.handed

    def make_safe(self, batch: int) -> None:
        self.safe = batch
        if self.is_full_sync or self._chance.number(batch, SYNC_ONE_IN) == 0:
            self.synced = batch
            self._undo = [one for one in self._undo if one.batch > batch]

    # --- ends ---

    def crash(self, number: int, with_power: bool) -> None:
        """The node ended; the store holds batches up to some number from now on."""
        kept = self.synced if with_power else self.safe
        kept += self._chance.number(number + (1 << 40), self.handed - kept + 1)
        while self._undo and self._undo[-1].batch > kept:
            for table, key, value in reversed(self._undo.pop().before):
                if value is None:
                    self.tables[table].pop(key, None)
                else:
                    self.tables[table][key] = value
        self.bodies = {payload: batch for payload, batch in self.bodies.items() if batch <= kept}
        self.handed = self.safe = kept
        if with_power:
            self.synced = kept
            self._undo.clear()

    def has_had(self, payload: bytes) -> bool:
        """Whether a body was safe here at some time, and no crash took it back."""
        return self.bodies.get(payload, self.safe + 1) <= self.safe

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
