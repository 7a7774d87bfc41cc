"""SpiderCast's Figures 7 to 10 as experiments: popularity, scale, list sizes, partial views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2

from coterie.lab import spidercast_sentences as sentences
from coterie.lab.experiment import OURS, Claim, Plot, Point, Row, Sense, by_seed, yes
from coterie.lab.measuring import Measure, Settings, along, each_seed, falling, rising, value, worst
from coterie.lab.spidercast_claims import SIZES, Table, above, capped, experiment, only_ends
from coterie.lab.spidercast_runs import run_lists, run_overlay

KINDS: dict[str, Settings] = {
    "uniform": {"workload": "uniform"},
    "rss": {"workload": "rss"},
    "zipf": {"workload": "zipf", "exponent": 1.0},
    "nyse": {"workload": "nyse"},
}


DIAMETERS = (("uniform", 6.0), ("rss", 6.0), ("zipf", 7.0), ("nyse", 8.0))
# Readings of the overlay whose diameter is told; the text says (3,0), and ties at random.
SHALLOWER: dict[str, Settings] = {
    "31": {"k_random": 1, "reading": "(3,1)"},
    "ties": {"ties": "first", "reading": "ties by node number"},
    "above": {"disconnects": "above-target", "reading": "candidates above their target"},
}


def as_printed(measure: Measure) -> Measure:
    """Of the (3,0) overlays alone."""
    return lambda rows: measure([row for row in rows if "reading" not in row.point])


def off_random(rows: Sequence[Row]) -> list[float]:
    """Per seed: by how many hops a diameter exceeds a random graph's, where that is most."""
    compared = by_seed([row for row in rows if "diameter_rewired" in row.values])
    return [max(row.values["diameter"] - row.values["diameter_rewired"] for row in own) for own in compared]


def by_seed_and_size(rows: Sequence[Row], name: str, verdict: Callable[[Table], bool]) -> list[float]:
    """1.0 for every seed where, at every size, the four distributions' values satisfy the verdict."""
    result = []
    for own in by_seed(rows):
        mine = [row for row in own if "reading" not in row.point]
        tables: list[Table] = [
            {row.point["workload"]: row.values[name] for row in mine if row.point["nodes"] == size}
            for size in sorted({row.point["nodes"] for row in mine}, key=float)
        ]
        result.append(float(all(verdict(table) for table in tables if len(table) == len(KINDS))))
    return result


POPULARITIES: list[Point] = [
    *(
        {**kind, "nodes": nodes, "tdi": 20, "diameter": True, "rewired": nodes == SIZES[-1]}
        for kind in KINDS.values()
        for nodes in SIZES
    ),
    *({**kind, "nodes": SIZES[-1], "diameter": True, **it} for kind in KINDS.values() for it in SHALLOWER.values()),
]
FIGURE_7 = experiment(
    "fig7",
    "Figure 7",
    "Four topic popularities with (3,0)",
    run_overlay,
    POPULARITIES,
    [
        Claim(
            "fig7/connected",
            "section 3.4",
            "all topics connected",
            0.0,
            0.0,
            as_printed(worst("partitioned")),
            "topics",
        ),
        yes(
            "fig7/degree-max",
            "Figure 7(a)",
            "the average degree is less than 12 in all experiments",
            lambda rows: [float(each < 12) for each in as_printed(worst("degree"))(rows)],
        ),
        yes(
            "fig7/order",
            "section 3.4",
            "lowest degree under NYSE, highest under Uniform",
            lambda rows: by_seed_and_size(
                rows,
                "degree",
                lambda table: (
                    min(table, key=table.__getitem__) == "nyse" and max(table, key=table.__getitem__) == "uniform"
                ),
            ),
        ),
        *(
            yes(
                f"fig7/falls-{name}",
                "section 3.4",
                f"degree falls as nodes are added ({name})",
                as_printed(along("degree", "nodes", falling, workload=name)),
            )
            for name in KINDS
        ),
        *(
            Claim(
                f"fig7/diameter-{name}",
                "section 3.4",
                f"maximum topic diameter {expected} ({name})",
                expected,
                1.0,
                as_printed(worst("diameter", workload=name)),
                "hops",
                "ours is exact over all topics; random graphs whose members have as many links in the topic are no "
                "shallower, so it is not the choice of links. (3,1), with more of them, has the paper's numbers",
            )
            for name, expected in DIAMETERS
        ),
        *(
            Claim(
                f"fig7/distance-{name}",
                "section 3.4",
                f"read as a mean: the mean distance inside the widest topic is {expected} ({name})",
                expected,
                1.0,
                as_printed(worst("distance", workload=name)),
                "hops",
                "of all readings tried (diameter, its mean over topics, radius, mean distance) the nearest",
                reads=f"fig7/diameter-{name}",
            )
            for name, expected in DIAMETERS
        ),
        *(
            Claim(
                f"fig7/diameter-{name}-{mark}",
                "section 3.4",
                f"maximum topic diameter {expected} ({name}), {setting['reading']}",
                expected,
                1.0,
                value("diameter", workload=name, reading=str(setting["reading"])),
                "hops",
                reads=f"fig7/diameter-{name}",
            )
            for name, expected in DIAMETERS
            for mark, setting in SHALLOWER.items()
        ),
        Claim(
            "fig7/shallow",
            OURS,
            "topics are as shallow as random graphs with the same degrees (10,000 nodes)",
            0.0,
            1.0,
            off_random,
            "hops",
        ),
        yes(
            "fig7/tdi",
            "Figure 7(b)",
            "the higher tdi(20), the lower the degree, for each pair of distributions",
            lambda rows: [
                float(sorted(degree, key=degree.__getitem__) == sorted(tdi, key=lambda kind: -tdi[kind]))
                for own in by_seed(rows)
                for degree, tdi in [_largest_tables(own)]
            ],
        ),
    ],
    [
        Plot("Figure 7(a): degree by popularity", "nodes", "degree", "workload", only={"reading": None}),
        Plot("Figure 7(b): tdi(20)", "nodes", "tdi", "workload", y_label="%", only={"reading": None}),
        Plot(
            "Section 3.4: largest topic diameter",
            "nodes",
            "diameter",
            "workload",
            figure="fig7-diameter",
            only={"reading": None},
        ),
    ],
    small=capped(2000),
    quick_seeds=5,
    quick=only_ends(POPULARITIES),
)


