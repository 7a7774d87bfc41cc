"""The shelf as a turn sees it: what is on it, and what this turn has written since.

Whoever tells from it what there is (a session out of a copy, a stretch of a log) must not miss what came just before.
"""

from __future__ import annotations

from coterie.broker.turn import Turn
from coterie.broker.writes import Between, Key, Rows, Shelf, StoreWrite


class TurnShelf:
    """See the module; a `Shelf`."""

    def __init__(self, shelf: Shelf, turn: Turn) -> None:
        self._shelf, self._turn = shelf, turn
        self._writes: list[StoreWrite] = []
        self._count = 0
        self._new: dict[str, dict[Key, bytes | None]] = {}
        self._gone: dict[str, list[Between]] = {}

    def _catch_up(self) -> None:
        writes = self._turn.writes
        if writes is not self._writes:
            self._writes, self._count, self._new, self._gone = writes, 0, {}, {}
        for table, key, value in writes[self._count :] if self._count < len(writes) else ():
            new = self._new.setdefault(table, {})
            if isinstance(key, Between):
                self._gone.setdefault(table, []).append(key)
                for one in [one for one in new if isinstance(one, int) and key.first <= one <= key.last]:
                    del new[one]
            else:
                new[key] = value
        self._count = len(writes)

    def _is_gone(self, table: str, key: Key) -> bool:
        return isinstance(key, int) and any(one.first <= key <= one.last for one in self._gone.get(table, ()))

    def get(self, table: str, key: Key) -> bytes | None:
        self._catch_up()
        new = self._new.get(table)
        if new is not None and key in new:
            return new[key]
        return None if self._is_gone(table, key) else self._shelf.get(table, key)

    def between(
        self, table: str, first: int, last: int, count_max: int = 0, newest_first: bool = False
    ) -> list[tuple[int, bytes]]:
        self._catch_up()
        if table not in self._new:
            return self._shelf.between(table, first, last, count_max, newest_first)
        new = {key: value for key, value in self._new[table].items() if isinstance(key, int) and first <= key <= last}
        is_cut = count_max > 0 and table not in self._gone
        found = dict(self._shelf.between(table, first, last, count_max + len(new) if is_cut else 0, newest_first))
        rows: dict[int, bytes | None] = {key: value for key, value in found.items() if not self._is_gone(table, key)}
        rows.update(new)
        left = sorted(((key, value) for key, value in rows.items() if value is not None), reverse=newest_first)
        return left[:count_max] if count_max else left

    def rows(self, table: str) -> Rows:
        self._catch_up()
        if table not in self._new:
            return self._shelf.rows(table)
        rows: dict[Key, bytes | None] = {
            key: value for key, value in self._shelf.rows(table) if not self._is_gone(table, key)
        }
        rows.update(self._new[table])
        return [(key, value) for key, value in rows.items() if value is not None]

    def bytes_in(self, table: str) -> int:
        return self._shelf.bytes_in(table)
