"""Files in which earlier versions kept the plan and the placement; the store has them now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from coterie.broker.placement import PLACEMENT
from coterie.broker.planes import KEPT
from coterie.broker.writes import META, PLAN, Key, Rows, Saved
from coterie.errors import InputError

FILES: tuple[tuple[str, str, Key], ...] = (("plan.json", PLAN, KEPT), ("placement.json", META, PLACEMENT))


def old_files(folder: Path, saved: Saved) -> Saved:
    """What is kept, with what such files hold where the store has nothing of it."""
    tables = dict(saved.tables)
    for name, table, key in FILES:
        rows: Rows = tables.get(table, [])
        path = folder / name
        if path.exists() and not any(known == key for known, _ in rows):
            try:
                held: Any = msgspec.json.decode(path.read_bytes())
            except (OSError, msgspec.MsgspecError) as error:
                raise InputError(str(path), f"cannot be read: {error}; remove it to go on without") from None
            tables[table] = [*rows, (key, msgspec.msgpack.encode(held))]
    return Saved(tables)