def _largest_tables(rows: Sequence[Row]) -> tuple[Table, Table]:
    largest = max(float(row.point["nodes"]) for row in rows)
    mine = [row for row in rows if row.point["nodes"] == largest and "tdi" in row.values]
    degree: Table = {row.point["workload"]: row.values["degree"] for row in mine}
    tdi: Table = {row.point["workload"]: row.values["tdi"] for row in mine}
    return degree, tdi


def _largest_over_mean(name: str) -> Measure:
    """Per seed: the largest ratio of a value to the mean degree, ties at random."""
    return each_seed(lambda own: max(row.values[name] / row.values["degree"] for row in own), ties="random")


GROWING: list[Point] = [
    {"nodes": nodes, "topics": topics, "ties": ties, "tdi": 20, "diameter": True}
    for ties in ("random", "first")
    for topics in (100, 200)
    for nodes in SIZES
]
FIGURE_8A = experiment(
    "fig8a",
    "Figure 8(a), (d)",
    "More nodes: 100 and 200 topics, 10 subscriptions",
    run_overlay,
    GROWING,
    [
        *(
            yes(
                f"fig8a/falls-{topics}",
                "section 3.5.1",
                f"degree falls with nodes ({topics} topics)",
                along("degree", "nodes", falling, topics=topics, ties="random"),
            )
            for topics in (100, 200)
        ),
        yes(
            "fig8a/topics",
            "section 3.5.1",
            "twice the topics raise the degree moderately: by less than half, at 10,000 nodes",
            lambda rows: [
                float(0 < more < 50)
                for more in above(
                    "degree",
                    {"nodes": 10000, "topics": 200, "ties": "random"},
                    {"nodes": 10000, "topics": 100, "ties": "random"},
                )(rows)
            ],
        ),
        *(
            yes(
                f"fig8d/tdi-{topics}",
                "Figure 8(d)",
                f"tdi(20) rises with nodes ({topics} topics)",
                along("tdi", "nodes", rising, topics=topics, ties="random"),
            )
            for topics in (100, 200)
        ),
        *(
            Claim(
                f"fig8a/max-{topics}{'' if ties == 'random' else '-ties'}",
                "section 3.5.1",
                f"maximum degree {expected} ({topics} topics{'' if ties == 'random' else ', ties by node number'})",
                expected,
                6.0,
                worst("degree_max", topics=topics, ties=ties),
                because="ties at random spread links evenly; ties by node number fill the lowest nodes to "
                "L^max + Margin = 35, at 4 % more links in all",
                reads="" if ties == "random" else f"fig8a/max-{topics}",
            )
            for topics, expected in ((100, 32.0), (200, 31.0))
            for ties in ("random", "first")
        ),
        yes(
            "fig8d/topics",
            "Figure 8(d)",
            "twice the topics reduce tdi(20), at 10,000 nodes",
            along("tdi", "topics", falling, nodes=10000, ties="random"),
        ),
        Claim(
            "fig8a/max-over-mean",
            "section 3.5.1",
            "the maximum degree is roughly 2 or 3 times the average one, where that is most",
            2.5,
            0.75,
            _largest_over_mean("degree_max"),
        ),
        yes(
            "fig8a/fair",
            "section 3.5.1",
            "most nodes have roughly the same degree: its standard deviation is below a quarter of the mean",
            lambda rows: [float(each < 0.25) for each in _largest_over_mean("degree_std")(rows)],
        ),
        yes(
            "fig8a/logarithmic",
            "section 3.5.1",
            "the diameter grows logarithmically: ten times the nodes add at most log2(10) hops (100 topics)",
            along("diameter", "nodes", lambda v: v[-1] - v[0] <= log2(10), topics=100, ties="random"),
        ),
        Claim(
            "fig8a/diameter",
            "section 3.5.1",
            "maximal topic diameter 6",
            6.0,
            1.0,
            worst("diameter", ties="random"),
            "hops",
            "as in Figure 7: random graphs with as many links inside a topic are no shallower",
        ),
        *sentences.NODES,
    ],
    [
        Plot("Figure 8(a): degree by nodes, 100 and 200 topics", "nodes", "degree", "topics", only={"ties": "random"}),
        Plot("Figure 8(d): tdi(20) by nodes", "nodes", "tdi", "topics", y_label="%", only={"ties": "random"}),
    ],
    small=capped(2000),
    quick_seeds=5,
    quick=only_ends(GROWING),
)

