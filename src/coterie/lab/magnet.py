"""Magnet's experiments: multi-modal and spatial interests here, the others beside it."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import Claim, Experiment, Plot, Point, Row, per_seed, shrunk, yes
from coterie.lab.magnet_beyond import BEYOND, LETTER
from coterie.lab.magnet_links import FIGURE_2
from coterie.lab.magnet_measures import FIRST_PERCENT, better_with_rates, by_popularity, compare, rises
from coterie.lab.magnet_models import FIGURE_7, FIGURE_8, UNCORRELATED, WIKIPEDIA
from coterie.lab.magnet_sensitivity import LIMITS, REPAIR, SENSITIVITY
from coterie.lab.magnet_timeline import TIMELINE
from coterie.lab.magnet_unknown import UNKNOWN
from coterie.lab.measuring import along, throughout, value

PAPER = "magnet"
MODES = ((1, 10), (2, 20), (3, 30), (5, 50), (1, 5), (2, 10), (3, 15), (5, 25))
SIZES: Point = {"nodes": 10_000, "topics": 1000, "subscriptions": 50}
A_FIFTH = shrunk(nodes=5, topics=5, subscriptions=5)  # the paper's sizes for the quick form
FEWER = shrunk(nodes=5)


def _modal(sizes: Point, modes: Sequence[tuple[int, int]] = MODES) -> list[Point]:
    return [
        {"workload": "multimodal", "modes": many, "modes_per_peer": few, "rates": rates, **sizes}
        for few, many in modes
        for rates in ("constant", "power-law")
    ]


def _adapts(rows: Sequence[Row]) -> list[float]:
    """1 for the seeds in which less is saved the more categories a peer has, at the same share of them."""
    savings: dict[tuple[int, object, float], list[tuple[float, float]]] = {}
    for row in rows:
        few, many = float(row.point["modes_per_peer"]), float(row.point["modes"])
        savings.setdefault((row.seed, row.point["rates"], few / many), []).append((few, row.values["saving"]))
    fails = {key: not rises([saved for _, saved in sorted(found)][::-1]) for key, found in savings.items()}
    seeds = sorted({seed for seed, _, _ in fails})
    return [float(not any(failed for key, failed in fails.items() if key[0] == seed)) for seed in seeds]


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
            throughout("saving", lambda saved: saved > 0),
        ),
        yes(
            "fig3/adaptive",
            "Figure 3, section 6",
            "what is saved follows the correlation: less the more categories a peer has at the same b_p/b_n",
            _adapts,
        ),
        yes(
            "fig3/rates",
            "Figure 3(b), section 4.2",
            "more is saved with power-law publication rates than with equal ones",
            better_with_rates,
        ),
    ),
    plots=[
        Plot(
            f"Figure 3({part}), b_p/b_n = {share:g}, {told}",
            "modes_per_peer",
            "saving",
            y_label="saving in relays",
            x_label="categories of a peer, b_p",
            figure=f"fig3a-{share:g}" if part == "a" else "",
            only=lambda point, rates=rates, share=share: (  # type: ignore[misc]
                point["rates"] == rates and point["modes_per_peer"] == share * float(point["modes"])
            ),
        )
        for part, rates, told in (("a", "constant", "equal rates"), ("b", "power-law", "power-law rates"))
        for share in (0.1, 0.2)
    ],
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
            along("saving", "exponent", rises),
        ),
    ),
    plots=(Plot("Figure 4(a): saving by popularity exponent", "exponent", "saving", x_label="alpha"),),
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
            throughout("saving", lambda saved: saved > 0),
        ),
    ),
    plots=(Plot("Figure 4(b): saving by subscriptions of a peer", "subscriptions", "saving", "rates"),),
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
            value("magnet_first_10", modes=10),
        ),
        Claim(
            "fig5/popular-5-25",
            "Figure 5(b)",
            "almost no overhead on the most popular tenth of the topics, 5 categories of 25",
            0.0,
            0.05,
            value("magnet_first_10", modes=25),
            because='"the first 100 seconds" name no number of topics. The share falls towards the most popular '
            "ones and does not vanish: a peer has five categories and one place, so the peers of a popular topic sit "
            "where their other four put them, which is also why Figure 3 has 20 % for this case",
        ),
        *(
            Claim(
                f"fig5/popular-5-25-{mark}",
                "Figure 5(b)",
                f"almost no overhead on {told}, 5 categories of 25",
                0.0,
                0.05,
                value(f"magnet_first_{percent}", modes=25),
                reads="fig5/popular-5-25",
            )
            for mark, told, percent in (
                ("hundredth", "the most popular hundredth of the topics", 1),
                ("twentieth", "the most popular twentieth of the topics", 5),
            )
        ),
        Claim(
            "fig5/popular-5-25-strawman",
            "Figure 5(b)",
            "almost none of the strawman's overhead on the most popular tenth, 5 categories of 25: share of it",
            0.0,
            0.1,
            lambda rows: [
                ours / theirs
                for ours, theirs in zip(
                    *(per_seed(rows, f"{who}_first_10", modes=25) for who in ("magnet", "strawman")), strict=True
                )
            ],
            reads="fig5/popular-5-25",
        ),
        yes(
            "fig5/reduced",
            "Figure 5",
            "a smaller share of all copies goes to the uninterested than in the strawman, in both cases",
            throughout("reduced", lambda change: change < 0),
        ),
    ),
    plots=[
        Plot(
            f"Figure 5({part}): copies to the uninterested, {told}",
            None,
            {
                f"{name} @ {percent}": f"{who}_first_{percent}"
                for who, name in (("magnet", "Magnet"), ("strawman", "strawman"))
                for percent in FIRST_PERCENT
            },
            x_label="the most popular topics, % of all",
            y_label="share of all copies",
            figure=f"fig5{part}",
            only={"modes": modes},
        )
        for part, modes, told in (("a", 10, "1 category of 10"), ("b", 25, "5 categories of 25"))
    ],
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
            along("saving", "subscriptions", rises, nodes=1000),
        ),
        yes(
            "fig6/rises-with-n",
            "Figure 6",
            "the saving rises with the network (32 subscriptions)",
            along("saving", "nodes", rises, subscriptions=32),
        ),
    ),
    plots=(
        Plot(
            "Figure 6: saving by network size and subscriptions of a peer",
            "nodes",
            "saving",
            "subscriptions",
            log_x=True,
            figure="fig6",
        ),
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    FIGURE_2,
    FIGURE_3,
    FIGURE_4A,
    FIGURE_4B,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    WIKIPEDIA,
    UNCORRELATED,
    UNKNOWN,
    SENSITIVITY,
    LIMITS,
    REPAIR,
    TIMELINE,
    LETTER,
    BEYOND,
)
