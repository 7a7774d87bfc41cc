"""How DYNATOPS' claims are measured on finished rows.

The paper rounds what it saves to tens of per cent. So a number is met within 5 points; where the text says "over",
being short of it by less than 10 points counts as partly.
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import Claim, Row, Sense, per_seed
from coterie.lab.measuring import Measure, Setting

PAPER = "dynatops"
HALF_A_STEP, A_STEP = 5.0, 10.0  # of the paper's rounding, in points


def change(name: str, base: str, **where: Setting) -> Measure:
    """Per cent by which one value lies above another of the same run."""

    def measure(rows: Sequence[Row]) -> list[float]:
        pairs = zip(per_seed(rows, name, **where), per_seed(rows, base, **where), strict=True)
        return [100 * (new / old - 1) for new, old in pairs if old]

    return measure


def over(
    id: str, where: str, statement: str, per_cent: float, measure: Measure, because: str = "", reads: str = ""
) -> Claim:
    """The paper saves "over" so many per cent."""
    return Claim(id, where, statement, -per_cent, A_STEP, measure, "%", because, Sense.AT_MOST, reads)


def below(name: str, others: Sequence[str], **where: Setting) -> Measure:
    """1 for every seed where a value is smaller than all the others."""

    def measure(rows: Sequence[Row]) -> list[float]:
        rivals = [per_seed(rows, other, **where) for other in others]
        own = per_seed(rows, name, **where)
        return [float(all(mine < other[at] for other in rivals)) for at, mine in enumerate(own)]

    return measure