TOPICS = (100, 200, 400, 600, 800, 1000)
MORE_TOPICS: list[Point] = [
    {"nodes": 10000, "topics": topics, "subscriptions": 20, "tdi": 40, "diameter": True} for topics in TOPICS
]
FIGURE_8B = experiment(
    "fig8b",
    "Figure 8(b), (e)",
    "More topics: 10,000 nodes, 20 subscriptions",
    run_overlay,
    MORE_TOPICS,
    [
        yes("fig8b/rises", "section 3.5.2", "degree rises with topics", along("degree", "topics", rising)),
        yes("fig8b/tdi", "Figure 8(e)", "tdi(40) falls with topics", along("tdi", "topics", falling)),
        yes(
            "fig8b/moderate",
            "section 3.5.2",
            "the rise is moderate: ten times the topics, less than three times the degree",
            lambda rows: [float(each < 200) for each in above("degree", {"topics": 1000}, {"topics": 100})(rows)],
        ),
        yes(
            "fig8b/diameter",
            "section 3.5.2",
            "the maximum topic diameter falls as topics grow from 100 to 1000",
            along("diameter", "topics", lambda values: values[-1] < values[0]),
        ),
        *sentences.TOPICS,
    ],
    [
        Plot("Figure 8(b): degree by topics, 20 subscriptions", "topics", "degree"),
        Plot("Figure 8(e): tdi(40) by topics", "topics", "tdi", y_label="%"),
        Plot("Section 3.5.2: largest topic diameter", "topics", "diameter", figure="fig8b-diameter"),
    ],
    small=capped(2500),
    quick=only_ends(MORE_TOPICS, "topics", (100, 400, 1000)),
)

