"""A log's two windows as arrays with their names: what planning, pricing and simulating without Spark begin with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from coterie.model.store import load_workload
from coterie.pipeline.brokers import read_brokers
from coterie.pipeline.interests import FILTERS_FILE, filter_names, topic_names
from coterie.pipeline.job import Request, only, tables_step, workloads_step
from coterie.pipeline.planning import LATER, LEARN
from coterie.pipeline.steps import Progress, run_steps
from coterie.pipeline.windows import CLIENTS
from coterie.plans.tables import NamedWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def named_windows(
    spark: SparkSession, request: Request, out: Path, progress: Progress | None = None
) -> tuple[NamedWorkload, NamedWorkload]:
    """The window to learn from and the later one; steps that are kept do not touch Spark."""
    done = run_steps(
        [tables_step(spark, request), workloads_step(spark, request)], out / "work", progress=progress, spark=spark
    )
    facts = done["workloads"].facts | {"accounts": done["tables"].facts["accounts"]}
    return read_windows(done["workloads"].path, done["tables"].path, facts)


def kept_windows(out: Path, facts: dict[str, Any]) -> tuple[NamedWorkload, NamedWorkload]:
    """The same from what a finished job left below `out`."""
    return read_windows(only(out / "work" / "workloads"), only(out / "work" / "tables"), facts)


def read_windows(workloads: Path, tables: Path, facts: dict[str, Any]) -> tuple[NamedWorkload, NamedWorkload]:
    encoded = workloads / "interests"
    brokers = read_brokers(tables)
    nodes = () if brokers is None else tuple(brokers.names.to_pylist())
    topics = topic_names(encoded)
    filters = filter_names(encoded) if (encoded / FILTERS_FILE).exists() else None
    clients = pq.read_table(encoded / CLIENTS, columns=["client"])["client"].combine_chunks()
    learn, later = (load_workload(workloads / name) for name in (LEARN, LATER))
    return (
        NamedWorkload(learn, topics, clients, nodes, filters, facts),
        NamedWorkload(later, topics, clients, nodes, filters, facts),
    )
