"""Bills from a workload of brokers are the bills over everybody: column by column, with filters, groups and times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.accounting.price import price
from coterie.model.wires import COTERIE
from coterie.pipeline.crowds.condensing import CrowdSeats, condense
from coterie.pipeline.crowds.pricing import bill, load_condensed, save_counted
from coterie.pipeline.crowds.roster import STAYING, number_wishes
from coterie.pipeline.crowds.seating import seat_clients, write_seats
from coterie.pipeline.crowds.speaking import number_publishers
from coterie.pipeline.cutting import WindowChoices, cut_windows
from coterie.pipeline.ingest import write_table
from coterie.pipeline.windows import build_workloads
from coterie.systems import SYSTEMS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

CASES = {
    "plain": {"filters": False, "timed": True, "attached": False, "zones": 2},
    "filters": {"filters": True, "timed": True, "attached": True, "zones": 0},
    "untimed": {"filters": False, "timed": False, "attached": False, "zones": 0},
}


def log(spark, tables, *, filters: bool, timed: bool, attached: bool, zones: int) -> None:
    draw = np.random.default_rng(7)
    count = 500
    who = [f"u{number}" for number in draw.integers(0, 60, count)]
    names = [f"a/{number}" for number in range(12)]
    if filters:
        names += ["a/+", "#", "$share/g/a/1", "$share/g/+/2"]
    what = [names[int(number)] for number in draw.integers(0, len(names), count)]
    moment = lambda values: pa.array((values * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))  # noqa: E731
    since, until = draw.integers(1, 1000, count), draw.integers(0, 1000, count)
    subscriptions = {"subscriber": who, "topic": what}
    none = pa.nulls(count, pa.timestamp("us", "UTC"))
    stay = pa.array(draw.random(count) < 0.5)
    begun = moment(since)
    subscriptions["since"] = pa.compute.if_else(stay, begun, None) if timed else none
    subscriptions["until"] = (
        pa.compute.if_else(pa.array(draw.random(count) < 0.4), moment(since + until), None) if timed else none
    )
    write_table(spark.createDataFrame(pa.table(subscriptions)), "subscriptions", tables, topics="mqtt")
    events = 300
    publications = {
        "publisher": pa.array([f"u{number}" if number < 90 else None for number in draw.integers(20, 100, events)]),
        "topic": [f"a/{number}" for number in draw.integers(0, 14, events)],
        "time": moment(draw.integers(1, 1000, events)),
        "count": draw.integers(1, 5, events),
        "bytes": pa.array([int(v) if v < 400 else None for v in draw.integers(1, 500, events)], pa.int64()),
    }
    frame = spark.createDataFrame(pa.table(publications))
    write_table(frame, "publications", tables, keep_duplicates=True, topics="mqtt")
    if attached:
        seats = {
            "subscriber": [f"u{number}" for number in range(50)] * 2,
            "node": [f"b{number}" for number in draw.integers(0, 5, 100)],
            "since": moment(np.repeat([5, 500], 50)),
            "zone": pa.nulls(100, pa.string()),
        }
        write_table(spark.createDataFrame(pa.table(seats)), "attachments", tables)


def differing(ours, theirs) -> dict:
    left, right = ours.columns(), theirs.columns()
    return {name: (left[name], right[name]) for name in right if left[name] != pytest.approx(right[name], rel=1e-9)}


@pytest.mark.parametrize("case", CASES)
def test_bills_over_brokers_are_the_bills_over_everybody(spark, tmp_path, case):
    tables = tmp_path / "tables"
    log(spark, tables, **CASES[case])
    choices = WindowChoices(brokers=0 if CASES[case]["attached"] else 5, zones=CASES[case]["zones"])
    learn, later, facts = build_workloads(spark, tables, tmp_path / "few", "log", choices)
    windows = cut_windows(spark, tables, choices)
    roster = number_wishes(spark, tables, tmp_path / "crowd", windows, choices.seed)
    roster, spoken = number_publishers(spark, roster)
    ground = seat_clients(spark, roster, choices)
    assert roster.clients == facts["clients"]
    assert spoken.publishers == facts["publishers"]
    assert spoken.unwanted_rate == pytest.approx(facts["events_on_topics_nobody_wants"])
    assert spoken.sizes_assumed == pytest.approx(facts["sizes_assumed"])
    elsewhere = np.random.default_rng(3).integers(0, ground.node_count, roster.clients).astype(np.int32)
    for part in range(roster.parts):
        ids = np.arange(roster.starts[part], roster.starts[part + 1])
        write_seats(ids, elsewhere[ids], tmp_path / "elsewhere", part)
    for folder, node_of in ((roster.folder / STAYING, learn.attachment), (tmp_path / "elsewhere", elsewhere)):
        save_counted(condense(spark, roster, CrowdSeats(folder, ground), tmp_path / "saved", "log"), tmp_path / "saved")
        condensed = load_condensed(tmp_path / "saved")
        for name in ("mesh", "star", "scribe", "coterie"):
            system = SYSTEMS[name]
            whole = system.plan(learn, seed=1, node_of=node_of)
            small = system.plan(condensed[0], seed=1, node_of=condensed[0].attachment)
            assert not differing(bill(condensed[2], small, condensed[0], 0, COTERIE), price(whole, learn))
            adopted = system.adopt(whole, later, seed=1)
            small = system.adopt(small, condensed[1], seed=1)
            assert not differing(bill(condensed[2], small, condensed[1], 1, COTERIE), price(adopted, later)), name
    assert pq.read_table(roster.folder / "names").num_rows == roster.clients
