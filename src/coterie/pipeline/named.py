"""A log's two windows as arrays with their names: what planning, pricing and simulating without Spark begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.model import Workload
from coterie.model.store import load_workload
from coterie.pipeline.brokers import read_brokers
from coterie.pipeline.interests import FILTERS_FILE, names_in
from coterie.pipeline.job import Request, only, tables_step, workloads_step
from coterie.pipeline.planning import LATER, LEARN
from coterie.pipeline.steps import Progress, run_steps
from coterie.pipeline.windows import CLIENTS, INTERESTS
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
    names = names_of(workloads, tables)
    learn, later = (names.of(load_workload(workloads / name), facts) for name in (LEARN, LATER))
    return learn, later


@dataclass(frozen=True, eq=False)
class IdNames:
    """What the ids of a log's windows mean."""

    topics: pa.Array
    clients: pa.Array
    nodes: tuple[str, ...]
    filters: pa.Array | None

    def of(self, workload: Workload, facts: Mapping[str, object]) -> NamedWorkload:
        return NamedWorkload(workload, self.topics, self.clients, self.nodes, self.filters, facts)


def names_of(workloads: Path, tables: Path) -> IdNames:
    encoded = workloads / INTERESTS
    brokers = read_brokers(tables)
    return IdNames(
        names_in(encoded),
        pq.read_table(encoded / CLIENTS, columns=["client"])["client"].combine_chunks(),
        () if brokers is None else tuple(brokers.names.to_pylist()),
        names_in(encoded, "filter") if (encoded / FILTERS_FILE).exists() else None,
    )
