"""What Tamara's experiments run: one function per table or figure, from a point and a seed to named numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from coterie.errors import InputError
from coterie.kernels.clusters.benefit import shared_needed
from coterie.lab.experiment import Point
from coterie.model import Relation, Timeline
from coterie.systems.tamara.bulk import History, TopicClusters
from coterie.systems.tamara.costs import (
    SIMPLE,
    CostFunctions,
    add_threshold,
    merge_threshold,
    scribe_average,
    scribe_worst,
    toss_probability,
)
from coterie.systems.tamara.exact import optimal_cost
from coterie.systems.tamara.kmeans import join_by_cost, join_by_majority, kmeans_clusters
from coterie.systems.tamara.parameters import TamaraParameters
from coterie.systems.tamara.planner import PlannedClusters, cover_with, lower_bound, plain_cost, plan_clusters
from coterie.workloads import debian, recorded
from coterie.workloads import tamara as users
from coterie.workloads.popularity import even_bounds
from coterie.workloads.rates import per_interval

INTERVALS_PER_DAY = 240  # M is six minutes
SAMPLES = 20  # moments of a curve


def percent(value: float, reference: float) -> float:
    return float(100.0 * (value / reference - 1.0))


def _clustered(point: Point, **changes: object) -> users.Clustered:
    chosen = {
        "nodes": int(point.get("users", 3000)),
        "rates": str(point.get("rates", "average")),
        "reading": str(point.get("reading", "tables")),
        **changes,
    }
    return users.Clustered(**chosen)  # type: ignore[arg-type]


def natural_clusters(parameters: users.Clustered) -> Relation:
    """The split of topics that interests are drawn by, before they shift."""
    bounds = even_bounds(parameters.topics, parameters.clusters).astype(np.int64)
    return Relation(bounds, np.arange(parameters.topics, dtype=np.int32), parameters.topics)


def _follow(
    timeline: Timeline, seed: int, samples: int = 1, functions: CostFunctions = SIMPLE, **parameters: object
) -> tuple[TopicClusters, History]:
    """Tamara from an empty system along the timeline."""
    chosen = TamaraParameters(**parameters)  # type: ignore[arg-type]
    clusters = TopicClusters(timeline.start.subscriber_count, per_interval(timeline.start), chosen, functions, seed)
    return clusters, clusters.follow(timeline, samples)


def _shifted(
    timeline: Timeline, start: Relation, seed: int, samples: int = 1, is_adaptive: bool = True
) -> tuple[TopicClusters, History]:
    """Tamara from clusters that match the first interests perfectly (section 5.2, adaptive clustering)."""
    workload = timeline.start
    parameters = TamaraParameters(is_adaptive=is_adaptive)
    clusters = TopicClusters(workload.subscriber_count, per_interval(workload), parameters, seed=seed)
    clusters.start_with(workload.interests, start)
    return clusters, clusters.follow(timeline, samples)


def _deltas(name: str, history: History) -> dict[str, float]:
    return {
        f"{name}_mc": percent(history.maintenance[-1], history.plain_maintenance[-1]),
        f"{name}_dc": percent(history.dissemination[-1], history.plain_dissemination[-1]),
        f"{name}_oc": percent(history.overall[-1], history.plain[-1]),
    }


def _plan_deltas(name: str, plan: PlannedClusters, history: History) -> dict[str, float]:
    return {
        f"{name}_mc": percent(plan.maintenance, history.plain_maintenance[-1]),
        f"{name}_dc": percent(plan.dissemination, history.plain_dissemination[-1]),
        f"{name}_oc": percent(plan.overall, history.plain[-1]),
    }


def _kmeans_deltas(timeline: Timeline, history: History, seed: int) -> dict[str, float]:
    last = timeline.at(np.inf)
    split = kmeans_clusters(last.interests, 10, seed)
    blind = join_by_majority(split, last.interests, per_interval(last))
    aware = join_by_cost(split, last.interests, per_interval(last))
    return _plan_deltas("kmeans", blind, history) | _plan_deltas("kmeans_by_cost", aware, history)


# --- runs ---


def run_worked(point: Point, seed: int) -> Mapping[str, float]:
    """Sections 3.1 and 3.2: the printed formulas and the general ones they are instances of."""
    return {
        "add": add_threshold(0.1, 10_000),
        "omega": toss_probability(0.99, 911),
        "merge_80": merge_threshold(0.1, 20, 20, 200, 200, 80),
        "merge_7": merge_threshold(0.1, 20, 20, 200, 200, 7),
        "add_general": float(shared_needed(SIMPLE.tables(20_000, 200), 0.1, 5_000, 10_000, 12)),
    }


def run_table2(point: Point, seed: int) -> Mapping[str, float]:
    timeline = users.arrivals(_clustered(point), seed)
    _, history = _follow(timeline, seed)
    return _deltas("tamara", history) | _kmeans_deltas(timeline, history, seed)


def run_table3(point: Point, seed: int) -> Mapping[str, float]:
    parameters = _clustered(point)
    timeline = users.shift(parameters, seed)
    start = natural_clusters(parameters)
    _, history = _shifted(timeline, start, seed)
    _, still = _shifted(timeline, start, seed, is_adaptive=False)
    values = _deltas("tamara", history) | _deltas("static", still) | _kmeans_deltas(timeline, history, seed)
    return values | {"operations": float(timeline.change_count)}


def run_readings(point: Point, seed: int) -> Mapping[str, float]:
    """What depends on no algorithm: static clusters, and Scribe's own DC in units of a maintenance of 80."""
    changes: dict[str, dict[str, object]] = {
        "as taken": {},
        "log-uniform rates": {"frequency_spread": "log-uniform"},
        "75,000 operations": {"operations_max": 25 * int(point["users"])},
        "first bin as printed": {"is_first_bin_printed": True},
    }
    parameters = _clustered(point, **changes[str(point["taken"])])
    timeline, start = users.shift(parameters, seed), natural_clusters(parameters)
    _, still = _shifted(timeline, start, seed, is_adaptive=False)
    scribe_dc = 80 * still.plain_dissemination[-1] / still.plain_maintenance[-1]
    return _deltas("static", still) | {"scribe_dc": float(scribe_dc)}


