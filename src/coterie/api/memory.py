"""Windows of a log that is in memory: made by the pipeline's own functions, in this process and without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from coterie.errors import InputError
from coterie.pipeline.cutting import WindowChoices, cut_at
from coterie.pipeline.here import NoSession
from coterie.pipeline.ingest import mark_names
from coterie.pipeline.named import names_of
from coterie.pipeline.storage import write_rows
from coterie.pipeline.tasks import part_name
from coterie.pipeline.windows import all_windows
from coterie.plans.tables import NamedWorkload

ALL_PAIRS = 1 << 62  # who published what is counted here, whatever it comes to


def windows_of(
    tables: Mapping[str, pa.Table], name: str, shares: Sequence[float], choices: WindowChoices, is_plain: bool
) -> list[NamedWorkload]:
    """The log cut where these shares of its publications have happened, over the same ids; without shares, all of it.

    A log without times is cut in two by chance, as one in files is.
    """
    if not len(tables["subscriptions"]):
        raise InputError(name, "holds no subscriptions: not one row was found")
    with tempfile.TemporaryDirectory() as folder:
        home, out = Path(folder), Path(folder) / "out"
        here: Any = NoSession()
        for table, rows in tables.items():
            if len(rows):
                write_rows(rows, home / table / part_name(0))
        mark_names(home / "subscriptions", "plain" if is_plain else "mqtt")
        windows = cut_at(here, home, shares)
        made, _, facts = all_windows(here, home, out, name, replace(choices, publisher_pairs_max=ALL_PAIRS), windows)
        if not shares:
            made, facts = made[-1:], facts | {"is_held_out": False}
        edges = windows.edges_s or (0.0, 0.0, 0.0)
        facts |= {"start_s": edges[0], "cut_s": edges[1], "end_s": edges[-1]}
        names = names_of(out, home)
        return [
            names.of(workload, facts | {"published_per_s": float(workload.publications.rate.sum())})
            for workload in made
        ]
