"""Magnet's figures, sensitivities and limits as experiments."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import OURS, Claim, Experiment, Plot, Point, Sense, per_seed, shrunk, yes
from coterie.lab.magnet_beyond import BEYOND, LETTER
from coterie.lab.magnet_claims import always_saves
from coterie.lab.magnet_measures import (
    better_with_rates,
    by_popularity,
    compare,
    crash_a_tenth,
    falls,
    holds,
    ours_is_better,
    popularity_exponent,
    rises,
    value,
)
from coterie.lab.magnet_timeline import TIMELINE

PAPER = "magnet"
MODES = ((1, 10), (2, 20), (3, 30), (5, 50), (1, 5), (2, 10), (3, 15), (5, 25))
SIZES: Point = {"nodes": 10_000, "topics": 1000, "subscriptions": 50}
A_FIFTH = shrunk(nodes=5, topics=5, subscriptions=5)  # the paper's sizes for the quick form
FEWER = shrunk(nodes=5)
SMALL: Point = {"nodes": 600, "topics": 200, "subscriptions": 12}


def _modal(sizes: Point, modes: Sequence[tuple[int, int]] = MODES) -> list[Point]:
    return [
        {"workload": "multimodal", "modes": many, "modes_per_peer": few, "rates": rates, **sizes}
        for few, many in modes
        for rates in ("constant", "power-law")
    ]


FIGURE_3 = Experiment(
    id="magnet/fig3",
    paper=PAPER,
    where="Figure 3",
    title="Multi-modal: saving in uninterested relays by correlation",
    run=compare,
    quick=(),
    full=_modal(SIZES),
    small=A_FIFTH,
    full_seeds=3,
    claims=(
        Claim(
            "fig3/most-correlated",
            "Figure 3(a), section 1",
            "about 80 % saved with one category of ten",
            0.8,
            0.08,
            value("saving", modes=10, modes_per_peer=1, rates="constant"),
        ),
        Claim(
            "fig3/least-correlated",
            "Figure 3(a), section 1",
            "about 20 % saved with 5 categories of 25",
            0.2,
            0.08,
            value("saving", modes=25, modes_per_peer=5, rates="constant"),
        ),
        yes(
            "fig3/always",
            "Figure 3",
            "something is saved under every correlation, with both publication rates",
            always_saves,
        ),
        yes(
            "fig3/rates",
            "Figure 3(b), section 4.2",
            "more is saved with power-law publication rates than with equal ones",
            better_with_rates,
        ),
    ),
    plots=(
        Plot("Saving by number of categories", "modes", "saving", "rates", y_label="saving in relays", figure="fig3"),
    ),
)

_ALPHAS: Point = {"workload": "multimodal", "modes": 5, "modes_per_peer": 1, "subscriptions": 18}
FIGURE_4A = Experiment(
    id="magnet/fig4a",
    paper=PAPER,
    where="Figure 4(a)",
    title="Multi-modal: steeper popularity",
    run=compare,
    quick=(),
    small=FEWER,
    full=[{**_ALPHAS, "nodes": 5000, "exponent": alpha} for alpha in (0.5, 1.0, 1.5, 2.0)],
    full_seeds=3,
    claims=(
        yes(
            "fig4a/rises",
            "Figure 4(a)",
            "the saving rises with alpha",
            holds(rises, "saving", along="exponent"),
        ),
    ),
    plots=(Plot("Saving by popularity exponent", "exponent", "saving"),),
)

_SIZES: Point = {"workload": "multimodal", "modes": 5, "modes_per_peer": 1, "exponent": 0.75}
FIGURE_4B = Experiment(
    id="magnet/fig4b",
    paper=PAPER,
    where="Figure 4(b)",
    title="Multi-modal: subscription sizes",
    run=compare,
    quick=(),
    small=FEWER,
    full=[
        {**_SIZES, "nodes": 5000, "subscriptions": size, "rates": rates}
        for size in (10, 18, 30, 50, 80)
        for rates in ("constant", "power-law")
    ],
    full_seeds=3,
    claims=(
        yes(
            "fig4b/always",
            "Figure 4(b)",
            "something is saved at every subscription size, with equal and with power-law rates",
            holds(lambda values: min(values) > 0, "saving", along="subscriptions"),
        ),
    ),
    plots=(Plot("Saving by subscriptions of a peer", "subscriptions", "saving", "rates"),),
)

_POPULAR: Point = {"workload": "multimodal", "rates": "power-law", **SIZES}
FIGURE_5 = Experiment(
    id="magnet/fig5",
    paper=PAPER,
    where="Figure 5",
    title="Multi-modal: share of copies sent to the uninterested, most popular topics first",
    run=by_popularity,
    quick=(),
    small=A_FIFTH,
    full=[
        {**_POPULAR, "modes": 10, "modes_per_peer": 1},
        {**_POPULAR, "modes": 25, "modes_per_peer": 5},
    ],
    full_seeds=3,
    claims=(
        Claim(
            "fig5/popular-1-10",
            "Figure 5(a)",
            "almost no overhead on the most popular tenth of the topics, one category of ten",
            0.0,
            0.02,
            value("magnet_first_tenth", modes=10),
        ),
        Claim(
            "fig5/popular-5-25",
            "Figure 5(b)",
            "almost no overhead on the most popular tenth of the topics, 5 categories of 25",
            0.0,
            0.05,
            value("magnet_first_tenth", modes=25),
            because="with five categories of 25 even popular topics are spread over the ring",
        ),
    ),
)

FIGURE_6 = Experiment(
    id="magnet/fig6",
    paper=PAPER,
    where="Figure 6",
    title="Spatial: saving by subscriptions and network size",
    run=compare,
    quick=(),
    small=FEWER,
    full=[
        {"workload": "spatial", "nodes": nodes, "subscriptions": t}
        for nodes in (1000, 3000, 10_000)
        for t in (8, 16, 32)
    ],
    full_seeds=3,
    claims=(
        Claim(
            "fig6/t32",
            "Figure 6",
            "almost 80 % saved with 32 subscriptions and 10,000 nodes",
            0.8,
            0.06,
            value("saving", nodes=10_000, subscriptions=32),
        ),
        yes(
            "fig6/rises-with-t",
            "Figure 6",
            "the saving rises with the subscriptions of a peer (1,000 nodes)",
            holds(rises, "saving", along="subscriptions", nodes=1000),
        ),
        yes(
            "fig6/rises-with-n",
            "Figure 6",
            "the saving rises with the network (32 subscriptions)",
            holds(rises, "saving", along="nodes", subscriptions=32),
        ),
    ),
    plots=(Plot("Saving by network size", "nodes", "saving", "subscriptions", log_x=True, figure="fig6"),),
)

FIGURE_7 = Experiment(
    id="magnet/fig7",
    paper=PAPER,
    where="Figure 7",
    title="Hierarchical: topic popularity",
    run=popularity_exponent,
    quick=[{"workload": "hierarchical"}],
    full=[{"workload": "hierarchical"}],
    full_seeds=3,
    claims=(
        Claim(
            "fig7/power-law",
            "Figure 7",
            "the complementary distribution of popularity follows a line of slope 1.68 on the doubly logarithmic plot",
            1.68,
            0.2,
            value("slope"),
            because="the initialisation of the model contradicts itself; here every peer has one home topic. The slope "
            "is that of a line through the plot; the likelihood exponent of the density is far from any such line",
        ),
    ),
)

_TREE: Point = {"workload": "hierarchical", "nodes": 2**14, "topics": 2**14}
FIGURE_8 = Experiment(
    id="magnet/fig8",
    paper=PAPER,
    where="Figure 8",
    title="Hierarchical: homophily, initial fraction and subscription size",
    run=compare,
    quick=(),
    small=shrunk(nodes=8, topics=8),
    full=[
        *(
            {**_TREE, "homophily": lam, "initial_fraction": fraction, "subscriptions": 16}
            for lam in (0.5, 1.0, 2.0, 3.0)
            for fraction in (0.1, 0.3, 0.5)
        ),
        *({**_TREE, "homophily": 2.0, "initial_fraction": 0.1, "subscriptions": size} for size in (8, 32, 64)),
    ],
    full_seeds=3,
    claims=(
        yes(
            "fig8/range",
            "section 1, Figure 8(a)",
            "between 20 and 60 % saved with initFrac 10 % and Z = 16",
            holds(
                lambda values: 0.2 <= min(values) <= max(values) <= 0.6,
                "saving",
                along="homophily",
                initial_fraction=0.1,
                subscriptions=16,
            ),
        ),
        yes(
            "fig8/homophily",
            "Figure 8(a)",
            "the saving rises with lambda",
            holds(rises, "saving", along="homophily", initial_fraction=0.1, subscriptions=16),
        ),
        yes(
            "fig8/initial",
            "Figure 8(a)",
            "the saving falls with initFrac (lambda = 2)",
            holds(falls, "saving", along="initial_fraction", homophily=2.0, subscriptions=16),
        ),
        yes(
            "fig8/size",
            "Figure 8(b)",
            "the saving falls with Z (lambda = 2, initFrac 10 %)",
            holds(falls, "saving", along="subscriptions", homophily=2.0, initial_fraction=0.1),
        ),
    ),
    plots=(Plot("Saving by homophily", "homophily", "saving", "initial_fraction"),),
)

_PAGES: Point = {"links": 12, "rates": "constant"}
WIKIPEDIA = Experiment(
    id="magnet/wikipedia",
    paper=PAPER,
    where="section 4.5",
    title="Wikipedia: pages and their editors",
    run=compare,
    quick=[{"workload": "wiki", **_PAGES}, {"workload": "wiki24h", **_PAGES, "topics": 3000, "selection": "random"}],
    full=[
        {"workload": "wiki", **_PAGES},
        {"workload": "wiki", "links": 12, "rates": "measured"},
        {"workload": "wiki24h", **_PAGES, "topics": 3000, "selection": "random"},
        {"workload": "wiki24h", **_PAGES, "topics": 3000, "selection": "popular"},
    ],
    full_seeds=3,
    claims=(
        Claim(
            "wikipedia/month",
            "section 4.5",
            "the strawman's trees hold 77 % more uninterested peers (1,000 pages and 8,227 editors of a month)",
            0.77,
            0.15,
            value("strawman_extra", workload="wiki", rates="constant"),
            because="a month of edits rather than six years, and more people to a page: 18 editors, not 5.4",
        ),
        Claim(
            "wikipedia/day",
            "section 4.5",
            "the same with 3,000 random pages of one day in 51 languages",
            0.77,
            0.15,
            value("strawman_extra", workload="wiki24h", selection="random"),
            reads="wikipedia/month",
            because="in a day almost every page has a single editor, so a tree is a path and no order shortens it",
        ),
    ),
)

UNCORRELATED_SIZES = (2000, 4000, 10_000)
UNCORRELATED = Experiment(
    id="magnet/uncorrelated",
    paper=PAPER,
    where="section 1",
    title="Uncorrelated interests",
    run=compare,
    quick=(),
    full=[{"workload": "uncorrelated", "nodes": nodes} for nodes in UNCORRELATED_SIZES],
    small=shrunk(nodes=2),
    full_seeds=3,
    claims=(
        yes(
            "uncorrelated/never-worse",
            "section 1",
            "never worse than the strawman, at 2,000, 4,000 and 10,000 nodes",
            holds(lambda saved: min(saved) >= 0, "saving", along="nodes"),
        ),
        *(
            Claim(
                f"uncorrelated/scribe-{nodes}",
                "section 1",
                f"the same against Scribe-style trees, which grow from the subscribers up: the saving, {nodes} nodes",
                0.0,
                0.05,
                value("saving_to_scribe", nodes=nodes),
                because="Scribe's paths to a root share more than Magnet's from it where nothing is alike; the text's "
                "strawman grows its trees as Magnet does",
                sense=Sense.AT_LEAST,
                reads="uncorrelated/never-worse",
            )
            for nodes in UNCORRELATED_SIZES
        ),
    ),
)


def _varied(base: Point, changes: Sequence[Point]) -> list[Point]:
    usual: Point = {
        "samples": 10,
        "links": 19,
        "choices": 1,
        "rounds": 0,
        "median_samples": 0,
        "direction": "clockwise",
    }
    return [{**base, **usual, **change} for change in changes]


_CHANGES: list[Point] = [
    *({"samples": k} for k in (1, 3, 10, 30, 100)),
    *({"links": links} for links in (10, 14, 28)),
    {"choices": 2},
    {"rounds": 1},
    {"rounds": 3},
    {"median_samples": 5},
    {"direction": "either"},
]
SENSITIVITY = Experiment(
    id="magnet/sensitivity",
    paper=PAPER,
    where="sections 2.2, 3.2, 4",
    title="Samples, links, power of two choices, rejoining, sampled medians, routing direction",
    run=compare,
    quick=_varied(
        {"workload": "multimodal", **SMALL, "modes": 10, "modes_per_peer": 1}, [{"samples": 1}, {"samples": 10}]
    ),
    full=[
        *_varied({"workload": "multimodal", "nodes": 5000, "modes": 10, "modes_per_peer": 1}, _CHANGES),
        *_varied({"workload": "multimodal", "nodes": 5000, "modes": 25, "modes_per_peer": 5}, _CHANGES),
    ],
    full_seeds=3,
    claims=(
        Claim(
            "sensitivity/few-samples",
            "section 1",
            "one sample for each topic is nearly as good as ten (one category of ten)",
            0.0,
            0.05,
            lambda rows: [
                ten - one
                for one, ten in zip(
                    per_seed(rows, "saving", samples=1, modes=10),
                    per_seed(
                        rows,
                        "saving",
                        **{"samples": 10, "modes": 10, "links": 19, "choices": 1, "rounds": 0},
                        median_samples=0,
                        direction="clockwise",
                    ),
                    strict=True,
                )
            ],
        ),
    ),
)

_LIMIT: Point = {"workload": "multimodal", "nodes": 4000, "modes_per_peer": 1, "modes": 10}
LIMITS = Experiment(
    id="magnet/limits",
    paper=PAPER,
    where="section 3.2",
    title="Orders of the ring by somebody who sees everything",
    run=compare,
    quick=[{**_LIMIT, **SMALL, "ordering": name} for name in ("magnet", "likeness")],
    full=[
        *({**_LIMIT, "ordering": name} for name in ("magnet", "linkage", "spectral", "bisection", "likeness")),
        *(
            {**_LIMIT, "modes_per_peer": 5, "modes": 25, "ordering": name}
            for name in ("magnet", "linkage", "spectral", "bisection", "likeness")
        ),
        *(
            {"workload": "spatial", "nodes": 4000, "ordering": name}
            for name in ("magnet", "linkage", "spectral", "bisection", "likeness", "hilbert")
        ),
    ],
    full_seeds=3,
    claims=(
        yes(
            "limits/ours",
            OURS,
            "the order by likeness saves more than Magnet's own on every workload",
            ours_is_better,
        ),
    ),
)

_CRASH: Point = {"workload": "multimodal", "modes": 10, "modes_per_peer": 1, "near": 3, "system": "magnet"}
REPAIR = Experiment(
    id="magnet/repair",
    paper=PAPER,
    where="section 3.3",
    title="A tenth of the nodes crashes",
    run=crash_a_tenth,
    quick=[{**_CRASH, "nodes": 80, "topics": 30, "subscriptions": 3}],
    full=[
        {**_CRASH, "nodes": 500, "topics": 100, "subscriptions": 8, "system": name}
        for name in ("magnet", "interest-ring", "magnet-uniform")
    ],
    full_seeds=3,
    claims=(
        Claim(
            "repair/heals",
            "section 3.3",
            "after the trees have healed, nothing that is published is missed",
            0.0,
            0.0,
            value("missed_share"),
        ),
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    FIGURE_3,
    FIGURE_4A,
    FIGURE_4B,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    WIKIPEDIA,
    UNCORRELATED,
    SENSITIVITY,
    LIMITS,
    REPAIR,
    TIMELINE,
    LETTER,
    BEYOND,
)
