"""The judge: measured numbers against a claim, with the confidence that their number and spread allow.

A verdict is about the mean over seeds. With two seeds or more its 95 % confidence interval is known as well; where that
is wider than the tolerance and reaches over the border, the verdict is *undecided*, however well the mean may look:
more seeds are the answer, not a wider tolerance.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from coterie.errors import CoterieError, RunError
from coterie.lab.experiment import Claim, Row, Sense

# Student's t for a two-sided 95 %, by degrees of freedom; beyond the table it is the normal distribution's
STUDENT_T = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL_T = 1.96


class Verdict(StrEnum):
    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    UNDECIDED = "undecided"
    MISSING = "not run"


@dataclass(frozen=True)
class Judgement:
    """A claim and what we measured for it."""

    claim: Claim
    measured: tuple[float, ...]
    verdict: Verdict
    is_small: bool = False  # some of it was measured at a smaller size than the paper's

    @property
    def mean(self) -> float:
        return float(np.mean(self.measured)) if self.measured else float("nan")

    @property
    def interval(self) -> float:
        """Half the width of the 95 % confidence interval of the mean; 0 with a single seed, which has none."""
        return confidence(self.measured) if len(self.measured) > 1 else 0.0

    @property
    def ours(self) -> str:
        """What a table shows."""
        if not self.measured:
            return ""
        if self.claim.sense is Sense.HOLDS:
            return f"{_held(self.measured)} of {len(self.measured)} seeds"
        if len(self.measured) == 1:
            return f"{self.mean:.4g}, one seed"
        if not self.interval:
            return f"{self.mean:.4g}, alike in {len(self.measured)} seeds"
        return f"{self.mean:.4g} ± {self.interval:.2g}"

    @property
    def paper(self) -> str:
        """What is claimed, as a table shows it."""
        claim = self.claim
        if claim.sense is Sense.HOLDS:
            return "yes"
        told = f"{claim.expected:g} ± {claim.tolerance:g}"
        if claim.sense is not Sense.ABOUT:
            told = f"{claim.sense.value} {claim.expected:g}"
        return f"{told} {claim.unit}".rstrip()


def judge(claim: Claim, rows: Sequence[Row]) -> Judgement:
    """The claim's verdict on an experiment's finished rows."""
    measured = _measured(claim, rows) if rows else ()
    if not measured or not all(math.isfinite(value) for value in measured):
        return Judgement(claim, (), Verdict.MISSING)
    verdict = _holding(measured) if claim.sense is Sense.HOLDS else _against(claim, measured)
    return Judgement(claim, measured, verdict, any(row.is_small for row in rows))


def _measured(claim: Claim, rows: Sequence[Row]) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in claim.measure(rows))
    except CoterieError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[:2][-1]  # the measure's own line, below this one
        told = f"its measure ended with {type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
        raise RunError(f"claim {claim.id}: {told}; a measure without an answer returns nan") from error


def confidence(measured: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the mean."""
    freedom = len(measured) - 1
    student = STUDENT_T[freedom] if freedom < len(STUDENT_T) else NORMAL_T
    return student * float(np.std(measured, ddof=1)) / math.sqrt(len(measured))


def _held(measured: Sequence[float]) -> int:
    """Seeds for which a sentence holds; for less than all of it counts as not."""
    return sum(value == 1.0 for value in measured)


def _holding(measured: Sequence[float]) -> Verdict:
    """Reproduced if it holds for every seed, partly if for more than half."""
    share = _held(measured) / len(measured)
    if share == 1.0:
        return Verdict.REPRODUCED
    return Verdict.PARTLY if share > 0.5 else Verdict.NOT


def _against(claim: Claim, measured: Sequence[float]) -> Verdict:
    beyond = _beyond(claim, float(np.mean(measured)))
    half = confidence(measured) if len(measured) > 1 else 0.0
    if claim.tolerance and half > max(claim.tolerance, abs(beyond)):
        return Verdict.UNDECIDED
    if beyond <= 0.0:
        return Verdict.REPRODUCED
    return Verdict.PARTLY if beyond <= claim.tolerance else Verdict.NOT


def _beyond(claim: Claim, mean: float) -> float:
    """How far the mean is outside of what is claimed; below 0, how far inside.

    A number that is said to be about so much may be off by its tolerance; a limit is a limit.
    """
    if claim.sense is Sense.ABOUT:
        return abs(mean - claim.expected) - claim.tolerance
    return claim.expected - mean if claim.sense is Sense.AT_LEAST else mean - claim.expected