SUBSCRIPTIONS = (10, 15, 20, 30, 40)
FIGURE_8C = experiment(
    "fig8c",
    "Figure 8(c), (f)",
    "More subscriptions per node, 100 topics",
    run_overlay,
    [{"nodes": nodes, "subscriptions": each, "tdi": 2 * each} for nodes in (1000, 10000) for each in SUBSCRIPTIONS],
    [
        yes(
            "fig8c/shape",
            "section 3.5.3",
            "degree rises from 10 to 20 subscriptions and falls from 20 to 40 (10,000 nodes)",
            along("degree", "subscriptions", lambda v: rising(v[:3]) and falling(v[2:]), nodes=10000),
        ),
        yes(
            "fig8c/tdi",
            "Figure 8(f)",
            "tdi(2d) falls until 20 subscriptions and rises afterwards",
            along("tdi", "subscriptions", lambda v: falling(v[:3]) and rising(v[2:]), nodes=10000),
            because="no overlay enters into tdi, only the lists: of lists of RSS and of uniform popularity the nearest "
            "overlap least at 15 of 100 topics or before, by tdi(d) as by tdi(2d). The degree turns at 20 nevertheless",
        ),
        yes(
            "fig8c/tdi-1000",
            "Figure 8(f)",
            "tdi(2d) falls until 20 subscriptions and rises afterwards, 1,000 nodes",
            along("tdi", "subscriptions", lambda v: falling(v[:3]) and rising(v[2:]), nodes=1000),
            reads="fig8c/tdi",
        ),
        yes(
            "fig8c/tdi-until-30",
            "Figure 8(f)",
            "tdi(2d) is higher at 40 and at 30 subscriptions than at 20, and lower at 15 than at 10 (10,000 nodes)",
            along("tdi", "subscriptions", lambda v: v[1] < v[0] and v[2] < v[3] < v[4], nodes=10000),
            reads="fig8c/tdi",
        ),
    ],
    [
        Plot("Figure 8(c): degree by subscriptions, 100 topics", "subscriptions", "degree", "nodes"),
        Plot("Figure 8(f): tdi(2d) by subscriptions d", "subscriptions", "tdi", "nodes", y_label="%"),
    ],
    small=capped(2500),
)

LISTS = ((20, 0), (10, 30), (40, 0), (10, 70))
FIGURE_9 = experiment(
    "fig9",
    "Figure 9",
    "Lists of different sizes around the same average",
    run_lists,
    [{"nodes": 10000, "subscriptions": low, "subscriptions_max": high} for low, high in LISTS],
    [
        *(
            Claim(
                f"fig9/{average}",
                "section 3.6",
                f"sizes in [10:{high}] instead of {average}: negligible effect on the average degree",
                0.0,
                10.0,
                above("degree", {"subscriptions": 10, "subscriptions_max": high}, {"subscriptions": average}),
                "%",
            )
            for average, high in ((20, 30), (40, 70))
        ),
        *sentences.LISTS,
    ],
    [
        Plot(
            "Figure 9: degree by sizes of lists (of d, or from 10 to the second number)",
            "subscriptions",
            {"mean degree,": "degree", "standard deviation,": "degree_std", "largest degree,": "degree_max"},
            "subscriptions_max",
        ),
    ],
    small=capped(1000),
)

SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
VIEWS: list[Point] = [{"nodes": nodes, "view_share": share} for nodes in (4000, 8000) for share in SHARES]
FIGURE_10 = experiment(
    "fig10",
    "Figure 10",
    "Views of 5 to 100 % of the nodes",
    run_overlay,
    VIEWS,
    [
        Claim(
            "fig10/connected", "section 3.7", "all topics connected at every view size", 0.0, 0.0, worst("partitioned")
        ),
        *(
            Claim(
                f"fig10/effect-{nodes}",
                "Figure 10",
                f"views of 5 % have a small effect on the degree ({nodes} nodes): below 15 %",
                15.0,
                5.0,
                above("degree", {"nodes": nodes, "view_share": 0.05}, {"nodes": nodes, "view_share": 1.0}),
                "%",
                "fewer candidates overlap less: a greedy choice from 200 cannot be as good as one from 4,000",
                Sense.AT_MOST,
            )
            for nodes in (4000, 8000)
        ),
        *(
            Claim(
                f"fig10/effect-{nodes}-{mark}",
                "Figure 10",
                f"views of {100 * share:g} % have a small effect on the degree ({nodes} nodes): {told}",
                most,
                5.0,
                above("degree", {"nodes": nodes, "view_share": share}, {"nodes": nodes, "view_share": 1.0}),
                "%",
                sense=Sense.AT_MOST,
                reads=f"fig10/effect-{nodes}",
            )
            for nodes in (4000, 8000)
            for mark, share, most, told in (
                ("25", 0.25, 15.0, "below 15 %"),
                ("word", 0.05, 86.0, "small as section 3.3 uses the word, of 7 links that become 13"),
            )
        ),
    ],
    [Plot("Figure 10: degree by size of the view", "view_share", "degree", "nodes", x_label="share of the nodes")],
    quick=only_ends(VIEWS, "view_share", (0.05, 0.25, 1)),
)
