"""Does it hold? The chosen design against what runs now, over windows that follow each other.

One cut of a log is one sample. Here the log is cut into several windows; in each the chosen system learns anew, from
where clients are in the log, and is priced on the next. The spread of what it saves says more than any one number.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coterie.model.store import save_workload
from coterie.pipeline.cutting import WindowChoices
from coterie.pipeline.planning import LATER, LEARN, STAY, Candidate, Ways, price_all
from coterie.pipeline.windows import build_rolling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS = 4
EVENTS_MIN = 100  # of a window: fewer say nothing


class Rolled(msgspec.Struct, frozen=True):
    """What was saved in each pair of windows, as a share of the bytes: where it was learned, and in the next."""

    learned: tuple[float, ...] = ()
    later: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        return sum(self.later) / len(self.later) if self.later else 0.0


def roll(
    spark: SparkSession,
    tables: Path,
    out: Path,
    choices: WindowChoices,
    now: Candidate,
    chosen: Candidate,
    ways: Ways,
) -> Rolled:
    """Empty where the log has no times, or too few events for several windows."""
    learned, later = [], []
    for number, (first, second, facts) in enumerate(build_rolling(spark, tables, out, "rolling", choices, PAIRS)):
        span_s = float(str(facts["end_s"])) - float(str(facts["start_s"]))
        if not facts["is_timed"] or second.publications.rate.sum() * span_s < EVENTS_MIN:
            return Rolled()
        folder = out / f"pair-{number}"
        folder.mkdir(parents=True)
        save_workload(first, folder / LEARN)
        save_workload(second, folder / LATER)
        before, after = price_all(spark, folder, [_stays(now), chosen], folder / "designs", ways)
        if not (before.learn and before.later and after.learn and after.later):
            return Rolled()
        learned.append(1 - after.learn.volume.total / before.learn.volume.total)
        later.append(1 - after.later.volume.total / before.later.volume.total)
    return Rolled(tuple(learned), tuple(later))


def _stays(candidate: Candidate) -> Candidate:
    return Candidate(candidate.system, candidate.parameters, STAY)
