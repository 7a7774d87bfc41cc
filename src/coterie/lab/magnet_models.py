"""Magnet on hierarchical, recorded and uncorrelated interests as experiments."""

from __future__ import annotations

from coterie.lab.experiment import Claim, Experiment, Plot, Point, Sense, per_seed, shrunk, yes
from coterie.lab.magnet_measures import POPULARITIES, compare, falls, popularity_exponent, rises
from coterie.lab.measuring import along, throughout, value

PAPER = "magnet"

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
        Claim(
            "fig7/power-law-likelihood",
            "Figure 7",
            "the same, as the exponent of greatest likelihood of the density, less 1",
            1.68,
            0.2,
            lambda rows: [found - 1 for found in per_seed(rows, "likelihood_exponent")],
            reads="fig7/power-law",
        ),
        Claim(
            "fig7/power-law-density",
            "Figure 7",
            "the same, if 1.68 is the exponent of the density: that of greatest likelihood",
            1.68,
            0.2,
            value("likelihood_exponent"),
            reads="fig7/power-law",
        ),
    ),
    plots=(
        Plot(
            "Figure 7: topics with so many subscribers or more",
            None,
            {f"share of the topics @ {size}": f"reached_{size}" for size in POPULARITIES},
            log_x=True,
            log_y=True,
            x_label="subscribers",
            y_label="share of the topics",
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
            throughout("saving", lambda saved: 0.2 <= saved <= 0.6, initial_fraction=0.1, subscriptions=16),
        ),
        yes(
            "fig8/homophily",
            "Figure 8(a)",
            "the saving rises with lambda",
            along("saving", "homophily", rises, initial_fraction=0.1, subscriptions=16),
        ),
        yes(
            "fig8/initial",
            "Figure 8(a)",
            "the saving falls with initFrac (lambda = 2)",
            along("saving", "initial_fraction", falls, homophily=2.0, subscriptions=16),
        ),
        yes(
            "fig8/size",
            "Figure 8(b)",
            "the saving falls with Z (lambda = 2, initFrac 10 %)",
            along("saving", "subscriptions", falls, homophily=2.0, initial_fraction=0.1),
        ),
    ),
    plots=(
        Plot(
            "Figure 8(a): saving by homophily, Z = 16",
            "homophily",
            "saving",
            "initial_fraction",
            x_label="lambda",
            only={"subscriptions": 16},
        ),
        Plot(
            "Figure 8(b): saving by subscriptions, lambda = 2",
            "subscriptions",
            "saving",
            x_label="Z",
            only={"homophily": 2.0, "initial_fraction": 0.1},
        ),
    ),
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
            throughout("saving", lambda saved: saved >= 0),
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
