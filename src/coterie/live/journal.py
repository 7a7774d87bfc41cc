"""The journal's files: lines of JSON in numbered segments (docs/JOURNAL.md). `broker.journal` makes the lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO


class JournalFiles:
    """Appends. A new segment begins with every start."""

    def __init__(self, folder: Path, segment_bytes_max: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes_max = segment_bytes_max
        self._number = max((int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdigit()), default=0)
        self._file: IO[bytes] | None = None
        self._size = 0

    def append(self, lines: Sequence[bytes]) -> None:
        data = b"\n".join(lines) + b"\n"
        if self._file is None or self._size >= self._segment_bytes_max:
            self._open_next()
        assert self._file is not None
        self._file.write(data)
        self._file.flush()
        self._size += len(data)

    def _open_next(self) -> None:
        self.close()
        self._number += 1
        self._file = open(self._folder / f"{self._number:012d}.jsonl", "ab")  # noqa: SIM115
        self._size = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
