"""Sentences of the Magnet paper, on networks small enough to check at once."""

from __future__ import annotations

from coterie.lab.experiment import Row
from coterie.lab.judging import Verdict, judge
from coterie.lab.magnet import EXPERIMENTS, FIGURE_3, UNCORRELATED
from coterie.lab.magnet_beyond import BEYOND, LETTER, beyond, letter_of_algorithm_2
from coterie.lab.magnet_measures import compare
from coterie.lab.magnet_timeline import TIMELINE, timeline
from coterie.systems.magnet.system import SYSTEM
from coterie.workloads import make_workload

CLUSTERED = {"workload": "multimodal", "nodes": 500, "topics": 100, "subscriptions": 10, "modes": 10}


def test_correlated_interests_save_relays() -> None:
    """Section 4.2."""
    assert compare(CLUSTERED, 1)["saving"] > 0.6


def test_less_correlation_saves_less() -> None:
    """Section 4.2: the same topic frequencies, five categories of fifty."""
    scattered = {**CLUSTERED, "modes": 50, "modes_per_peer": 5}
    assert compare(scattered, 1)["saving"] < compare(CLUSTERED, 1)["saving"] - 0.2


def test_uncorrelated_interests_are_never_worse() -> None:
    """Section 1."""
    few = [{"workload": "uncorrelated", "nodes": nodes, "topics": 200, "subscriptions": 12} for nodes in (600, 900)]
    rows = [Row(UNCORRELATED.id, point, seed, compare(point, seed)) for point in few for seed in (0, 1)]
    assert judge(UNCORRELATED.claims[0], rows).verdict is Verdict.REPRODUCED


def test_a_few_samples_are_enough() -> None:
    """Section 1: effective clustering is possible even if the sample is very small."""
    assert compare({**CLUSTERED, "samples": 1}, 1)["saving"] > compare({**CLUSTERED, "samples": 30}, 1)["saving"] - 0.1


def test_degree_does_not_depend_on_subscriptions() -> None:
    """Section 6: fixed network degree regardless of the number of topics or the size of subscriptions."""
    few, many = (
        SYSTEM.plan(make_workload("multimodal", {"nodes": 300, "modes": 5, "subscriptions": size}, 1), seed=1)
        for size in (5, 100)
    )
    assert abs(few.overlay.entry_counts.mean() - many.overlay.entry_counts.mean()) < 0.5


def test_experiments_are_named_once_and_belong_to_the_paper() -> None:
    names = [experiment.id for experiment in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert all(experiment.paper == "magnet" for experiment in EXPERIMENTS)
    assert all(experiment.points(is_full=False) and experiment.full for experiment in EXPERIMENTS)
    assert FIGURE_3 in EXPERIMENTS


def test_the_grafting_condition_of_algorithm_2_is_not_enough() -> None:
    """Section 3.3 says that trees coincide with greedy paths; to the letter, some members end up elsewhere."""
    assert letter_of_algorithm_2(LETTER.quick[0], 0)["astray_anyhow"] > 0


def test_each_step_beyond_the_paper_needs_fewer_relays() -> None:
    measured = beyond(BEYOND.quick[0], 1)
    steps = ["magnet", "by_likeness", "interested_links", "interest_ring"]
    savings = [measured[f"saving_{step}"] for step in steps]
    assert savings == sorted(savings)
    assert measured["relays_to_magnet"] < 0.8


def test_clockwise_is_the_better_direction() -> None:
    """Reading 1: Oscar's links lead ahead, so who overshoots a target walks back from neighbour to neighbour."""
    found = {way: compare({**CLUSTERED, "direction": way}, 1) for way in ("clockwise", "either")}
    assert found["clockwise"]["relays"] < found["either"]["relays"]
    assert found["clockwise"]["hops"] < found["either"]["hops"]


def test_moving_house_is_counted() -> None:
    """Section 3.2: what is saved decays where nobody moves and comes back where they do; both are counted."""
    small = {"nodes": 80, "topics": 40, "modes": 5, "subscriptions": 4, "epochs": 5}
    never, moving = (timeline({**point, **small}, 1) for point in TIMELINE.quick if point["rejoin_every"] != 1)
    assert never["saving_start"] == moving["saving_start"] > 0.3
    assert never["saving_end"] < never["saving_start"] - 0.2
    assert moving["saving_end"] > never["saving_end"] + 0.2
    assert never["messages_per_change"] < 10 < moving["messages_per_change"] < 150
