"""Watches which functions of a package have a word in their hands: the walks of docs/ARCHITECTURE.md.

It needs nothing but Python, so that a process can load it before anything else (`row_walk`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple


class Hop(NamedTuple):
    file: str
    function: str


def in_short(hops: list[Hop]) -> str:
    return f"{len(hops)} functions in {len({hop.file for hop in hops})} files"


def holds(value: Any, mark: str, depth: int) -> bool:
    """Whether the word is in it, as text, bytes or a cell of an Arrow table, behind so many layers of records."""
    if isinstance(value, str):
        return mark in value
    if isinstance(value, bytes | bytearray | memoryview):
        return mark.encode() in bytes(value)
    if depth == 0 or isinstance(value, type):
        return False
    if isinstance(value, list | tuple):
        return any(holds(one, mark, depth - 1) for one in value)
    if isinstance(value, dict):
        names = (key for key in value if isinstance(key, str))
        return any(mark in key for key in names) or any(holds(one, mark, depth - 1) for one in value.values())
    kind = type(value)
    if kind.__module__.startswith("pyarrow") and hasattr(value, "to_pylist"):
        return mark in repr(value.to_pylist())
    fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    return any(holds(getattr(value, name, None), mark, depth - 1) for name in fields)


class Watcher:
    """A profile function; it notes each hop once, when the word first comes by.

    A function has the word in its hands if it is in what it is given, in what it calls by a name, in what it returns,
    or in an attribute of its object that it uses.
    """

    def __init__(self, root: str, mark: str, depth: int, note: Callable[[Hop], None]) -> None:
        self._root, self._mark, self._depth, self._note = root, mark, depth, note
        self._seen: set[Hop] = set()

    def __call__(self, frame: FrameType, what: str, value: Any) -> None:
        code = frame.f_code
        is_inner = code.co_name.startswith("<") and code.co_name != "<lambda>"  # a part of its function
        if what not in ("call", "return") or is_inner or not code.co_filename.startswith(self._root):
            return
        hop = Hop(code.co_filename[len(self._root) :], code.co_qualname)
        if hop not in self._seen and self._has(frame, value):
            self._seen.add(hop)
            self._note(hop)

    def _has(self, frame: FrameType, value: Any) -> bool:
        names = dict(frame.f_locals)
        own = names.pop("self", None)
        used = [getattr(own, name, None) for name in frame.f_code.co_names if name in _attributes(own)]
        return any(holds(one, self._mark, self._depth) for one in (*names.values(), value)) or any(
            holds(one, self._mark, self._depth - 1) for one in used
        )


def _attributes(own: Any) -> Any:
    return getattr(own, "__dict__", None) or getattr(type(own), "__slots__", ())


def watch_this_process(root: str, mark: str, depth: int, folder: str) -> None:
    """From now on, in all threads and in what is forked; hops go to a file of each process, with their time."""

    def note(hop: Hop) -> None:
        with open(f"{folder}/{os.getpid()}", "a") as file:
            file.write(f"{time.time()}\t{hop.file}\t{hop.function}\n")

    watcher = Watcher(root, mark, depth, note)
    threading.setprofile(watcher)
    sys.setprofile(watcher)
