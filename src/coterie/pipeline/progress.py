"""What the driver of a stream remembers: which reports it has taken, and what came of them. One small file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from coterie.errors import ConfigError, InputError
from coterie.pipeline.shards import ShardAbout
from coterie.writing import write_whole

NAME, OLDER = "progress.json", "state"
SETTINGS = ("window_s", "alpha", "shards")


class Progress(msgspec.Struct):
    """Settings that hold for the life of the stream, and how far it is."""

    window_s: float
    alpha: float
    shards: int
    batch: int = -1  # the last micro-batch whose report was taken
    plan: int | None = None  # current after the last decision
    has_news: bool = False  # something happened since the last decision
    next_window: int | None = None  # the first one that is open
    node_count: int = 0
    line_count: int = 0
    bad_count: int = 0
    late_count: int = 0
    event_count: int = 0
    wanted_count: int = 0

    def hear(self, batch: int, about: Sequence[ShardAbout]) -> None:
        self.batch = batch
        for one in about:
            if one.clock is not None:
                self.next_window, self.node_count = one.clock.next_window, len(one.clock.nodes)
                self.line_count, self.bad_count = one.clock.line_count, one.clock.bad_count
        if about:  # every shard speaks, or there was no line
            self.late_count = sum(one.late_count for one in about)
            self.event_count = sum(one.event_count for one in about)
            self.wanted_count = sum(one.wanted_count for one in about)


def load_progress(folder: Path, fresh: Progress) -> Progress:
    """As it was saved; a stream that has not begun is as `fresh` says."""
    if (folder / OLDER).is_dir():
        raise InputError(str(folder), "is of another version of coterie; begin anew with an empty output folder")
    if not (folder / NAME).exists():
        return fresh
    try:
        found = msgspec.json.decode((folder / NAME).read_bytes(), type=Progress)
    except msgspec.DecodeError:
        raise InputError(str(folder / NAME), "is damaged; begin anew with an empty output folder") from None
    for name in SETTINGS:
        mine, its = getattr(fresh, name), getattr(found, name)
        if mine != its:
            raise ConfigError(name, mine, f"{its:g} as this stream began with, or another output folder")
    return found


def save_progress(folder: Path, progress: Progress) -> None:
    """From here on the micro-batch is done."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / NAME, msgspec.json.encode(progress))
