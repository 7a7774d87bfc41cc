"""Millions of users to brokers through Spark, from canonical tables to a table of places, against one process.

    python benchmarks/bench_placement.py                               # 1 million users, 10,000 topics, 100 brokers
    python benchmarks/bench_placement.py --users 2e5 --pattern zipf --here

Prints copies between brokers (rate x (brokers touched - 1)) as a share of those with users spread evenly, how uneven
the load is, and seconds; with --here also the same blocks one after the other in this process, and the ratio.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from coterie.kernels import fanout
from coterie.kernels.fanout_blocks import Here, Task, place
from coterie.model import Relation
from coterie.pipeline.blocks import DEFAULT_BLOCKS, Placed, place_tables
from coterie.pipeline.interests import load_interests
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.session import open_session
from coterie.pipeline.tasks import write_part
from coterie.workloads import make_workload

PARTS = 8


def write_subscriptions(interests: Relation, folder: Path) -> None:
    schema = table_schema("subscriptions").arrow
    for part in range(PARTS):
        users = np.arange(part, interests.row_count, PARTS)
        lengths = interests.lengths[users]
        at = np.arange(lengths.sum()) + np.repeat(interests.indptr[users] - (np.cumsum(lengths) - lengths), lengths)
        names = [
            pa.array(np.repeat(users, lengths)).cast(pa.string()),
            pa.array(interests.columns[at]).cast(pa.string()),
        ]
        filled = dict(zip(("subscriber", "topic"), names, strict=True))
        columns = [filled.get(field.name, pa.nulls(len(at), field.type)) for field in schema]
        write_part(pa.Table.from_arrays(columns, schema=schema), folder, part)


def here(interests: Relation, broker_count: int) -> float:
    """Seconds for the same blocks, one after the other."""
    choices = DEFAULT_BLOCKS
    capacity = fanout.capacity_of(interests.pair_count, int(interests.lengths.max()), broker_count, choices.imbalance)
    cut = (broker_count, capacity, choices.seed)
    task = Task(interests.indptr, interests.columns, np.ones(interests.column_count), *cut)
    began = time.monotonic()
    found = place(task, (np.arange(interests.row_count) % broker_count).astype(np.int32), Here(task))
    seconds = time.monotonic() - began
    print(f"  one process: {fanout.touched(found.counts, task.rate):,.0f} copies in {seconds:.1f} s")
    return seconds


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--users", type=float, default=1e6)
    asked.add_argument("--topics", type=float, default=1e4)
    asked.add_argument("--brokers", type=int, default=100)
    asked.add_argument("--pattern", choices=("multimodal", "zipf", "uniform"), action="append")
    asked.add_argument("--spark", default="local[2]")
    asked.add_argument("--here", action="store_true")
    choices = asked.parse_args()
    spark = open_session(choices.spark)
    for pattern in choices.pattern or ("multimodal", "zipf", "uniform"):
        sizes = {"subscribers": int(choices.users), "topics": int(choices.topics), "nodes": choices.brokers}
        workload = make_workload("dynatops", {**sizes, "modes": int(choices.topics) // 10, "pattern": pattern}, 1)
        with tempfile.TemporaryDirectory() as folder:
            tables, out = Path(folder) / "tables", Path(folder) / "out"
            write_subscriptions(workload.interests, tables / "subscriptions")
            began = time.monotonic()
            placed: Placed = place_tables(spark, tables, out, choices.brokers)
            seconds = time.monotonic() - began
            print(
                f"{pattern}, {workload.subscriber_count:,} users: {placed.copies_before:,.0f} to {placed.copies:,.0f} "
                f"copies ({placed.copies / placed.copies_before:.4f}), {100 * placed.imbalance:.1f} % above the mean "
                f"load, {seconds:.1f} s from tables to places",
                flush=True,
            )
            if choices.here:
                print(
                    f"  Spark : one process = {seconds / here(load_interests(out / 'interests'), choices.brokers):.2f}"
                )
    spark.stop()


if __name__ == "__main__":
    main()
