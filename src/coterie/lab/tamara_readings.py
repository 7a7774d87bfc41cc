"""Tamara while interests shift, under every reading of the text that was plausible: the workload's and the surveys'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.lab.experiment import Claim, Experiment, Point, shrunk, yes
from coterie.lab.measuring import value
from coterie.lab.tamara_claims import PAPER, RATES, grid, holds
from coterie.lab.tamara_runs import SAMPLES, _clustered, _deltas, _first, natural_clusters, percent
from coterie.model import Relation, Timeline
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.parameters import TamaraParameters
from coterie.workloads import tamara as users
from coterie.workloads.rates import per_interval

FEW_CHANGES = "75,000 operations"  # of 3,000 users
WORKLOADS: dict[str, dict[str, object]] = {
    "as taken": {},
    "log-uniform rates": {"frequency_spread": "log-uniform"},
    FEW_CHANGES: {},
    "plain text": {"reading": "text"},
}
SURVEYS: dict[str, dict[str, object]] = {
    "surveys of 100": {"survey_size": 100},
    "surveys of everybody": {"survey_size": 0},
    "surveys twice as often": {"survey_share": 0.05},
    "surveys half as often": {"survey_share": 0.2},
}
TAKEN = (*WORKLOADS, *SURVEYS)


def run_shifted(point: Point, seed: int) -> Mapping[str, float]:
    """Table 3 and Figure 8: where Tamara ends, and whether its cost rises on the way."""
    taken = str(point["taken"])
    changes = {"operations_max": 25 * int(point["users"])} if taken == FEW_CHANGES else WORKLOADS.get(taken, {})
    parameters = _clustered(point, **changes)
    timeline, start = users.shift(parameters, seed), natural_clusters(parameters)
    chosen = TamaraParameters(**SURVEYS.get(taken, {}))  # type: ignore[arg-type]
    history = (clusters := _begun(timeline, start, chosen, seed)).follow(timeline, SAMPLES)
    clusters.check()
    before = _begun(_first(timeline, 0), start, chosen, seed).overall
    peak = float(history.overall.max())
    return {
        **_deltas("tamara", history),
        "peak_after_start": percent(peak, before),
        "end_after_peak": percent(float(history.overall[-1]), peak),
    }


def _begun(timeline: Timeline, start: Relation, chosen: TamaraParameters, seed: int) -> TopicClusters:
    workload = timeline.start
    clusters = TopicClusters(workload.subscriber_count, per_interval(workload), chosen, seed=seed)
    clusters.start_with(workload.interests, start)
    return clusters


TABLE_3_OC = dict(zip(RATES, (-47.82, -38.9, -78.57), strict=True))
# Cells that are not met as taken, so that each has its readings: algorithm, model, cost, printed, tolerance.
OPEN_CELLS = (
    ("tamara", "average", "mc", -70.0, 4.0),
    ("tamara", "average", "dc", 100.0, 100 / 11),
    ("tamara", "infrequent", "dc", 275.0, 25.0),
    ("static", "average", "dc", 141.66, 100 / 11),
    ("static", "infrequent", "dc", 200.0, 25.0),
)


def cells_of(algorithm: str, taken: Sequence[str], marked: str = "") -> list[Claim]:
    """Printed cells of MC and DC under other readings; `marked` keeps ids apart where two experiments read one."""
    return [
        Claim(
            f"table3/{algorithm}-{rates}-{cost}-{_mark(reading)}{marked}",
            "Table 3",
            f"{algorithm}, {rates} model, {reading}: {cost.upper()} {printed} % against Scribe",
            printed,
            tolerance,
            value(f"{algorithm}_{cost}", taken=reading, rates=rates),
            "%",
            reads=f"table3/{algorithm}-{rates}-{cost}",
        )
        for whose, rates, cost, printed, tolerance in OPEN_CELLS
        if whose == algorithm
        for reading in taken
    ]


def _mark(taken: str) -> str:
    return taken.replace(" ", "-").replace(",", "")


SHIFTED = Experiment(
    id="tamara/table3-readings",
    paper=PAPER,
    where="Table 3, Figure 8",
    title="Interests shift: readings of the workload and of how surveys are made",
    run=run_shifted,
    quick=(),
    full=grid(taken=TAKEN, rates=RATES, users=(3000,)),
    small=shrunk(users=3),
    claims=[
        *(
            Claim(
                f"table3/tamara-{rates}-{_mark(taken)}",
                "Table 3",
                f"tamara, {rates} model, {taken}: OC {TABLE_3_OC[rates]} % against Scribe",
                TABLE_3_OC[rates],
                4.0,
                value("tamara_oc", taken=taken, rates=rates),
                "%",
                reads=f"table3/tamara-{rates}",
            )
            for taken in TAKEN
            for rates in RATES
            if taken != "as taken"
        ),
        *(
            yes(
                f"fig8/rises-{rates}-{_mark(taken)}",
                "Figure 8",
                f"{rates}, {taken}: the cost rises at first by at least 1 %",
                holds("peak_after_start", lambda found: found >= 1, taken=taken, rates=rates),
                reads=f"fig8/bump-{rates}",
            )
            for taken in TAKEN
            for rates in ("infrequent",)
            if taken != "as taken"
        ),
        *cells_of("tamara", [taken for taken in TAKEN if taken != "as taken"]),
    ],
    full_seeds=5,
)
