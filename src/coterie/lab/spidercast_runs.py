"""What SpiderCast's experiments run: overlays in bulk, churn, and the protocol from first contacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coterie.accounting import topic_links
from coterie.kernels.links import maintenance as kernels
from coterie.lab.experiment import Point
from coterie.model import Change, Relation, Timeline, Workload
from coterie.model.latency import Latency
from coterie.model.plan import Neighbour, Slice
from coterie.sim.engine import Simulation
from coterie.sim.run import subscribe_all
from coterie.systems.spidercast import SYSTEM, coverage, measures
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.systems.spidercast.system import links_of
from coterie.trace import Tracer
from coterie.workloads import make_timeline, make_workload

Times = NDArray[np.float64]

LOOK_AHEAD_S = 20.0
CRASHED_PERCENT = (5, 10, 20)
CRASH_SAMPLES = 20
WORKLOAD_KEYS = ("nodes", "topics", "subscriptions", "subscriptions_max", "exponent")
BULK_KEYS = ("links", "k_greedy", "k_random", "is_adaptive", "ties", "disconnects", "view_share")


def workload_of(point: Point, seed: int) -> Workload:
    settings = {key: point[key] for key in WORKLOAD_KEYS if key in point}
    return make_workload(str(point.get("workload", "rss")), settings, seed)


def parameters_of(point: Point) -> SpiderCastParameters:
    return SpiderCastParameters(**{key: point[key] for key in BULK_KEYS if key in point})  # type: ignore[arg-type]


def raw_links(interests: Relation, parameters: SpiderCastParameters, seed: int) -> Relation:
    """As the paper's nodes leave them: without our repair of partitioned topics."""
    if parameters.links in ("spidercast", "similarity"):
        return coverage.build(interests, parameters, seed).links()
    return links_of(interests, parameters, seed)


def run_overlay(point: Point, seed: int) -> Mapping[str, float]:
    """One overlay: degree, components, and where the point asks for it diameter, tdi(d), crashes, bounds."""
    interests = workload_of(point, seed).interests
    links = raw_links(interests, parameters_of(point), seed)
    degree = links.lengths
    state = measures.connectivity(links, interests)
    values = {
        "degree": float(degree.mean()),
        "degree_max": float(degree.max()),
        "degree_ci95": float(1.96 * degree.std() / np.sqrt(len(degree))),
        "degree_std": float(degree.std()),
        "components": float(state.component_count),
        "partitioned": float(state.partitioned_count),
    }
    if point.get("diameter"):
        paths = measures.topic_paths(links, interests)
        values |= {"diameter": float(paths.diameter.max()), "distance": float(paths.mean.max())}
    if point.get("rewired"):
        values["diameter_rewired"] = float(rewired_diameter(links, interests, seed))
    if point.get("subscriptions_max"):
        values["follows_lists"] = float(np.corrcoef(interests.lengths, degree)[0, 1])
    if "tdi" in point:
        values["tdi"] = measures.top_intersection(interests, int(point["tdi"]))
    if point.get("crashes"):
        values |= crash_values(links, interests, seed)
    if point.get("bounds"):
        values |= {
            "bound_connected": topic_links.connected_degree(interests),
            "bound_two_connected": topic_links.covered_degree(interests, 2),
            "bound_covered": topic_links.covered_degree(interests, 3),
        }
    return values


def run_lists(point: Point, seed: int) -> Mapping[str, float]:
    """One overlay, and how its degrees follow the lengths of lists: on average, and by rank."""
    values = dict(run_overlay(point, seed))
    if point.get("subscriptions_max"):
        interests = workload_of(point, seed).interests
        degree = raw_links(interests, parameters_of(point), seed).lengths
        lengths, own = np.unique(interests.lengths, return_inverse=True)
        means = np.bincount(own, degree) / np.bincount(own)
        values["follows_lists_mean"] = float(np.corrcoef(lengths, means)[0, 1])
        values["follows_lists_rank"] = float(np.corrcoef(_ranks(interests.lengths), _ranks(degree))[0, 1])
    return values


