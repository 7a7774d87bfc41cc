"""SpiderCast's evaluation (section 3) as experiments: Figures 6 to 14, join and leave messages, beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import Claim, Experiment, Plot, Row, per_seed
from coterie.lab.spidercast_claims import SIZES, SMALL, Setting, experiment, holds, ratio, rising, value, worst
from coterie.lab.spidercast_figures import (
    FIGURE_6,
    FIGURE_7,
    FIGURE_8A,
    FIGURE_8B,
    FIGURE_8C,
    FIGURE_9,
    FIGURE_10,
)
from coterie.lab.spidercast_runs import run_churn, run_overlay, run_protocol

FIGURE_12 = dict(zip(SIZES, (10.81, 10.11, 9.53, 9.24, 9.08, 8.95), strict=True))
LIVES = (100, 200, 300, 400, 500)
FIGURE_11 = experiment(
    "fig11",
    "Figure 11, section 3.8.1",
    "Churn: nodes come and go with new interests; messages per join or leave",
    run_churn,
    [{"nodes": 250, "life_s": 100, "duration_s": 200}],
    [{"nodes": nodes, "life_s": life_s, "duration_s": 1000} for nodes in (1250, 2500) for life_s in LIVES],
    [
        Claim(
            "fig11/connected", "section 3.8", "all topics connected in every snapshot", 0.0, 0.0, worst("partitioned")
        ),
        *(
            Claim(
                f"fig11/degree-{nodes}",
                "Figure 11",
                f"average degree {expected} with {nodes} nodes, whatever the churn",
                expected,
                1.3,
                worst("degree", nodes=nodes),
            )
            for nodes, expected in ((1250, 13.0), (2500, 12.0))
        ),
        *(
            Claim(
                f"fig11/messages-{nodes}",
                "section 3.8.1",
                f"{expected} control messages per join or leave ({nodes} nodes)",
                expected,
                8.0,
                worst("messages", nodes=nodes),
                "messages",
                "without refused DISCONNECTs, which depend on how often heartbeats tell a new degree",
            )
            for nodes, expected in ((1250, 38.0), (2500, 34.0))
        ),
    ],
    [Plot("Degree under churn", "life_s", "degree", "nodes")],
)

OTHERS = {
    (10, 0): (10.08, 10.07, 10.08, 10.09, 10.08, 10.08),
    (9, 1): (10.22, 10.22, 10.20, 10.22, 10.21, 10.22),
    (8, 2): (10.20, 10.19, 10.19, 10.20, 10.20, 10.20),
    (7, 3): (10.21, 10.21, 10.20, 10.22, 10.21, 10.21),
    (0, 10): (10.82, 10.54, 10.34, 10.12, 10.08, 10.11),
    (20, 0): (20.04, 20.04, 20.04, 20.04, 20.03, 20.04),
}


def similar(nodes: int, close: int, anyhow: int) -> Setting:
    return {"nodes": nodes, "links": "similarity", "k_greedy": close, "k_random": anyhow}


FIGURE_12_13 = experiment(
    "fig12",
    "Figures 12, 13, 14",
    "SpiderCast against similarity(x, y), random(y) and a ring per topic",
    run_overlay,
    [
        *({"nodes": nodes, "links": kind} for nodes in SMALL for kind in ("spidercast", "ring-per-topic")),
        *(similar(nodes, *xy) for nodes in SMALL for xy in ((10, 0), (0, 10))),
    ],
    [
        *({"nodes": nodes, "links": kind} for nodes in SIZES for kind in ("spidercast", "ring-per-topic")),
        *(similar(nodes, *xy) for nodes in SIZES for xy in OTHERS),
    ],
    [
        *(
            Claim(
                f"fig12/degree-{nodes}",
                "Figure 12",
                f"average degree {expected} with (3,0) at {nodes} nodes",
                expected,
                0.03 * expected,
                value("degree", nodes=nodes, links="spidercast"),
            )
            for nodes, expected in FIGURE_12.items()
        ),
        *(
            Claim(
                f"fig12/similarity-{x}-{y}-{nodes}",
                "Figure 12",
                f"similarity({x}, {y}) has average degree {expected} at {nodes} nodes",
                expected,
                0.05 * expected,
                value("degree", nodes=nodes, links="similarity", k_greedy=x, k_random=y),
            )
            for (x, y), degrees in OTHERS.items()
            for nodes, expected in ((SIZES[0], degrees[0]), (SIZES[-1], degrees[-1]))
        ),
        Claim(
            "fig13/spidercast",
            "Figure 13",
            "SpiderCast has one component per topic",
            0.0,
            0.0,
            worst("partitioned", links="spidercast"),
        ),
        *(
            Claim(
                f"fig13/components-{x}-{y}",
                "Figure 13",
                f"similarity({x}, {y}) has more than 100 components, more with more nodes",
                1.0,
                0.0,
                holds(
                    "components",
                    "nodes",
                    lambda values: values[0] > 100 and values[-1] > values[0],
                    links="similarity",
                    k_greedy=x,
                    k_random=y,
                ),
            )
            for x, y in OTHERS
        ),
        Claim(
            "fig13/random-links-hurt",
            "section 3.9.1",
            "random links in place of similarity links add components",
            1.0,
            0.0,
            lambda rows: [
                float(rising([first, second, third]))
                for first, second, third in zip(
                    *(
                        per_seed(rows, "components", nodes=10000, links="similarity", k_greedy=x, k_random=y)
                        for x, y in ((9, 1), (8, 2), (7, 3))
                    ),
                    strict=True,
                )
            ],
        ),
        *(
            Claim(
                f"fig14/ring-{nodes}",
                "Figure 14",
                f"a ring per topic needs {expected} % more links at {nodes} nodes",
                expected,
                8.0,
                ratio(
                    "degree",
                    {"nodes": nodes, "links": "ring-per-topic"},
                    {"nodes": nodes, "links": "spidercast"},
                ),
                "%",
            )
            for nodes, expected in ((SIZES[0], 51.0), (SIZES[-1], 82.0))
        ),
    ],
    [Plot("Degree by overlay", "nodes", "degree", "links"), Plot("Components", "nodes", "components", "links")],
)

KEPT = ("spidercast", "lean", "two-connected", "greedy-merge")
BEYOND = experiment(
    "beyond",
    "beyond the paper",
    "Fewer links at equal guarantees: our overlays, greedy merge, and the bounds",
    run_overlay,
    [{"nodes": 300, "links": kind, "crashes": True, "bounds": True} for kind in KEPT],
    [
        {"nodes": nodes, "links": kind, "crashes": True, "bounds": True, "diameter": True}
        for nodes in (1000, 4000, 10000)
        for kind in KEPT
    ],
    [
        Claim(
            "beyond/lean",
            "ours",
            "lean: connected and covered three times with at least 10 % fewer links than SpiderCast (4,000 nodes)",
            -15.0,
            5.0,
            ratio("degree", {"nodes": 4000, "links": "lean"}, {"nodes": 4000, "links": "spidercast"}),
            "%",
        ),
        Claim(
            "beyond/lean-connected", "ours", "lean: all topics connected", 0.0, 0.0, worst("partitioned", links="lean")
        ),
        Claim(
            "beyond/lean-crashes",
            "ours",
            "lean: when 10 % of the nodes crash at once, at most 1 membership in 1,000 is cut off, as with SpiderCast",
            1.0,
            0.0,
            lambda rows: [
                float(left <= 1.0 and right <= 1.0)
                for left, right in zip(
                    per_seed(rows, "cut_off_10", nodes=4000, links="lean"),
                    per_seed(rows, "cut_off_10", nodes=4000, links="spidercast"),
                    strict=True,
                )
            ],
        ),
        Claim(
            "beyond/two-connected",
            "ours",
            "two-connected: no node's crash cuts any topic, before any repair",
            0.0,
            0.0,
            worst("cut_vertices", links="two-connected"),
        ),
        Claim(
            "beyond/two-connected-degree",
            "ours",
            "two-connected: fewer links than the (3,0) overlay (4,000 nodes)",
            -40.0,
            10.0,
            ratio("degree", {"nodes": 4000, "links": "two-connected"}, {"nodes": 4000, "links": "spidercast"}),
            "%",
        ),
    ],
    [Plot("Degree", "nodes", "degree", "links")],
    full_seeds=2,
)


def off_by_percent(rows: Sequence[Row]) -> list[float]:
    pairs = zip(per_seed(rows, "degree"), per_seed(rows, "bulk_degree"), strict=True)
    return [100 * abs(protocol / bulk - 1) for protocol, bulk in pairs]


PROTOCOL = experiment(
    "protocol",
    "section 3.7 and ours",
    "The protocol with views learned by gossip, against the bulk form",
    run_protocol,
    [{"nodes": 150, "view_share": 0.5, "duration_s": 30}],
    [
        {"nodes": 1000, "view_share": 0.2, "duration_s": 40},
        {"nodes": 10000, "view_share": 0.02, "duration_s": 40},
    ],
    [
        Claim("protocol/degree", "ours", "degree within 3 % of the bulk form's", 0.0, 3.0, off_by_percent, "%"),
        Claim("protocol/connected", "section 3.7", "all topics connected", 0.0, 0.0, worst("partitioned")),
    ],
    full_seeds=1,
)

EXPERIMENTS: tuple[Experiment, ...] = (
    FIGURE_6,
    FIGURE_7,
    FIGURE_8A,
    FIGURE_8B,
    FIGURE_8C,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
    FIGURE_12_13,
    BEYOND,
    PROTOCOL,
)
