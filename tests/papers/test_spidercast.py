"""SpiderCast's sentences on small instances; the figures at full size are `coterie reproduce spidercast --full`."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.lab.experiment import Row
from coterie.lab.judging import Verdict, judge
from coterie.lab.spidercast import EXPERIMENTS
from coterie.lab.spidercast_churn import run_protocol_churn
from coterie.lab.spidercast_runs import run_churn, run_overlay
from coterie.model import Relation
from coterie.systems.spidercast import measures
from coterie.workloads import make_workload


@pytest.mark.parametrize("workload", ["uniform", "rss", "zipf", "nyse"])
def test_greedy_coverage_alone_connects_every_topic(workload: str) -> None:
    """Section 3.3: (3,0)-coverage suffices for the RSS, NYSE and Uniform distributions (and Zipf 1, section 3.4)."""
    values = run_overlay({"workload": workload, "nodes": 1000}, 1)
    assert values["partitioned"] == 0
    assert values["degree"] < 12


def test_degree_of_figure_12_at_1000_nodes() -> None:
    """Figure 12: 10.81."""
    assert run_overlay({"nodes": 1000}, 1)["degree"] == pytest.approx(10.81, rel=0.03)


def test_degree_falls_as_nodes_are_added() -> None:
    """Section 3.5.1."""
    degrees = [run_overlay({"nodes": nodes}, 1)["degree"] for nodes in (500, 1000, 2000)]
    assert degrees[0] > degrees[1] > degrees[2]


def test_a_ring_per_topic_needs_at_least_45_percent_more_links() -> None:
    """Section 3.9.2."""
    ring = run_overlay({"nodes": 1000, "links": "ring-per-topic"}, 1)["degree"]
    assert ring > 1.45 * run_overlay({"nodes": 1000}, 1)["degree"]


def test_similarity_with_as_many_links_leaves_topics_in_pieces() -> None:
    """Section 3.9.1: similarity(10, 0) has about the same degree and more than 100 components."""
    values = run_overlay({"nodes": 1000, "links": "similarity", "k_greedy": 10, "k_random": 0}, 1)
    assert values["degree"] == pytest.approx(10.08, rel=0.03)
    assert values["components"] > 100


def test_topics_stay_connected_under_churn() -> None:
    """Section 3.8: every snapshot, whatever the churn."""
    assert run_churn({"nodes": 250, "life_s": 100, "duration_s": 200}, 1)["partitioned"] == 0


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.id)
def test_quick_points_of_every_experiment_run_and_claims_judge_them(experiment) -> None:  # type: ignore[no-untyped-def]
    point = experiment.points(is_full=False)[0]
    rows = [Row(experiment.id, point, 1, experiment.run({**experiment.small(point), "nodes": 200}, 1))]
    verdicts = [judge(claim, rows).verdict for claim in experiment.claims]
    assert all(isinstance(verdict, Verdict) for verdict in verdicts)
    assert [judge(claim, []).verdict for claim in experiment.claims] == [Verdict.MISSING] * len(verdicts)


def test_the_protocol_keeps_topics_connected_while_nodes_come_go_and_crash() -> None:
    """Section 3.8 with messages, and views that are learned."""
    point = {"nodes": 80, "topics": 15, "subscriptions": 5, "life_s": 100, "duration_s": 90, "snapshot_s": 10}
    values = run_protocol_churn({**point, "crash_share": 0.3}, 1)
    assert values["partitioned"] == 0
    assert values["snapshots"] == 6
    assert 10 < values["messages"] < values["messages_with_refused"] < 100


@pytest.mark.parametrize(("links_each", "diameter"), [(4, 9), (5, 7), (6, 6)])
def test_a_topic_of_1000_members_needs_six_links_each_for_the_diameter_of_section_3_4(
    links_each: int, diameter: int
) -> None:
    """Uniform popularity at 10,000 nodes; regular random graphs, which the paper argues with."""
    ends = np.random.default_rng(1).permutation(np.repeat(np.arange(1000), links_each))
    one, other = ends[::2], ends[1::2]
    links = Relation.from_pairs(np.concatenate([one, other]), np.concatenate([other, one]), 1000, 1000)
    everybody = Relation.from_rows([[0]] * 1000, 1)
    assert measures.topic_diameter(links, everybody) == diameter


def test_nine_links_cannot_give_six_links_per_topic() -> None:
    """Figure 12's degree at 10,000 nodes, if all of them went to the nodes that share most."""
    interests = make_workload("rss", {"nodes": 10000}, 1).interests
    assert 9 * measures.top_intersection(interests, 9) / 100 < 5
