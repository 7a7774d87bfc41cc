"""DYNATOPS' Figures 7, 8 and 9 as experiments: users whose subscriptions change as a Poisson process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from coterie.lab.dynatops_claims import (
    HALF_A_STEP,
    PAPER,
    Measure,
    along,
    below,
    change,
    over,
)
from coterie.lab.dynatops_readings import run_located, run_patterns
from coterie.lab.dynatops_runs import run_poisson
from coterie.lab.experiment import Claim, Experiment, Plot, Point, Row, per_seed, shrunk, yes

SIZES: Point = {"nodes": 100, "subscribers": 50_000, "topics": 1000, "modes": 100}
FEWER = shrunk(nodes=4, subscribers=4, duration_h=2.5)  # brokers with as many users and topics each as the paper's
HALF = shrunk(nodes=2, subscribers=2, duration_h=2.5)
RATES = (0.025, 0.05, 0.1, 0.2)
PATTERNS = ("multimodal", "zipf", "uniform")

HEX = (
    "Tapestry's digits are hexadecimal where nothing else is said, and 100 brokers are then under two hops apart, "
    "Chord's over three"
)
LINKS = (
    "a changed link is one message for TCO, while the formula charges |P| log |V| for every moved broker: 80 % less "
    "would need over a million changed links, and 100 brokers have 4,950"
)


def _growth(name: str) -> Measure:
    """What the largest rate of changes costs over what the smallest does."""

    def measure(rows: Sequence[Row]) -> list[float]:
        few, many = (per_seed(rows, name, change_rate=rate) for rate in (RATES[0], RATES[-1]))
        return [high / max(low, 1.0) for low, high in zip(few, many, strict=True)]

    return measure


def _less_sensitive(rows: Sequence[Row]) -> list[float]:
    ours, theirs = _growth("dynatops_reconfiguration")(rows), _growth("tco_rebuild")(rows)
    return [float(own < other) for own, other in zip(ours, theirs, strict=True)]


FIGURE_7 = Experiment(
    id=f"{PAPER}/fig7",
    paper=PAPER,
    where="Figure 7",
    title="Multimodal users whose subscriptions change",
    run=run_poisson,
    quick=(),
    full=[
        {**SIZES, "pattern": "multimodal", "change_rate": rate, "tco_h": 5, "duration_h": 100, "sample_h": 20}
        for rate in RATES
    ],
    small=FEWER,
    full_seeds=3,
    claims=[
        over(
            "fig7a/changes",
            "Figure 7a",
            "80 % fewer broker subscription changes than with static placement",
            80,
            change("dynatops_changes", "static_changes", change_rate=0.1),
        ),
        over(
            "fig7a/management",
            "section 6.3.1",
            "over 40 % less subscription management, the exchange inside clusters included",
            40,
            change("dynatops_management", "static_management", change_rate=0.1),
            "with few users a broker the exchange inside clusters outweighs what it saves",
        ),
        Claim(
            id="fig7b/delay-chord",
            where="Figure 7b",
            statement="10 % less delay (against Chord with consistent hashing)",
            expected=-10.0,
            tolerance=HALF_A_STEP,
            measure=change("dynatops_user_hops", "static_user_hops", change_rate=0.1),
            unit="%",
            because="the printed neighbourhood stops early; see fig10",
            reads="fig8/delay-multimodal-10",
        ),
        over(
            "fig7c/overhead",
            "Figure 7c",
            "over 50 % less notification overhead than Bayeux",
            50,
            change("dynatops_overhead", "bayeux2_overhead", change_rate=0.1),
        ),
        over(
            "fig7c/overhead-tco",
            "Figure 7c",
            "over 50 % less notification overhead than TCO",
            50,
            change("dynatops_overhead", "tco_overhead", change_rate=0.1),
        ),
        yes(
            "fig7c/tco-relay-free",
            "Figure 7c",
            "TCO has less overhead than Bayeux and DYNATOPS(BNR)",
            below("tco_overhead", ("bayeux2_overhead", "bnr_overhead"), change_rate=0.1),
        ),
        over(
            "fig7d/rebuild",
            "Figure 7d",
            "over 80 % less reconfiguration than TCO rebuilt every five hours, by the formula of section 5.1.2",
            80,
            change("dynatops_reconfiguration", "tco_rebuild", change_rate=0.2),
            LINKS,
        ),
        over(
            "fig7d/repair",
            "Figure 7d",
            "the same against TCO repaired link by link",
            80,
            change("dynatops_reconfiguration", "tco_repair", change_rate=0.2),
            "incremental repair of a topic-connected overlay changes next to nothing",
            reads="fig7d/rebuild",
        ),
        yes(
            "fig7d/sensitive",
            "Figure 7d",
            "reconfiguration grows less with the rate of changes (0.025 to 0.2) than TCO's does",
            _less_sensitive,
        ),
    ],
    plots=[
        Plot("DYNATOPS: messages per event", "change_rate", "dynatops_overhead"),
        Plot("Bayeux: messages per event", "change_rate", "bayeux2_overhead"),
        Plot("TCO: messages per event", "change_rate", "tco_overhead"),
        Plot("DYNATOPS: hops to a user", "change_rate", "dynatops_user_hops"),
        Plot("DYNATOPS: broker subscription changes", "change_rate", "dynatops_changes"),
        Plot("Static placement: broker subscription changes", "change_rate", "static_changes"),
        Plot("DYNATOPS: reconfiguration messages by the formula", "change_rate", "dynatops_reconfiguration"),
        Plot("TCO: links changed", "change_rate", "tco_rebuild"),
    ],
)

# --- Figure 8, and the delay of Figure 7b, in all readings of Bayeux and TCO ---

BAYEUX = {
    "tapestry16": "Tapestry, hexadecimal digits",
    "tapestry4": "Tapestry, digits of base 4",
    "tapestry2": "Tapestry, binary digits",
    "bayeux2": "Pastry with leaf sets, binary digits",
}
TCO = {
    "tco_divided_anybody": "DCB-M, from any member",
    "tco_divided": "DCB-M, from the first member",
    "tco_merged_anybody": "greedy merge, from any member",
}
MAIN_BAYEUX, MAIN_TCO = "tapestry16", "tco_divided_anybody"


def _delay_by(pattern: str) -> list[Claim]:
    """DYNATOPS has the least delay of all, once for every reading of each rival."""
    main = f"fig8/delay-{pattern}"
    claims = [
        yes(
            main,
            "Figure 8a",
            f"DYNATOPS has the least delay of all systems, {pattern} ({BAYEUX[MAIN_BAYEUX]}; {TCO[MAIN_TCO]})",
            below("dynatops_user_hops", (f"{MAIN_BAYEUX}_user_hops", f"{MAIN_TCO}_hops"), pattern=pattern),
            HEX,
        )
    ]
    claims += [
        yes(
            f"{main}-{name}",
            "Figure 8a",
            f"less delay than Bayeux over {title}, {pattern}",
            below("dynatops_user_hops", (f"{name}_user_hops",), pattern=pattern),
            reads=main,
        )
        for name, title in BAYEUX.items()
    ]
    return claims + [
        yes(
            f"{main}-{name.replace('_', '-')}",
            "Figure 8a",
            f"less delay than TCO by {title}, {pattern}",
            below("dynatops_user_hops", (f"{name}_hops",), pattern=pattern),
            "brokers of 500 random users want nine topics of ten, so a topic's overlay is nearly the whole network",
            reads=main,
        )
        for name, title in TCO.items()
    ]


def _ten_percent(rival: str, title: str, reads: str = "") -> Claim:
    return Claim(
        f"fig8/delay-multimodal-10{f'-{rival}' if reads else ''}",
        "Figure 7b",
        f"10 % less delay than Bayeux, multimodal ({title})",
        -10.0,
        HALF_A_STEP,
        change("dynatops_user_hops", f"{rival}_user_hops", pattern="multimodal"),
        "%",
        "" if reads else HEX,
        reads=reads,
    )


def _tco_best_under_zipf(name: str) -> Measure:
    def measure(rows: Sequence[Row]) -> list[float]:
        zipf, modal, flat = (per_seed(rows, f"{name}_hops", pattern=it) for it in ("zipf", "multimodal", "uniform"))
        return [float(a < min(b, c)) for a, b, c in zip(zipf, modal, flat, strict=True)]

    return measure


FIGURE_8 = Experiment(
    id=f"{PAPER}/fig8",
    paper=PAPER,
    where="Figures 7b, 8",
    title="Three patterns of subscriptions, change rate 0.1, T_free 10 h; all readings of Bayeux and TCO",
    run=run_patterns,
    quick=(),
    full=[
        {**SIZES, "pattern": pattern, "change_rate": 0.1, "tco_h": 5, "duration_h": 50, "sample_h": 10}
        for pattern in PATTERNS
    ],
    small=HALF,
    full_seeds=3,
    claims=[
        *(
            yes(
                id=f"fig8/overhead-{pattern}",
                where="Figure 8b",
                statement=f"DYNATOPS has the least overhead of all systems, {pattern}",
                measure=below(
                    "dynatops_overhead",
                    (*(f"{name}_overhead" for name in BAYEUX), "tco_overhead", "static_overhead"),
                    pattern=pattern,
                ),
            )
            for pattern in PATTERNS
        ),
        *(claim for pattern in PATTERNS for claim in _delay_by(pattern)),
        _ten_percent(MAIN_BAYEUX, BAYEUX[MAIN_BAYEUX]),
        *(
            _ten_percent(name, title, "fig8/delay-multimodal-10")
            for name, title in BAYEUX.items()
            if name != MAIN_BAYEUX
        ),
        yes(
            "fig7b/tco-delay",
            "Figure 7b",
            f"TCO has a worse delay than Bayeux and DYNATOPS(BNR) ({TCO[MAIN_TCO]})",
            lambda rows: [
                float(tco > max(bayeux, bnr))
                for tco, bayeux, bnr in zip(
                    *(
                        per_seed(rows, name, pattern="multimodal")
                        for name in (f"{MAIN_TCO}_hops", f"{MAIN_BAYEUX}_user_hops", "bnr_user_hops")
                    ),
                    strict=True,
                )
            ],
            "nine topics of ten at every broker leave hardly a detour inside a topic",
        ),
        *(
            yes(
                f"fig8/tco-zipf{'' if name == MAIN_TCO else '-' + name.replace('_', '-')}",
                "Figure 8a",
                f"TCO's delay is low under Zipf and worse under the other patterns ({title})",
                _tco_best_under_zipf(name),
                reads="" if name == MAIN_TCO else "fig8/tco-zipf",
            )
            for name, title in TCO.items()
        ),
        over(
            "fig7d/divided",
            "Figure 7d",
            "over 80 % less reconfiguration than TCO by DCB-M for the partitions that changed, every five hours",
            80,
            change("dynatops_reconfiguration", "tco_divided_changed", pattern="multimodal"),
            LINKS,
            reads="fig7d/rebuild",
        ),
        over(
            "fig7d/later",
            "Figure 7d",
            "the same where the first configuration is not counted: the network begins configured",
            80,
            change("dynatops_reconfiguration_later", "tco_divided_changed", pattern="multimodal"),
            reads="fig7d/rebuild",
        ),
    ],
    plots=[
        Plot("DYNATOPS: hops to a user", "pattern", "dynatops_user_hops"),
        Plot("Bayeux over Tapestry, hexadecimal: hops to a user", "pattern", "tapestry16_user_hops"),
        Plot("Bayeux over Tapestry, binary: hops to a user", "pattern", "tapestry2_user_hops"),
        Plot("TCO by DCB-M: hops to a user", "pattern", "tco_divided_anybody_hops"),
        Plot("DYNATOPS: messages per event", "pattern", "dynatops_overhead"),
        Plot("Bayeux over Tapestry: messages per event", "pattern", "tapestry16_overhead"),
        Plot("TCO: messages per event", "pattern", "tco_overhead"),
    ],
)

# --- Figure 9 ---

FREE_H = (5, 10, 20, 50)
STILL = (
    "one reconfiguration pays, at the start; placement then keeps the brokers' subscriptions so still that none pays "
    "again, however short the free period is"
)


def _rises(values: list[float]) -> bool:
    return values[-1] > values[0]


def _falls(values: list[float]) -> bool:
    return values[-1] < values[0]


def _slightly(values: list[float]) -> bool:
    """It grows from the shortest to the longest free period, by less than 5 %."""
    return values[0] < values[-1] <= 1.05 * values[0]


def _over_patterns(name: str, is_so: Callable[[list[float]], bool]) -> Measure:
    """1 for every seed where the mean over all patterns, by free period, is as asked."""

    def measure(rows: Sequence[Row]) -> list[float]:
        marks = []
        for seed in sorted({row.seed for row in rows}):
            mine = [row for row in rows if row.seed == seed]
            means = [fmean(row.values[name] for row in mine if row.point["free_h"] == free_h) for free_h in FREE_H]
            marks.append(float(is_so(means)))
        return marks

    return measure


DEGRADING: tuple[tuple[str, str, str, Callable[[list[float]], bool]], ...] = (
    (
        "overhead",
        "the overhead rises, by less than 5 %, as T_free grows from 5 to 50 h",
        "dynatops_overhead",
        _slightly,
    ),
    ("messages", "reconfiguration messages fall as T_free grows", "dynatops_reconfiguration", _falls),
)


FIGURE_9 = Experiment(
    id=f"{PAPER}/fig9",
    paper=PAPER,
    where="Figure 9",
    title="The reconfiguration free period, all patterns",
    run=run_poisson,
    quick=(),
    full=[
        {
            **SIZES,
            "pattern": pattern,
            "change_rate": 0.025,
            "cluster": 5,
            "free_h": free_h,
            "duration_h": 100,
            "systems": "dynatops",
            "tco": False,
        }
        for pattern in PATTERNS
        for free_h in FREE_H
    ],
    small=shrunk(nodes=4, subscribers=4),
    full_seeds=3,
    claims=[
        *(
            yes(f"fig9/{name}", "Figure 9", f"{statement} (mean of all patterns)", _over_patterns(value, is_so))
            for name, statement, value, is_so in DEGRADING
        ),
        *(
            yes(
                f"fig9/{name}-{pattern}",
                "Figure 9",
                f"{statement} ({pattern})",
                along(value, "free_h", is_so, pattern=pattern),
                STILL if pattern == "multimodal" else "",
                reads=f"fig9/{name}",
            )
            for pattern in PATTERNS
            for name, statement, value, is_so in DEGRADING
        ),
    ],
    plots=[
        Plot("Messages per event", "free_h", "dynatops_overhead", "pattern"),
        Plot("Reconfiguration messages", "free_h", "dynatops_reconfiguration", "pattern"),
    ],
)


SAMPLES = (12, 6, 3)  # how often in the trace brokers may be placed anew
FIGURE_9_LOCATED = Experiment(
    id=f"{PAPER}/fig9-located",
    paper=PAPER,
    where="Figure 9",
    title="The reconfiguration free period, people who move",
    run=run_located,
    quick=(),
    full=[
        {
            "workload": name,
            "cluster": 10,
            "load_weight": 0.1,
            "delay": "hops",
            "samples": each,
            "updates_per_sample": 60 // each,
        }
        for name in ("foursquare", "gowalla")
        for each in SAMPLES
    ],
    full_seeds=3,
    claims=[
        yes(
            f"fig9/located-{name}-{workload}",
            "Figure 9",
            f"people who move, {workload}: {statement} as T_free grows",
            along(value, "samples", _rises if is_more else _falls, workload=workload),
        )
        for workload in ("foursquare", "gowalla")
        for name, statement, value, is_more in (
            ("overhead", "the overhead rises", "dynatops_overhead", False),
            ("messages", "reconfiguration messages fall", "dynatops_reconfiguration", True),
        )
    ],
)