@lru_cache(maxsize=8)
def _arrival_history(rates: str, count: int, is_uniform: bool, seed: int) -> History:
    kind = users.Tamara if is_uniform else users.Clustered
    return _follow(users.arrivals(kind(nodes=count, rates=rates), seed), seed, SAMPLES)[1]


@lru_cache(maxsize=8)
def _shift_histories(rates: str, count: int, shift_to: str, seed: int) -> tuple[float, History, History]:
    """OC with the given clusters before anything changes, then with clusters that adapt and with those that do not."""
    parameters = users.Clustered(nodes=count, rates=rates, shift_to=shift_to)
    timeline, start = users.shift(parameters, seed), natural_clusters(parameters)
    adaptive = _shifted(timeline, start, seed, SAMPLES)[1]
    still = _shifted(timeline, start, seed, SAMPLES, is_adaptive=False)[1]
    return _shifted(_first(timeline, 0), start, seed)[0].overall, adaptive, still


def _at(history: History, share: float) -> int:
    return max(0, round(share * len(history.operations)) - 1)


def run_arrivals(point: Point, seed: int) -> Mapping[str, float]:
    """One moment of Figures 5, 6 and 7(a): Scribe, Tamara and Tamara+ after a share of the operations."""
    history = _arrival_history(str(point["rates"]), int(point["users"]), bool(point.get("uniform", False)), seed)
    overhead = history.overhead(float(point.get("days", 60)) * INTERVALS_PER_DAY)
    at = _at(history, float(point["share"]))
    above = np.flatnonzero(history.overall + overhead > history.plain)
    return {
        "scribe": float(history.plain[at]),
        "tamara": float(history.overall[at]),
        "tamara_plus": float(history.overall[at] + overhead[at]),
        "overhead": float(history.messages[-1] / (float(point.get("days", 60)) * INTERVALS_PER_DAY)),
        "overhead_percent": float(100 * overhead[at] / history.overall[at]),
        "oc": percent(history.overall[at], history.plain[at]),
        "above_until": float((above[-1] + 1) / len(overhead)) if len(above) else 0.0,
    }


def run_shift(point: Point, seed: int) -> Mapping[str, float]:
    """One moment of Figures 8 and 7(b)."""
    start_cost, adaptive, still = _shift_histories(
        str(point["rates"]), int(point["users"]), str(point.get("shift_to", "clustered")), seed
    )
    overhead = adaptive.overhead(60.0 * INTERVALS_PER_DAY)
    at = _at(adaptive, float(point["share"]))
    return {
        "scribe": float(adaptive.plain[at]),
        "tamara": float(adaptive.overall[at]),
        "tamara_plus": float(adaptive.overall[at] + overhead[at]),
        "static": float(still.overall[at]),
        "oc": percent(adaptive.overall[at], adaptive.plain[at]),
        "static_oc": percent(still.overall[at], still.plain[at]),
        "peak_after_start": percent(float(adaptive.overall.max()), start_cost),
        "end_after_peak": percent(float(adaptive.overall[-1]), float(adaptive.overall.max())),
    }


def run_debian(point: Point, seed: int) -> Mapping[str, float]:
    """Figure 9; users come one by one, so that a share of the operations is a share of the users."""
    try:
        timeline = _debian(float(point["hours"]), int(point["users"]), seed)
    except InputError:
        return {}  # without the package index there is nothing to measure, and the claims say "not run"
    _, history = _follow(timeline, seed, SAMPLES)
    quarter, last = _at(history, 0.25), -1
    overhead = history.overhead(365 * 24 / float(point["hours"]))
    return {
        "scribe": float(history.plain[last]),
        "tamara": float(history.overall[last]),
        "times_cheaper": float(history.plain[last] / history.overall[last]),
        "times_cheaper_quarter": float(history.plain[quarter] / (history.overall + overhead)[quarter]),
    }


