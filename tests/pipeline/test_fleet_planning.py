"""A journal planned by the pipeline is a layout of the same fleet."""

from __future__ import annotations

import json
from random import Random

import pytest

from coterie.fleets.audience import Audience, JournalTail
from coterie.fleets.crossing import Copies, crossings_of
from coterie.fleets.export.registry import expressible
from coterie.fleets.export.target import LinkShape
from coterie.fleets.layout import read_layout
from coterie.fleets.outlook import copies_per_s
from coterie.fleets.sparkplanning import plan_with_spark
from tests.fleets.stock import Crowd
from tests.fleets.test_layout import fleet

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_pipeline_plans_a_journal_for_a_target(spark, tmp_path):
    crowd, draw = Crowd(40, 20, 4, seed=6), Random(1)
    journal = tmp_path / "journal"
    for name, wishes in crowd.wishes.items():
        node = f"b{draw.randrange(4)}"
        (journal / node).mkdir(parents=True, exist_ok=True)
        lines = [{"t": 0.0, "kind": "subscribe", "client": name, "topic": one} for one in wishes]
        lines += [
            {"t": 10.0 * turn + 1, "kind": "publish", "client": name, "topic": one, "bytes": 9}
            for one in crowd.publishes[name]
            for turn in range(20)
        ]
        with open(journal / node / "000000000001.jsonl", "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    audience = Audience()
    audience.take(JournalTail(journal).lines())
    brokers = fleet(4, hub="b0")
    now = audience.layout(brokers.names, {})
    assert len(now.home) == 40
    planner = plan_with_spark(brokers, journal, tmp_path / "out", expressible("mosquitto-acl").systems, session=spark)
    planned = planner(now)
    assert planned.version == 1
    published = read_layout(tmp_path / "out", brokers)
    assert {client: set(topics) for client, topics in published.publishes.items()} == {
        client: set(topics) for client, topics in crowd.publishes.items()
    }
    assert sum(rate for topics in published.publishes.values() for rate in topics.values()) > 0
    before = copies_per_s(now, Copies(crossings_of(LinkShape.STAR, now, "b0")))
    after = copies_per_s(planned, Copies(crossings_of(LinkShape.STAR, planned, "b0")))
    assert before is not None
    assert after is not None
    assert after * 1.5 < before
