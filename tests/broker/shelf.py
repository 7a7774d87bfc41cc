"""A store in memory: what a broker's batches leave behind, for as long as the test likes."""

from __future__ import annotations

from typing import Any

from coterie.broker.writes import LOADED, TABLES, Between, Key, Rows, Saved, StoreWrite


class MemoryShelf:
    """The tables as dictionaries; `write` is what a driver does with a batch."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, bytes]] = {name: {} for name in TABLES}

    def write(self, writes: list[StoreWrite]) -> None:
        for table, key, value in writes:
            rows = self.tables[table]
            if value is not None:
                rows[key] = value
            elif isinstance(key, Between):
                for one in [one for one in rows if key.first <= one <= key.last]:
                    del rows[one]
            else:
                rows.pop(key, None)

    def saved(self) -> Saved:
        return Saved({name: list(self.tables[name].items()) for name in LOADED})

    def get(self, table: str, key: Key) -> bytes | None:
        return self.tables[table].get(key)

    def between(
        self, table: str, first: int, last: int, count_max: int = 0, newest_first: bool = False
    ) -> list[tuple[int, bytes]]:
        rows = sorted((row for row in self.tables[table].items() if first <= row[0] <= last), reverse=newest_first)
        return rows[:count_max] if count_max else rows

    def rows(self, table: str) -> Rows:
        return list(self.tables[table].items())

    def bytes_in(self, table: str) -> int:
        return sum(map(len, self.tables[table].values()))
