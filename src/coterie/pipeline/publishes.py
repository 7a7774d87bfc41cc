"""Who publishes what and how often, beside a plan: whoever acts on it knows where topics enter and what they cost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.model import Workload

PUBLISHES = "publishes.parquet"


def write_publishes(workload: Workload, folder: Path) -> None:
    """One row for each client and topic, by the names that the plan's folder holds already; rates per second."""
    clients = pq.read_table(folder / "clients.parquet", columns=["client"])["client"].combine_chunks()
    topics = pq.read_table(folder / "topics.parquet", columns=["topic"])["topic"].combine_chunks()
    sent = workload.publications
    table = {
        "client": pa.DictionaryArray.from_arrays(pa.array(sent.publisher), clients),
        "topic": pa.DictionaryArray.from_arrays(pa.array(sent.topic), topics),
        "rate": pa.array(sent.rate),
    }
    pq.write_table(pa.table(table), folder / PUBLISHES, compression="zstd")
