"""A small log in this process and on Spark: the same tables to the byte, the same cuts, the same counts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import RunError
from coterie.model.store import load_workload
from coterie.pipeline import here
from coterie.pipeline.cutting import WindowChoices, cut_rolling
from coterie.pipeline.job import Request, tables_step, workloads_step
from coterie.pipeline.latesession import LateSession
from coterie.pipeline.mapping import Source
from coterie.pipeline.planning import LATER, LEARN
from coterie.pipeline.publishing import counted_by_window, counted_here
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.steps import run_steps
from coterie.pipeline.storage import write_rows
from coterie.pipeline.tasks import part_name

START_S = 1_700_000_000


def never(master: str) -> Any:
    raise RunError("a small log needs no Spark")


def this_process() -> Any:
    return LateSession(opened=never, is_small=True)


def write_log(folder: Path, *, strays: bool = False) -> Request:
    """Wishes that come and go, filters, groups that share; publications some of which have no time, sender or size."""
    folder.mkdir()
    draw = np.random.default_rng(4)
    wishes = [
        {"user": f"u{n % 40}", "topic": ("+/a", "$share/g/t1/#", f"t{n % 7}/a")[n % 3 if n % 5 == 0 else 2],
         "since": START_S + n if n % 2 else None, "until": START_S + 900 + n if n % 4 == 1 else None}
        for n in range(120)
    ]  # fmt: skip
    wishes += [{"user": "", "topic": "t1/a"}, {"user": "u1", "topic": "a/#/b"}, wishes[5]]
    events = [
        {"publisher": None if n % 11 == 0 else f"u{n % 45}", "topic": f"t{n % 9}/a", "count": 1 + n % 3,
         "time": None if n % 13 == 0 else START_S + float(draw.random() * 1800), "bytes": None if n % 5 == 0 else n}
        for n in range(400)
    ]  # fmt: skip
    if strays:
        events += [{"publisher": "u1", "topic": "t1/a", "time": 1.0, "count": 1, "bytes": 3}]
    (folder / "subs.jsonl").write_text("\n".join(json.dumps(one) for one in wishes))
    (folder / "pubs.jsonl").write_text("\n".join(json.dumps(one) for one in events))
    sources = (
        Source((str(folder / "subs.jsonl"),), "subscriptions", {"subscriber": "user"}),
        Source((str(folder / "pubs.jsonl"),), "publications"),
    )
    return Request("log", sources=sources, windows=WindowChoices(brokers=5, zones=2))


def made(session: Any, request: Request, out: Path) -> dict[str, Any]:
    done = run_steps([tables_step(session, request), workloads_step(session, request)], out)
    tables, workloads = done["tables"], done["workloads"]
    return {
        "accounts": tables.facts,
        "files": {
            str(path.relative_to(tables.path)): path.read_bytes() for path in sorted(tables.path.rglob("*.parquet"))
        },
        "facts": workloads.facts,
        "windows": [load_workload(workloads.path / name) for name in (LEARN, LATER)],
    }


def rounded(facts: dict[str, Any]) -> dict[str, Any]:
    """Sums of many parts are added in another order."""
    return {name: round(value, 9) if isinstance(value, float) else value for name, value in facts.items()}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("strays", [False, True])
def test_everything_is_the_same(spark: Any, tmp_path: Path, strays: bool) -> None:
    request = write_log(tmp_path / "log", strays=strays)
    one, other = made(this_process(), request, tmp_path / "here"), made(spark, request, tmp_path / "spark")
    assert one["accounts"] == other["accounts"]
    assert one["files"] == other["files"]
    assert rounded(one["facts"]) == rounded(other["facts"])
    for mine, theirs in zip(one["windows"], other["windows"], strict=True):
        assert mine.interests == theirs.interests
        assert np.array_equal(mine.weights, theirs.weights)
        for column in ("publisher", "topic", "rate", "size"):
            assert np.array_equal(getattr(mine.publications, column), getattr(theirs.publications, column)), column


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("is_row_an_event", [True, False])
def test_cuts_and_counts(spark: Any, tmp_path: Path, is_row_an_event: bool) -> None:
    draw = np.random.default_rng(1)
    at = pa.array((START_S * 1e6 + draw.integers(0, 10**10, 3000)).astype(np.int64), pa.timestamp("us", "UTC"))
    count = np.ones(3000, np.int64) if is_row_an_event else draw.integers(1, 50, 3000)
    rows = pa.table({"publisher": ["p"] * 3000, "topic": ["t"] * 3000, "time": at, "count": count})
    rows = rows.append_column("bytes", pa.nulls(3000, pa.int64())).cast(table_schema("publications").arrow)
    write_rows(rows, tmp_path / "publications" / part_name(0))
    cuts = cut_rolling(this_process(), tmp_path, 4)
    assert cuts == cut_rolling(spark, tmp_path, 4)
    frame = counted_by_window(spark.read.parquet(str(tmp_path / "publications")), cuts).toArrow()
    mine = counted_here(rows, cuts)
    order = [("window", "ascending")]
    assert (
        mine.sort_by(order).to_pydict() == frame.select(mine.column_names).cast(mine.schema).sort_by(order).to_pydict()
    )


def test_what_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = write_log(tmp_path / "log")
    assert here.is_small(request)
    assert LateSession(is_small=True).is_here
    assert not LateSession("spark://there:7077", is_small=True).is_here
    assert not here.is_here(SimpleNamespace())
    monkeypatch.setattr(here, "SMALL_BYTES", 1000)
    assert not here.is_small(request)
    tables = Request("log", sources=(Source(("table:a.b",), "subscriptions"),))
    assert not here.is_small(tables)
    pq.write_table(pa.table({"subscriber": ["a"], "topic": ["t"]}), tmp_path / "one.parquet")
    assert here.is_small(Request("log", sources=(Source((str(tmp_path / "one.parquet"),), "subscriptions"),))) is False
