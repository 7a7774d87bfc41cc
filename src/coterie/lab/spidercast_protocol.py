"""SpiderCast's protocol as experiments: views learned by gossip, and churn."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import OURS, Claim, Plot, Point, Row, yes
from coterie.lab.measuring import value, worst
from coterie.lab.spidercast_churn import run_protocol_churn
from coterie.lab.spidercast_claims import LIVES, above, experiment, only_ends
from coterie.lab.spidercast_runs import run_protocol

FEW = 0.05  # views of so few choose badly while they stay the same, and gossip changes them


def off_by_percent(rows: Sequence[Row]) -> list[float]:
    """Per seed: the largest distance between protocol and bulk form, whichever has more links."""
    off = [
        (row.seed, 100 * abs(row.values["degree"] / row.values["bulk_degree"] - 1))
        for row in rows
        if row.point["view_share"] != FEW
    ]
    return [max(each for seed, each in off if seed == one) for one in sorted({seed for seed, _ in off})]


SEEN = 200  # nodes in the view of the largest network


def fewer(point: Point) -> Point:
    """Fewer nodes, of whom as many are seen as in the largest network; views of 5 % stay as they are."""
    if point["view_share"] == FEW:
        return point
    few = 200 if point["view_share"] == 1.0 else 400
    seen = SEEN / few if float(point["view_share"]) * int(point["nodes"]) == SEEN else float(point["view_share"])
    return {**point, "nodes": few, "view_share": seen}


PROTOCOL = experiment(
    "protocol",
    "section 3.7 and ours",
    "The protocol with views learned by gossip, against the bulk form",
    run_protocol,
    [
        *({"nodes": 1000, "view_share": share, "duration_s": 40} for share in (FEW, 0.2, 1.0)),
        {"nodes": 10000, "view_share": 0.02, "duration_s": 40},
    ],
    [
        Claim("protocol/degree", OURS, "degree within 3 % of the bulk form's", 0.0, 3.0, off_by_percent, "%"),
        yes(
            "protocol/few",
            OURS,
            "learned views of 5 % need no more links than views of 5 % that never change",
            lambda rows: [
                float(row.values["degree"] <= row.values["bulk_degree"])
                for row in rows
                if row.point["view_share"] == FEW
            ],
        ),
        Claim("protocol/connected", "section 3.7", "all topics connected", 0.0, 0.0, worst("partitioned")),
    ],
    small=fewer,
)

PROTOCOL_CHURN: list[Point] = [
    *({"nodes": 400, "life_s": life_s, "duration_s": 230, "snapshot_s": 50, "crash_share": 0.25} for life_s in LIVES),
    {"nodes": 1250, "life_s": 100, "duration_s": 90, "snapshot_s": 20, "crash_share": 0.25},
]


def shorter(point: Point) -> Point:
    """Fewer nodes for a shorter time; more of them where their degree, which falls with the nodes, is judged."""
    if point["nodes"] == 1250:
        return {**point, "nodes": 250, "duration_s": 60, "snapshot_s": 15}
    return {**point, "nodes": 60, "duration_s": 70, "snapshot_s": 20}


CHURN = experiment(
    "churn-protocol",
    "section 3.8",
    "The protocol under churn: joins, leaves and crashes, views learned by gossip",
    run_protocol_churn,
    PROTOCOL_CHURN,
    [
        Claim(
            "churn-protocol/connected",
            "section 3.8",
            "all topics connected in every snapshot",
            0.0,
            0.0,
            worst("partitioned"),
            because="the paper's nodes are given all others' interests at once, ours learn of newcomers by gossip",
        ),
        Claim(
            "churn-protocol/degree",
            "Figure 11",
            "average degree 13 with 1,000 nodes up",
            13.0,
            1.3,
            value("degree", nodes=1250),
        ),
        Claim(
            "churn-protocol/flat",
            "Figure 11",
            "the churn rate does not change the degree: lives of 100 s against 500 s (320 nodes up)",
            0.0,
            10.0,
            above("degree", {"nodes": 400, "life_s": 100}, {"nodes": 400, "life_s": 500}),
            "%",
        ),
        Claim(
            "churn-protocol/messages",
            "section 3.8.1",
            "38 control messages per join or leave with 1,000 nodes up",
            38.0,
            8.0,
            value("messages", nodes=1250),
            "messages",
            "without refused DISCONNECTs",
        ),
    ],
    [Plot("Degree under churn, protocol", "life_s", "degree", "nodes")],
    small=shorter,
    quick=only_ends(PROTOCOL_CHURN, "life_s", (LIVES[0], LIVES[-1])),
)
