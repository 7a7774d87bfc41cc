"""SpiderCast's protocol under churn (section 3.8): nodes join, leave and crash in the simulator, views are learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from coterie.lab.experiment import Point
from coterie.lab.spidercast_runs import links_in, start_from_contacts
from coterie.model import Change, Relation, Timeline
from coterie.model.latency import Latency
from coterie.model.plan import Neighbour, Slice
from coterie.sim.faults import Crash, Restart, Stop
from coterie.systems.spidercast import measures
from coterie.systems.spidercast import messages as wire
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.trace import TraceEvent
from coterie.workloads import make_timeline
from coterie.workloads.parameters import INTERVAL_S

WARM_UP_S = 60.0  # all nodes at once learn their first views
STEADY_S = 30.0  # of churn before anything is counted
FRESH_S = 2.0  # section 3.8: who joined so lately is left out of a snapshot
CONTACTS = 3
LATENCY_MS = 5.0  # section 3.2: a local network with uniform delays
OVERLAY_KINDS = (
    wire.LinkConnect,
    wire.ConnectOk,
    wire.Redirect,
    wire.LinkDisconnect,
    wire.DisconnectOk,
    wire.LinkLeave,
    wire.Foreign,
)


def run_protocol_churn(point: Point, seed: int) -> Mapping[str, float]:
    """Connectivity and degree in snapshots; control messages per join or leave; gossip per node and interval."""
    keys = ("nodes", "topics", "subscriptions", "duration_s", "crash_share")
    settings = {key: point[key] for key in keys if key in point}
    timeline = make_timeline("churn", {**settings, "mean_life_s": point["life_s"]}, seed)
    run = _ChurnRun(timeline, point, seed)
    run.simulation.run_until(WARM_UP_S + STEADY_S)
    before, changes_before = run.sent.copy(), run.changes
    every_s, end_s = float(point.get("snapshot_s", 200)), WARM_UP_S + float(point["duration_s"])
    snapshots = []
    while run.simulation.now_s + every_s <= end_s:
        run.simulation.run_until(run.simulation.now_s + every_s)
        snapshots.append(run.snapshot())
    return run.values(snapshots, run.sent - before, run.changes - changes_before, len(snapshots) * every_s)


class _ChurnRun:
    """A simulation that follows a timeline."""

    def __init__(self, timeline: Timeline, point: Point, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self.changes = 0
        self._draw = np.random.default_rng([seed, 10])
        self._node_count = timeline.start.node_count
        self._topic_count = timeline.start.topic_count
        self._joined_s = np.zeros(self._node_count)
        parameters = SpiderCastParameters(
            is_planned=False,
            view_capacity=self._node_count,
            exchange_size=min(24, self._node_count),
            gossip_s=5.0,
            link_heartbeat_s=5.0,
            connect_timeout_s=0.1,
        )
        self.simulation = start_from_contacts(
            timeline.start, parameters, seed, CONTACTS, Latency.constant(LATENCY_MS), self._count
        )
        columns = (timeline.time_s, timeline.change, timeline.who, timeline.what)
        for time_s, change, node, topic in zip(*(column.tolist() for column in columns), strict=True):
            self.simulation.at(WARM_UP_S + time_s, partial(self._follow, change, node, topic))

    def _count(self, event: TraceEvent) -> None:
        if event.what == "sent":
            self.sent[event.detail] += 1

    def _follow(self, change: int, node: int, topic: int) -> None:
        simulation, now_s = self.simulation, self.simulation.now_s
        if change == Change.SUBSCRIBE:
            simulation.subscribe(node, topic)
        elif change == Change.UNSUBSCRIBE:
            simulation.unsubscribe(node, topic)
        else:
            self.changes += 1
            if change == Change.JOIN:
                self._joined_s[node] = now_s
                simulation.slices[node] = self._contacts_for(node)
            faults: dict[Change, type[Restart] | type[Stop] | type[Crash]]
            faults = {Change.JOIN: Restart, Change.LEAVE: Stop, Change.CRASH: Crash}
            simulation.inject(faults[Change(change)](now_s, node))

    def _contacts_for(self, node: int) -> Slice:
        """Some who are up, as a rendezvous service would name them."""
        up = [other for other in range(self._node_count) if other != node and self.simulation.is_up(other)]
        chosen = self._draw.choice(up, size=min(CONTACTS, len(up)), replace=False)
        return Slice(version=0, system="spidercast", node=node, neighbours=tuple(Neighbour(int(it)) for it in chosen))

    def snapshot(self) -> tuple[float, int]:
        """Mean degree and partitioned topics among those who are up and did not just join."""
        simulation = self.simulation
        settled = np.array([simulation.is_up(node) for node in range(self._node_count)])
        settled &= self._joined_s <= simulation.now_s - FRESH_S
        links = links_in(simulation)
        return float(links.lengths[settled].mean()), self._partitioned(links, settled)

    def _partitioned(self, links: Relation, settled: NDArray[np.bool_]) -> int:
        wanting = self.simulation.book.wanting
        rows = [[int(topic) for topic in wanting[node]] if settled[node] else [] for node in range(self._node_count)]
        return measures.connectivity(links, Relation.from_rows(rows, self._topic_count)).partitioned_count

    def values(
        self, snapshots: list[tuple[float, int]], sent: Counter[str], changes: int, length_s: float
    ) -> dict[str, float]:
        control = sum(sent[kind.__name__] for kind in OVERLAY_KINDS)
        refused = sent[wire.LinkDisconnect.__name__] - sent[wire.DisconnectOk.__name__]
        up = sum(self.simulation.is_up(node) for node in range(self._node_count))
        intervals = up * length_s / INTERVAL_S
        return {
            "degree": float(np.mean([degree for degree, _ in snapshots])),
            "partitioned": float(sum(pieces for _, pieces in snapshots)),
            "snapshots": float(len(snapshots)),
            "messages": (control - refused) / max(changes, 1),
            "messages_with_refused": control / max(changes, 1),
            "repairs": float(sent[wire.Foreign.__name__]),
            "gossip": sent[wire.Exchange.__name__] / max(intervals, 1.0),
            "beacons": sent[wire.Beacon.__name__] / max(intervals, 1.0),
        }
