"""The board of a machine (`broker.siblings`) as a file that all of its processes have mapped.

A number is one aligned word, written by its process alone. It is written before what is told about it leaves, and read
behind the bytes it is to be judged by; system calls in between keep that order on any processor. A reader that caught
half a word would read a number it was not told, and be in doubt: that is the safe side.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from coterie.broker.siblings import NUMBER_BYTES

BOARD_FILE = "board"


class MappedBoard:
    """One process's view. The file is made by whoever comes first, and outlives them all."""

    def __init__(self, folder: Path, slot: int, count: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        size = count * NUMBER_BYTES
        file = os.open(folder / BOARD_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size < size:
                os.ftruncate(file, size)  # what is added is zeros, whoever does it
            self._map = mmap.mmap(file, size)
        finally:
            os.close(file)
        self._words = memoryview(self._map).cast("Q")
        self._slot = slot

    def all(self) -> bytes:
        return self._map[:]

    def advance(self) -> int:
        self._words[self._slot] += 1
        return self._words[self._slot]

    def close(self) -> None:
        self._words.release()
        self._map.close()