def _ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Places in ascending order; who are equal share the middle of theirs."""
    _, own, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts / 2)[own]


def rewired_diameter(links: Relation, interests: Relation, seed: int) -> int:
    """The largest diameter of random graphs in which every topic's members keep their number of links in the topic."""
    draw = np.random.default_rng([seed, 11])
    inside = np.zeros(interests.row_count, bool)
    longest = 0
    for topic in range(interests.column_count):
        members = interests.transposed.row(topic)
        inside[members] = True
        kept = inside[links.rows] & inside[links.columns]
        ends = draw.permutation(np.searchsorted(members, links.rows[kept]))
        inside[members] = False
        one, other = ends[::2], ends[1::2]
        count = len(members)
        both = Relation.from_pairs(np.concatenate([one, other]), np.concatenate([other, one]), count, count)
        everybody = Relation.from_pairs(np.arange(count), np.zeros(count, np.int64), count, 1)
        longest = max(longest, measures.topic_diameter(both, everybody))
    return longest


def crash_values(links: Relation, interests: Relation, seed: int) -> dict[str, float]:
    """Members cut off from the largest part of their topic when a share of the nodes crashes, per 1,000 memberships."""
    draw = np.random.default_rng([seed, 9])
    values = {"cut_vertices": float(measures.cut_vertices(links, interests).sum())}
    for percent in CRASHED_PERCENT:
        lost = []
        for _ in range(CRASH_SAMPLES):
            crashed = draw.choice(interests.row_count, interests.row_count * percent // 100, replace=False)
            lost.append(measures.after_crashes(links, interests, crashed).cut_off.sum() * 1000 / interests.pair_count)
        values[f"cut_off_{percent}"] = float(np.mean(lost))
        values[f"cut_off_{percent}_error"] = float(np.std(lost, ddof=1)) / CRASH_SAMPLES**0.5
    return values


def run_churn(point: Point, seed: int) -> Mapping[str, float]:
    """Section 3.8 in bulk: every stay of a node is a row of its own, maintenance runs one round per connect timeout."""
    settings = {"nodes": point["nodes"], "mean_life_s": point["life_s"], "duration_s": point["duration_s"]}
    timeline = make_timeline("churn", settings, seed)
    interests, first_s, last_s = _stays(timeline)
    bulk = coverage.begin(interests, SpiderCastParameters(), seed, is_up=False)
    task = bulk.tasks[0]
    timeout_s = float(point.get("connect_timeout_s", 0.2))
    moments = np.concatenate([first_s, last_s])
    order = np.argsort(moments, kind="stable")
    at, changes, degrees, partitioned = 0, 0, [], 0
    sent_before = answered_before = 0
    for step in range(1, round(float(point["duration_s"]) / timeout_s) + 1):
        now_s = step * timeout_s
        if step % round(LOOK_AHEAD_S / timeout_s) == 1:
            bulk = _listing(bulk, interests, (first_s < now_s + LOOK_AHEAD_S) & (last_s >= now_s - timeout_s))
        while at < len(order) and moments[order[at]] <= now_s:
            is_end, stay = divmod(int(order[at]), len(first_s))
            if is_end:
                kernels.leave(bulk.nodes, task, stay)
            else:
                kernels.join(task, bulk.nodes, stay)
            changes += 1
            at += 1
        bulk.advance(task, 1)
        if step == round(30 / timeout_s):
            (sent_before, answered_before), changes = _sent(bulk), 0
        if step % round(200 / timeout_s) == 0:
            settled = (bulk.nodes.is_up == 1) & (first_s <= now_s - 2)
            degrees.append(float(bulk.links().lengths[settled].mean()))
            partitioned += measures.connectivity(bulk.links(), _among(interests, settled)).partitioned_count
    sent, answered = _sent(bulk)
    return {
        "degree": float(np.mean(degrees)),
        "partitioned": float(partitioned),
        "messages": (answered - answered_before) / max(changes, 1),
        "messages_with_refused": (sent - sent_before) / max(changes, 1),
    }


def _listing(bulk: coverage.Bulk, interests: Relation, included: NDArray[np.bool_]) -> coverage.Bulk:
    """The same network; its topics list only these stays, so that nobody looks through all that ever were."""
    by_topic = _among(interests, included).transposed
    return replace(bulk, nodes=bulk.nodes._replace(topic_indptr=by_topic.indptr, subscriber=by_topic.columns))


def _among(interests: Relation, included: NDArray[np.bool_]) -> Relation:
    kept = included[interests.rows]
    rows, columns = interests.rows[kept], interests.columns[kept]
    return Relation.from_pairs(rows, columns, interests.row_count, interests.column_count)


def _sent(bulk: coverage.Bulk) -> tuple[int, int]:
    """All control messages, and those but the DISCONNECTs that were refused."""
    messages = bulk.messages()
    total = sum(messages.values())
    return total, total - messages["disconnect"] + messages["disconnect_ok"]


def _stays(timeline: Timeline) -> tuple[Relation, Times, Times]:
    """Every time a node is connected as a row: its interest, when it begins and when it ends (inf: never)."""
    interests = timeline.start.interests
    wanted = [set(interests.row(node).tolist()) for node in range(interests.row_count)]
    open_stay = list(range(interests.row_count))
    rows: list[set[int]] = [set(topics) for topics in wanted]
    first_s, last_s = [0.0] * len(rows), [np.inf] * len(rows)
    columns = (timeline.time_s, timeline.change, timeline.who, timeline.what)
    for now_s, kind, node, topic in zip(*(column.tolist() for column in columns), strict=True):
        if kind == Change.SUBSCRIBE:
            wanted[node].add(topic)
        elif kind == Change.UNSUBSCRIBE:
            wanted[node].discard(topic)
        elif kind == Change.JOIN:
            open_stay[node] = len(rows)
            rows.append(set(wanted[node]))
            first_s.append(now_s)
            last_s.append(np.inf)
        else:
            last_s[open_stay[node]] = now_s
    return (
        Relation.from_rows([sorted(row) for row in rows], interests.column_count),
        np.array(first_s),
        np.array(last_s),
    )


def run_protocol(point: Point, seed: int) -> Mapping[str, float]:
    """The protocol from nothing but three contacts a node, beside the bulk form with views of the same size."""
    workload = workload_of(point, seed)
    count = workload.node_count
    capacity = max(int(float(point["view_share"]) * (count - 1)), 8)
    parameters = SpiderCastParameters(
        is_planned=False,
        view_capacity=capacity,
        exchange_size=min(50, capacity),
        link_heartbeat_s=5.0,
        beacon_s=0.0,
    )
    simulation = start_from_contacts(workload, parameters, seed)
    simulation.run_until(float(point["duration_s"]))
    links = links_in(simulation)
    state = measures.connectivity(links, workload.interests)
    share = capacity / max(count - 1, 1)
    bulk = coverage.build(workload.interests, SpiderCastParameters(view_share=min(share, 1.0)), seed).links()
    sent = {traffic.value: number for traffic, number in simulation.book.sent.items()}
    return {
        "degree": float(links.lengths.mean()),
        "bulk_degree": float(bulk.lengths.mean()),
        "partitioned": float(state.partitioned_count),
        "overlay_messages": sent.get("overlay", 0) / count,
        "membership_messages": sent.get("membership", 0) / count,
    }


def start_from_contacts(
    workload: Workload,
    parameters: SpiderCastParameters,
    seed: int,
    contacts: int = 3,
    latency: Latency | None = None,
    tracer: Tracer | None = None,
) -> Simulation:
    draw = np.random.default_rng([seed, 8])
    count = workload.node_count
    slices = [
        Slice(version=0, system="spidercast", node=node, neighbours=tuple(Neighbour(int(peer)) for peer in chosen))
        for node, chosen in enumerate(draw.integers(count, size=(count, contacts)).tolist())
    ]
    simulation = Simulation(SYSTEM, parameters, slices, seed, latency, tracer)
    simulation.start()
    subscribe_all(simulation, workload.attachment, workload.interests)
    return simulation


def links_in(simulation: Simulation) -> Relation:
    """Read off the nodes, both directions."""
    rows: list[int] = []
    columns: list[int] = []
    for address, node in enumerate(simulation.nodes):
        if node is not None:
            peers = node.state().links
            rows += [address] * len(peers)
            columns += peers
    count = simulation.node_count
    return Relation.from_pairs(rows + columns, columns + rows, count, count)
