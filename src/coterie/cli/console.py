"""How the command talks to people and to programs: tables, progress, JSON, and errors in one sentence."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

if sys.stdout is None:  # closed by whoever started us: what is said is said to nobody
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
if sys.stderr is None:
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
WIDTH = None if sys.stdout.isatty() else 140  # what is piped somewhere is not cut to a screen
out = Console(highlight=False, width=WIDTH)
err = Console(stderr=True, highlight=False)

Report = Callable[[str, float], None]
Stages = Mapping[str, tuple[float, float]]  # where each begins and ends on the way


def spans(**shares: float) -> dict[str, tuple[float, float]]:
    """Stages that follow each other, by the share of the time that each takes: where each begins and ends."""
    ends = list(accumulate(shares.values()))
    return dict(zip(shares, zip([0.0, *ends], ends, strict=False), strict=True))


# Stages of a run over a log, for the time that is left. Who has so many users that they stay in tables has others.
_CROWD = {"crowd": 0.2, "crowd-stay": 0.05, "crowd-placed": 0.25, "crowd-designs": 0.3}  # as with 10 million users
LOG_STAGES = spans(tables=0.2, workloads=0.3, designs=0.3, rolling=0.2) | spans(tables=0.2, **_CROWD)
PATIENCE_S = 2.0  # nobody is left without a word for longer
SIGN_OF_LIFE_S = 20.0  # in a file a line every two seconds would bury the rest


def print_json(value: object) -> None:
    """One JSON document on standard output, keys sorted, so that equal results are equal bytes.

    Every document says which version of its layout it has: its own `schema`, or 1.
    """
    import msgspec

    told = msgspec.to_builtins(value)
    document = {"schema": 1} | (told if isinstance(told, dict) else {"items": told})
    encoded = msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=2)
    sys.stdout.write(encoded.decode() + "\n")


@contextmanager
def progress(title: str, is_quiet: bool, stages: Stages | None = None, *, is_forking: bool = False) -> Iterator[Report]:
    """How far it is and how long it will take, on standard error; without a terminal a line for each stage that lasts.

    `report(stage, share)` says how far a stage is. With `stages` (see `spans`) the bar is about all of them; it never
    comes to an end before the work does.
    """
    pace = Pace(stages or {})
    if is_quiet:
        yield lambda stage, share: None
    elif not err.is_terminal:
        lines, over = StageLines(title, pace), threading.Event()
        if not is_forking:  # a process with threads should not fork
            threading.Thread(target=lines.keep_reminding, args=(over,), daemon=True).start()
        try:
            yield lines
        finally:
            over.set()
    else:
        from coterie.cli.bar import bar

        with bar(err, title, pace) as report:
            yield report


@contextmanager
def loading() -> Iterator[None]:
    """While modules are imported: a word to whoever sits at a terminal, if that takes long."""
    clock = threading.Timer(PATIENCE_S * 0.75, lambda: err.print("[dim]loading ...[/]"))
    clock.daemon = True
    if err.is_terminal:
        clock.start()
    try:
        yield
    finally:
        clock.cancel()


NEARLY = 0.9  # done, from here on


class Pace:
    """From stages and shares to how much of the whole is done and how many seconds are left, in all and of the stage.

    What the whole takes is an estimate by the parts that stages take elsewhere; a stage is timed by its own tasks.
    """

    def __init__(self, stages: Stages, clock: Callable[[], float] = time.monotonic) -> None:
        self._stages, self._clock = stages, clock
        self._whole = self._part = _Stretch(clock)
        self._stage = ""

    def tell(self, stage: str, share: float) -> None:
        if stage != self._stage:
            self._stage, self._part = stage, _Stretch(self._clock)
        self._part.tell(share)
        low, high = self._stages.get(stage, (0.0, 1.0))
        self._whole.tell(low + (high - low) * share)

    @property
    def share(self) -> float:
        return self._whole.share

    @property
    def stage_share(self) -> float:
        return self._part.share

    @property
    def elapsed_s(self) -> float:
        return self._whole.elapsed_s

    def left_s(self) -> float | None:
        """None as long as too little is done to say, and where it takes longer than was thought."""
        return self._whole.left_s()

    def stage_left_s(self) -> float | None:
        return self._part.left_s()


class _Stretch:
    """Something with a beginning that is done to a share."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = self._told_s = clock()
        self.share = 0.0

    def tell(self, share: float) -> None:
        if share > self.share:
            self.share, self._told_s = min(share, 0.99), self._clock()

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began_s

    def left_s(self) -> float | None:
        if self.share < 0.05 or self.elapsed_s < 1.0:
            return None
        left_s = (self._told_s - self._began_s) / self.share - self.elapsed_s
        return max(left_s, 0.0) if left_s >= 1.0 or self.share >= NEARLY else None


