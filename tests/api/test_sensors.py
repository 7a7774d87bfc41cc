"""The ordinary IoT case: many sensors that only publish, few dashboards that want some of each."""

from __future__ import annotations

import numpy as np

import coterie as ct

SENSORS, DASHBOARDS, WANTED, BROKERS = 2000, 200, 10, 8


def test_sensors_and_dashboards_are_balanced_named_and_cost_fewer_copies_than_as_attached() -> None:
    draw = np.random.default_rng(1)
    wishes = [
        {"subscriber": f"dashboard-{one}", "topic": f"sensor/{topic}"}
        for one in range(DASHBOARDS)
        for topic in draw.permutation(SENSORS)[:WANTED]
    ]
    said = [{"publisher": f"sensor-{one}", "topic": f"sensor/{one}"} for one in range(SENSORS)]
    log = ct.read_log(wishes, said, brokers=BROKERS)
    stay, placed = (ct.plan(log, system="mesh", place=place) for place in (False, True))
    before, after = (plan.facts.predicted.dissemination.wanted for plan in (stay, placed))
    assert after < 0.26 * before  # 0.225; dashboards share few sensors, so every sensor beside its dashboard is 0.43
    node_of, workload = placed.design.placement.node_of, log.demand().workload
    clients = np.bincount(node_of, minlength=BROKERS)
    assert clients.max() <= 1.1 * clients.mean() + 1
    messages = np.bincount(workload.publications.publisher, workload.publications.rate, len(node_of))
    messages += np.bincount(workload.interests.rows, workload.rates[workload.interests.columns], len(node_of))
    load = np.bincount(node_of, messages, BROKERS)
    assert load.max() <= 1.3 * load.mean() * (1 + 1e-9)
    sensors = [node for client, node in placed.placement.items() if client.startswith("sensor-")]
    assert len(sensors) > 0.9 * len({one["topic"] for one in wishes})  # whoever is listened to has a place and a name
    by_node = np.bincount(sensors, minlength=BROKERS)
    assert by_node.max() < 1.5 * by_node.mean()