@lru_cache(maxsize=2)
def _debian(hours: float, count: int, seed: int) -> Timeline:
    return debian.arrivals(debian.Debian(interval_s=hours * 3600, subscribers=count), seed)


def run_cost_functions(point: Point, seed: int) -> Mapping[str, float]:
    """Section 5.2, cost functions: Scribe's average and worst case next to the running example."""
    parameters = _clustered(point)
    named = {"simple": SIMPLE, "average": scribe_average(parameters.nodes), "worst": scribe_worst(parameters.nodes)}
    timeline = users.arrivals(parameters, seed)
    return {
        name: float(_deltas("tamara", _follow(timeline, seed, functions=functions)[1])["tamara_oc"])
        for name, functions in named.items()
    }


def run_sizes(point: Point, seed: int) -> Mapping[str, float]:
    """Section 5.2, users and topics: practically independent of their numbers."""
    parameters = _clustered(point, topics=int(point["topics"]), clusters=int(point["clusters"]))
    _, history = _follow(users.arrivals(parameters, seed), seed)
    return _deltas("tamara", history)


def run_audit(point: Point, seed: int) -> Mapping[str, float]:
    """How many updates raised the overall cost, recomputed in full after each."""
    timeline = users.arrivals(_clustered(point), seed)
    parameters = TamaraParameters(survey_size=int(point["survey"]))
    clusters = TopicClusters(
        timeline.start.subscriber_count, per_interval(timeline.start), parameters, seed=seed, is_audited=True
    )
    clusters.follow(timeline)
    clusters.check()
    counts = clusters.counts()
    return {"updates": float(counts["audited"]), "raised_percent": 100 * counts["raised"] / max(counts["audited"], 1)}


def run_planner(point: Point, seed: int) -> Mapping[str, float]:
    """The planner learns until nine tenths of the changes; priced at the end, against Tamara that adapts to the end."""
    try:
        timeline, start = _planner_timeline(point, seed)
    except InputError:
        return {}
    if start is None:
        clusters, history = _follow(timeline, seed)
    else:
        clusters, history = _shifted(timeline, start, seed)
    cut = int(0.9 * timeline.change_count)
    learned, last = timeline.at(float(timeline.time_s[cut])), timeline.at(np.inf)
    half_way = _until(timeline, cut, start, seed)
    plan = plan_clusters(learned.interests, per_interval(learned), starts=[half_way.clusters()], seed=seed)
    later = cover_with(plan.topics, last.interests, per_interval(last))
    now = plan_clusters(last.interests, per_interval(last), starts=[clusters.clusters()], seed=seed)
    plain = plain_cost(last.interests, per_interval(last))
    return {
        "tamara_oc": percent(history.overall[-1], plain),
        "later_oc": percent(later.overall, plain),
        "planner_oc": percent(now.overall, plain),
        "bound_oc": percent(lower_bound(last.interests, per_interval(last)), plain),
        "later_to_tamara": percent(later.overall, float(history.overall[-1])),
        "clusters": float(now.topics.row_count),
    }


def _planner_timeline(point: Point, seed: int) -> tuple[Timeline, Relation | None]:
    kind = str(point["workload"])
    if kind == "debian":
        return _debian(float(point["hours"]), int(point["users"]), seed), None
    if kind == "wiki":
        return recorded.wiki_edits(recorded.Wiki(interval_s=360.0, subscribers=int(point["users"])), seed), None
    parameters = _clustered(point)
    if kind == "arrivals":
        return users.arrivals(parameters, seed), None
    return users.shift(parameters, seed), natural_clusters(parameters)


def _first(timeline: Timeline, count: int) -> Timeline:
    some = slice(count)
    return Timeline(
        timeline.start, timeline.time_s[some], timeline.change[some], timeline.who[some], timeline.what[some]
    )


def _until(timeline: Timeline, cut: int, start: Relation | None, seed: int) -> TopicClusters:
    part = _first(timeline, cut)
    return _follow(part, seed)[0] if start is None else _shifted(part, start, seed)[0]


def run_optimum(point: Point, seed: int) -> Mapping[str, float]:
    """Tiny instances: how far the planner, Tamara and K-means are above the exact optimum."""
    parameters = users.Clustered(
        nodes=int(point["users"]), topics=int(point["topics"]), clusters=2, rates=str(point["rates"]), elsewhere=1.0
    )
    timeline = users.arrivals(parameters, seed)
    last = timeline.at(np.inf)
    best = optimal_cost(last.interests, per_interval(last))
    clusters, history = _follow(timeline, seed, survey_size=0)
    planned = plan_clusters(last.interests, per_interval(last), starts=[clusters.clusters()])
    split = join_by_cost(kmeans_clusters(last.interests, 2, seed), last.interests, per_interval(last))
    return {
        "planner_above": percent(planned.overall, best),
        "tamara_above": percent(history.overall[-1], best),
        "kmeans_above": percent(split.overall, best),
        "bound_below": percent(lower_bound(last.interests, per_interval(last)), best),
    }