def spoken(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02d} min"


class StageLines:
    """A line for each stage that is not over at once, each stage once."""

    def __init__(self, title: str, pace: Pace) -> None:
        self._title, self._pace = title, pace
        self._stage = "starting"
        self._told: set[str] = set()

    def __call__(self, stage: str, share: float) -> None:
        self._pace.tell(stage, share)
        if stage != self._stage:
            self._told.add(self._stage)  # it is over; should it be passed again, there is nothing to say
        self._stage = stage
        if self._pace.elapsed_s >= PATIENCE_S:
            self.remind()

    def remind(self) -> None:
        """Say where it is, also where a stage reports nothing for long."""
        if self._stage not in self._told:
            self._told.add(self._stage)
            err.print(f"{self._title}: {self._stage} ({self._pace.elapsed_s:.0f} s so far)", soft_wrap=True)

    def keep_reminding(self, over: threading.Event) -> None:
        """A first word soon; then one each time that a stage is not left for long."""
        if over.wait(PATIENCE_S):
            return
        self.remind()
        was = self._stage
        while not over.wait(SIGN_OF_LIFE_S):
            if self._stage == was:
                err.print(f"{self._title}: still {was} ({self._how_far()})", soft_wrap=True)
            was = self._stage

    def _how_far(self) -> str:
        """Of the stage, as far as its tasks tell, and of all."""
        pace, left_s = self._pace, self._pace.stage_left_s()
        stage = [f"{pace.stage_share:.0%} of it"] if pace.stage_share else []
        stage += [f"about {spoken(left_s)} left of it"] if left_s else []
        return ", ".join([*stage, f"{pace.share:.0%} of all done", f"{pace.elapsed_s:.0f} s so far"])


def number(value: float) -> str:
    """Whole numbers with separators, others with as many digits as mean something."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def short(value: float) -> str:
    """At most six letters: 12.3k, 4.56M."""
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}" if abs(value) < 999.5 * size else f"{value / size:.0f}{letter}"
    return f"{value:.3g}" if value else "0"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], right_from: int = 1) -> Table:
    """Numbers (the columns on the right) are never cut or broken; text wraps."""
    from rich.table import Table

    built = Table(
        title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for index, name in enumerate(header):
        is_number = index >= right_from
        built.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        built.add_row(*row)
    return built


def flat(ledgers: Mapping[str, Mapping[str, float]], wanted: Sequence[str]) -> list[list[str]]:
    """Rows of a ledger table: one per column name, one cell per ledger."""
    return [[name, *(number(ledger[name]) for ledger in ledgers.values())] for name in wanted]


def print_wide(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that is cut into several, each with the first column, where the terminal is too narrow for one."""
    widths = [max(len(line[at]) for line in [header, *rows]) + 1 for at in range(len(header))]
    first, last = 1, 1
    while first < len(header):
        room = out.width - widths[0]
        last = first
        while last < len(header) and (room := room - widths[last]) >= 0:
            last += 1
        last = max(last, first + 1)
        pick = [0, *range(first, last)]
        out.print(
            table(title if first == 1 else "", [header[at] for at in pick], [[row[at] for at in pick] for row in rows])
        )
        first = last


def plain(text: str) -> str:
    """Text with brackets that rich would otherwise take for markup."""
    return text.replace("[", r"\[")
