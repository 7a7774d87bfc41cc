"""Tamara's tables and figures as claims, and what lies beyond them: the planner on later windows, the exact optimum."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.lab import tamara_sentences as sentences
from coterie.lab.experiment import Claim, Experiment, Plot, Sense, per_seed, shrunk, yes
from coterie.lab.measuring import value
from coterie.lab.tamara_beyond import AUDIT, COST_FUNCTIONS, OPTIMUM, PLANNER, READINGS, SIZES
from coterie.lab.tamara_claims import PAPER, RATES, grid, holds
from coterie.lab.tamara_readings import SHIFTED
from coterie.lab.tamara_runs import (
    run_arrivals,
    run_debian,
    run_shift,
    run_table2,
    run_table3,
    run_worked,
)

CURVES = {"Scribe": "scribe", "Tamara": "tamara", "Tamara+": "tamara_plus"}
ALONG, COST = "share of the operations", "messages per interval"
PARTS = (("a", "infrequent"), ("b", "average"), ("c", "frequent"))
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


TABLE_2 = {  # MC, DC, OC per cent
    "tamara": {
        "average": (-78.75, 45.45, -63.73),
        "frequent": (-73.75, 15.62, -48.21),
        "infrequent": (-88.75, 150, -77.38),
    },
    "kmeans": {"average": (-53.75, 9.1, -46.15), "frequent": (-65, 9.3, -43.75), "infrequent": (-65, 0, -61.9)},
}
TABLE_3 = {
    "tamara": {"average": (-70, 100, -47.82), "frequent": (-67.5, 30.3, -38.9), "infrequent": (-96.25, 275, -78.57)},
    "static": {"average": (-55, 141.66, -29.34), "frequent": (-25, 39.4, -6.2), "infrequent": (-63.75, 200, -51.2)},
    "kmeans": {"average": (-63.75, 8.33, -54.34), "frequent": (-62.5, 12.12, -40.7), "infrequent": (-65, 0, -61.9)},
}
OUTLIER = "an outlier in the paper: Table 3's K-means on like data reads -54.34"
LARGER = (
    "how much is sent to save a link is not told: in the tables' own units (Scribe's maintenance is 80) ours ends at "
    "16 and 31 where the paper has 24 and 24; larger clusters, and the same sum"
)
ROUNDED = "a per cent of 4 units in the paper, which is rounded, and of 3.1 here; in units ours sends "
BECAUSE = {
    **{("Table 2", "kmeans", "average", cost): OUTLIER for cost in ("mc", "dc", "oc")},
    **{("Table 3", "tamara", "average", cost): LARGER for cost in ("mc", "dc")},
    ("Table 3", "tamara", "infrequent", "dc"): f"{ROUNDED}14 where the paper has 15",
    ("Table 3", "static", "average", "dc"): "what old clusters bring is mostly unwanted by then, in any reading",
    ("Table 3", "static", "infrequent", "dc"): f"{ROUNDED}11 where the paper has 12",
}


UNIT = {"average": 100 / 11, "frequent": 100 / 32, "infrequent": 100 / 4}  # one message of Scribe's dissemination, %


def _table_claims(where: str, table: Mapping[str, Mapping[str, tuple[float, ...]]], tolerance: float) -> list[Claim]:
    """Every cell. All percentages are ratios of small integers (maintenance 80, dissemination 11, 32 or 4), so a cell
    of DC cannot be meant closer than one unit."""
    claims = []
    for algorithm, rows in table.items():
        for rates, cells in rows.items():
            for name, cell in zip(("mc", "dc", "oc"), cells, strict=True):
                end = "" if name == "oc" else f"-{name}"
                claims.append(
                    Claim(
                        id=f"{where.replace(' ', '').lower()}/{algorithm}-{rates}{end}",
                        where=where,
                        statement=f"{algorithm}, {rates} model: {name.upper()} {cell} % against Scribe",
                        expected=cell,
                        tolerance=max(tolerance, UNIT[rates]) if name == "dc" else tolerance,
                        measure=value(f"{algorithm}_{name}", rates=rates, reading="tables"),
                        unit="%",
                        because=BECAUSE.get((where, algorithm, rates, name), ""),
                    )
                )
    return claims


BY_COST = [
    Claim(
        id=f"table2/kmeans-{rates}-by-cost",
        where="Table 2",
        statement=f"kmeans, {rates} model, users join clusters by cost: OC {cells[2]} % against Scribe",
        expected=cells[2],
        tolerance=6.0,
        measure=value("kmeans_by_cost_oc", rates=rates, reading="tables"),
        unit="%",
        reads=f"table2/kmeans-{rates}",
    )
    for rates, cells in TABLE_2["kmeans"].items()
]
WORKED = tuple(
    Claim(
        id=f"worked/{name.replace('_', '-')}",
        where="Sections 3.1, 3.2",
        statement=statement,
        expected=expected,
        tolerance=tolerance,
        measure=value(name),
    )
    for name, statement, expected, tolerance in (
        ("add", "a topic pays above this many of 10,000 members at rate 0.1", 910.09, 0.005),
        ("omega", "coin for phi = 0.99 and 911 users", 0.00504, 0.000005),
        ("merge_80", "common subscribers for a merge with 80 common topics (rate 0.1)", 79.11, 0.005),
        ("merge_7", "the same with 7 common topics", 466.06, 0.005),
        ("add_general", "the general formula's first paying number", 911, 0),
    )
)


TABLE2 = Experiment(
    id="tamara/table2",
    paper=PAPER,
    where="Table 2",
    title="Quality of clustering: from an empty system",
    run=run_table2,
    quick=grid(rates=RATES, reading=("tables",), users=(3000,)),
    quick_seeds=12,  # K-means differs by four points from one seed to the next
    full_seeds=12,
    full=grid(rates=RATES, reading=("tables", "text"), users=(3000,)),
    small=shrunk(users=3),
    claims=[*_table_claims("Table 2", TABLE_2, 6.0), *sentences.TABLE_2, *BY_COST],
    plots=(
        Plot(
            "Table 2: overall cost against Scribe",
            "rates",
            {"Tamara": "tamara_oc", "K-means": "kmeans_oc"},
            y_label="%",
            figure="table2",
            only={"reading": "tables"},
        ),
    ),
)
TABLE3 = Experiment(
    id="tamara/table3",
    paper=PAPER,
    where="Table 3",
    title="Adaptive clustering: interests shift",
    run=run_table3,
    quick=(),
    quick_seeds=10,  # DC differs by six points from one seed to the next
    full_seeds=16,
    full=grid(rates=RATES, reading=("tables",), users=(3000,)),
    small=shrunk(users=3),
    claims=[*_table_claims("Table 3", TABLE_3, 4.0), *sentences.TABLE_3],
    plots=[
        Plot(
            "Table 3: overall cost against Scribe",
            "rates",
            {"Tamara": "tamara_oc", "static": "static_oc", "K-means": "kmeans_oc"},
            y_label="%",
            figure="table3",
        )
    ],
)
FIGURE5 = Experiment(
    id="tamara/fig5",
    paper=PAPER,
    where="Figure 5",
    title="Users arrive in two months",
    run=run_arrivals,
    quick=grid(rates=RATES, users=(3000,), days=(60,), share=(0.5, 1.0)),
    small=shrunk(users=3),
    full=grid(rates=RATES, users=(3000,), days=(60,), share=SHARES),
    claims=[
        *(
            yes(
                f"fig5/merge-{rates}",
                "Figure 5",
                f"{rates}: the curves of Tamara and Tamara+ practically merge (within 2 % at the end)",
                holds("overhead_percent", lambda value: value < 2, rates=rates, share=1.0),
            )
            for rates in RATES
        ),
        *(
            yes(
                f"fig5/cheaper-{rates}",
                "Figure 5",
                f"{rates}: Tamara+ is far below Scribe at the end (more than 40 %)",
                holds("oc", lambda value: value < -40, rates=rates, share=1.0),
            )
            for rates in RATES
        ),
        *sentences.FIGURE_5,
    ],
    plots=[
        *(
            Plot(
                f"Figure 5({part}): {rates} model", "share", CURVES, only={"rates": rates}, x_label=ALONG, y_label=COST
            )
            for part, rates in PARTS
        ),
        Plot(
            "Figure 5: Tamara's cost over Scribe's, and where Table 2 ends",
            "share",
            {"": "tamara"},
            "rates",
            x_label=ALONG,
            figure="fig5",
            over="scribe",
        ),
    ],
)
FIGURE6 = Experiment(
    id="tamara/fig6",
    paper=PAPER,
    where="Figure 6",
    title="The same subscriptions in two weeks and in one day",
    run=run_arrivals,
    quick=grid(rates=("average",), users=(3000,), days=(60, 14, 1), share=(1.0,)),
    small=shrunk(users=3),
    full=grid(rates=("average",), users=(3000,), days=(60, 14, 1), share=SHARES),
    claims=[
        yes(
            "fig6/two-weeks",
            "Figure 6(a)",
            "two weeks: Tamara+ beats Scribe soon after the start (within a fifth of the operations)",
            holds("above_until", lambda value: value <= 0.2, days=14, share=1.0),
        ),
        yes(
            "fig6/one-day",
            "Figure 6(b)",
            "one day: efforts at the beginning, paid off before the end",
            holds("above_until", lambda value: 0 < value < 0.75, days=1, share=1.0),
        ),
        *sentences.FIGURE_6,
    ],
    plots=[
        Plot(f"Figure 6({part}): {told}", "share", CURVES, only={"days": days}, x_label=ALONG, y_label=COST)
        for part, days, told in (("a", 14, "two weeks"), ("b", 1, "one day"))
    ],
)
FIGURE7 = Experiment(
    id="tamara/fig7a",
    paper=PAPER,
    where="Figure 7(a)",
    title="Uniform interests",
    run=run_arrivals,
    quick=grid(rates=("average",), users=(3000,), uniform=(True,), share=(1.0,)),
    small=shrunk(users=3),
    full=grid(rates=("average",), users=(3000,), uniform=(True,), share=SHARES),
    claims=[
        yes(
            "fig7a/cheaper",
            "Figure 7(a)",
            "even when no natural clusters exist, Tamara still performs better (by more than 10 %)",
            holds("oc", lambda value: value < -10, share=1.0),
        )
    ],
    plots=(Plot("Figure 7(a): uniform interests", "share", CURVES, x_label=ALONG, y_label=COST),),
)
FIGURE7B = Experiment(
    id="tamara/fig7b",
    paper=PAPER,
    where="Figure 7(b)",
    title="Interests shift to uniform",
    run=run_shift,
    quick=grid(rates=("average",), users=(3000,), shift_to=("uniform", "clustered"), share=(1.0,)),
    quick_seeds=5,
    small=shrunk(users=3),
    full=grid(rates=("average",), users=(3000,), shift_to=("uniform", "clustered"), share=SHARES),
    claims=[
        yes(
            "fig7b/useful",
            "Figure 7(b)",
            "clustering is still useful: cheaper than Scribe and than static clusters at the end",
            lambda rows: [
                float(oc < 0 and oc < still)
                for oc, still in zip(
                    *(per_seed(rows, name, shift_to="uniform", share=1.0) for name in ("oc", "static_oc")),
                    strict=False,
                )
            ],
        ),
        *sentences.FIGURE_7B,
    ],
    plots=(
        Plot(
            "Figure 7(b): interests shift to uniform",
            "share",
            {**CURVES, "SC": "static"},
            only={"shift_to": "uniform"},
            x_label=ALONG,
            y_label=COST,
        ),
    ),
)
FIGURE8 = Experiment(
    id="tamara/fig8",
    paper=PAPER,
    where="Figure 8",
    title="Interests shift to other clusters",
    run=run_shift,
    quick=grid(rates=RATES, users=(3000,), share=(0.1, 0.5, 1.0)),
    full=grid(rates=RATES, users=(3000,), share=SHARES),
    small=shrunk(users=3),
    claims=[
        *(
            yes(
                f"fig8/bump-{rates}",
                "Figure 8",
                f"{rates}: the cost rises at first (at least 1 %) and falls again (at least 1 %) as clusters follow",
                lambda rows, rates=rates: [  # type: ignore[misc]
                    float(up >= 1 and down <= -1)
                    for up, down in zip(
                        per_seed(rows, "peak_after_start", rates=rates, share=1.0),
                        per_seed(rows, "end_after_peak", rates=rates, share=1.0),
                        strict=False,
                    )
                ],
                because="where events are rare, clusters larger than the given ones pay: ours merges them at once, and "
                "the cost falls from the first operations on; the plain text has the bump and misses Table 3"
                if rates == "infrequent"
                else "",
            )
            for rates in RATES
        ),
        *(
            yes(
                f"fig8/superior-{rates}",
                "Figure 8",
                f"{rates}: Tamara ends below static clusters and Scribe",
                lambda rows, rates=rates: [  # type: ignore[misc]
                    float(oc < still < 0)
                    for oc, still in zip(
                        per_seed(rows, "oc", rates=rates, share=1.0),
                        per_seed(rows, "static_oc", rates=rates, share=1.0),
                        strict=False,
                    )
                ],
            )
            for rates in RATES
        ),
        *sentences.FIGURE_8,
    ],
    plots=[
        *(
            Plot(
                f"Figure 8({part}): {rates} model",
                "share",
                {**CURVES, "SC": "static"},
                only={"rates": rates},
                x_label=ALONG,
                y_label=COST,
            )
            for part, rates in PARTS
        ),
        Plot(
            "Figure 8: costs over Scribe's, and where Table 3 ends",
            "share",
            {"Tamara,": "tamara", "SC,": "static"},
            "rates",
            x_label=ALONG,
            figure="fig8",
            over="scribe",
        ),
    ],
)
FIGURE9 = Experiment(
    id="tamara/fig9",
    paper=PAPER,
    where="Figure 9",
    title="Updates of Debian packages (install closures, real upload rates), M = 2, 12, 24 hours",
    run=run_debian,
    quick=(),
    full=grid(hours=(2, 12, 24), users=(1000,)),
    claims=[
        Claim(
            "abstract/order",
            "Abstract",
            "the performance is improved by an order of magnitude: times cheaper than Scribe at M = 2 h",
            10.0,
            5.0,
            value("times_cheaper", hours=2),
            sense=Sense.AT_LEAST,
        ),
        yes(
            "fig9/four-times",
            "Figure 9",
            "with all thousand users more than 4 times cheaper than Scribe, even at M = 24 h",
            holds("times_cheaper", lambda value: value > 4, hours=24),
        ),
        yes(
            "fig9/250-users",
            "Figure 9",
            "cost effective, all control messages included, as soon as 250 users have joined, even at M = 24 h",
            holds("times_cheaper_quarter", lambda value: value > 1, hours=24),
        ),
        yes(
            "fig9/sparser",
            "Figure 9",
            "the sparser the maintenance, the smaller the savings",
            lambda rows: [
                float(a > b > c)
                for a, b, c in zip(
                    *(per_seed(rows, "times_cheaper", hours=hours) for hours in (2, 12, 24)), strict=False
                )
            ],
        ),
    ],
    plots=(
        Plot(
            "Figure 9: times cheaper than Scribe",
            "hours",
            {"all 1,000 users": "times_cheaper", "250 users": "times_cheaper_quarter"},
            x_label="M, hours",
            figure="fig9",
        ),
    ),
)
WORKED_NUMBERS = Experiment(
    id="tamara/worked",
    paper=PAPER,
    where="Sections 3.1, 3.2",
    title="Numbers worked out in the text",
    run=run_worked,
    quick=[{}],
    full=[{}],
    claims=WORKED,
    quick_seeds=1,
    full_seeds=1,
)
EXPERIMENTS: tuple[Experiment, ...] = (
    WORKED_NUMBERS,
    TABLE2,
    TABLE3,
    FIGURE5,
    FIGURE6,
    FIGURE7,
    FIGURE7B,
    FIGURE8,
    FIGURE9,
    READINGS,
    SHIFTED,
    COST_FUNCTIONS,
    SIZES,
    AUDIT,
    PLANNER,
    OPTIMUM,
)
