"""The main job on a few files: what it leaves, what it does again, and what a killed run costs (nothing)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from coterie.errors import ConfigError, InputError
from coterie.model.prices import EXAMPLE
from coterie.pipeline import job
from coterie.pipeline.mapping import Source
from coterie.pipeline.report import comparison
from coterie.pipeline.windows import WindowChoices
from coterie.plans.store import PlanStore
from coterie.systems import SYSTEMS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NAMES = ("flooding", "scribe")


def candidates() -> list[job.Candidate]:
    return [job.Candidate(SYSTEMS[name], SYSTEMS[name].parameters()) for name in NAMES]


def write_files(folder: Path) -> None:
    draw = np.random.default_rng(1)
    wanted = sorted(
        {(int(s), int(t)) for s, t in zip(draw.integers(0, 30, 150), draw.integers(0, 9, 150), strict=True)}
    )
    lines = [f"u{s},t{t},{10 + s * 30},t{8 - t}" for s, t in wanted]
    (folder / "subs.csv").write_text("subscriber,topic,since,other\n" + "\n".join(lines) + "\n")
    events = [f'{{"publisher": "u{i % 7}", "topic": "t{i * i % 9}", "time": {i * 10}}}' for i in range(100)]
    (folder / "pubs.jsonl").write_text("\n".join(events) + "\n")


def request(folder: Path, **columns: str) -> job.Request:
    sources = (
        Source((str(folder / "subs.csv"),), "subscriptions", columns),
        Source((str(folder / "pubs.jsonl"),), "publications"),
    )
    return job.Request("tiny", sources=sources, windows=WindowChoices(brokers=5), against="scribe")


def ledgers(out: Path) -> list[dict]:
    return pq.read_table(out / job.LEDGERS).to_pylist()


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    write_files(folder)
    return folder, job.run_job(spark, request(folder), candidates(), folder / "out")


def test_it_leaves_ledgers_of_both_windows_with_bound_and_saving(finished):
    folder, outcome = finished
    rows = {(row["system"], row["window"], row["column"]): row for row in ledgers(folder / "out")}
    assert {key[:2] for key in rows} == {(name, window) for name in NAMES for window in ("learn", "later")}
    for entry in outcome.priced:
        for window in ("learn", "later"):
            columns = getattr(entry, window).columns()
            assert {column: rows[entry.system, window, column]["value"] for column in columns} == columns
    base, other = (rows[name, "later", "volume.total"]["value"] for name in ("scribe", "flooding"))
    assert rows["flooding", "later", "volume.total"]["saved"] == pytest.approx(1 - other / base)
    assert rows["scribe", "later", "volume.total"]["saved"] == 0
    # Rates are no whole numbers, so sums of them in another order differ in the last digit.
    copies = [row for key, row in rows.items() if key[2] == "dissemination.copies"]
    assert all(row["bound"] <= row["value"] * (1 + 1e-12) for row in copies)
    assert outcome.chosen is not None
    assert outcome.chosen.later.volume.total == min(base, other)
    assert outcome.against is not None
    assert outcome.against.system == "scribe"
    accounts = outcome.accounts
    assert accounts["subscriptions"]["rows_in"] == accounts["subscriptions"]["kept"] == outcome.facts["subscriptions"]
    assert accounts["publications"]["kept"] == 100


def test_the_plan_is_published_once_with_names_and_bill(finished):
    folder, outcome = finished
    store = PlanStore(folder / "out")
    assert [job.publish_plan(outcome, store) for _ in range(2)] == [1, 1]
    plan = store.load(1)
    assert plan.system == outcome.chosen.system
    assert plan.facts.later == outcome.chosen.later
    assert plan.facts.now == outcome.against.later
    design = plan.design
    topics = pq.read_table(store.folder(1) / "topics.parquet")["topic"].to_pylist()
    assert len(topics) == design.channels.topics.column_count == outcome.facts["topics"]
    kinds = pq.read_table(store.folder(1) / "clients.parquet")["kind"].to_pylist()
    assert len(kinds) - kinds.count("publisher") == outcome.facts["subscribers"] <= len(design.placement.node_of)
    sent = pq.read_table(store.folder(1) / "publishes.parquet").to_pylist()
    assert sum(row["rate"] for row in sent) > 0
    clients = pq.read_table(store.folder(1) / "clients.parquet")["client"].to_pylist()
    assert {row["client"] for row in sent} <= set(clients)
    assert {row["topic"] for row in sent} <= set(topics)


def test_nothing_is_done_twice_and_everything_that_matters_is_done_anew(spark, finished, monkeypatch, tmp_path):
    folder, outcome = finished
    done = []
    steps = job.run_steps

    def watched(*arguments, **options):
        done.append(steps(*arguments, **options))
        return done[-1]

    monkeypatch.setattr(job, "run_steps", watched)
    again = job.run_job(spark, request(folder), candidates(), folder / "out")
    assert [step.kept for step in done[-1].values()] == [True, True, True]
    assert again.priced == outcome.priced
    job.run_job(spark, replace(request(folder), seed=2), candidates(), tmp_path)
    remapped = job.run_job(spark, replace(request(folder, topic="other"), seed=2), candidates(), tmp_path)
    made = {**done[-1], **done[-2]}  # tables come first: they say whether the clients are a crowd
    assert {name: step.kept for name, step in made.items()} == dict.fromkeys(("tables", "workloads", "designs"), False)
    assert remapped.priced != again.priced


def test_a_killed_run_is_finished_by_the_next_with_the_same_ledgers(spark, finished, tmp_path):
    folder, outcome = finished
    script = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_job as tests
from coterie.pipeline import job
from coterie.pipeline.session import open_session
def half(spark, workloads, candidates, out, ways, pieces):
    job_price_all(spark, workloads, candidates[:1], out, ways, pieces)
    os.kill(os.getpid(), signal.SIGKILL)
job_price_all, job.price_all = job.price_all, half
tests.job.run_job(open_session("local[1]", profile="test"), tests.request(Path(sys.argv[2])), tests.candidates(),
                  Path(sys.argv[3]))
"""
    killed = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent), str(folder), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2] / 'src'}:{Path(__file__).parents[2]}"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / job.LEDGERS).exists()
    (bill,) = (tmp_path / "work" / "bills").glob("*/*/bill.json")
    assert bill.parent.name.startswith("flooding")
    before = bill.stat()
    resumed = job.run_job(spark, request(folder), candidates(), tmp_path)
    assert (bill.stat().st_ino, bill.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert ledgers(tmp_path) == ledgers(folder / "out")
    assert [entry.later for entry in resumed.priced] == [entry.later for entry in outcome.priced]
    assert len(list((tmp_path / "work" / "designs").iterdir())) == 1


def test_one_more_system_plans_only_that_one(spark, finished, monkeypatch):
    folder, outcome = finished
    planned = []
    price_all = job.price_all

    def watched(spark, workloads, candidates, *more):
        planned.extend(one.system.name for one in candidates)
        return price_all(spark, workloads, candidates, *more)

    monkeypatch.setattr(job, "price_all", watched)
    mesh = job.Candidate(SYSTEMS["mesh"], SYSTEMS["mesh"].parameters())
    more = job.run_job(spark, request(folder), [*candidates(), mesh], folder / "out")
    assert planned == ["mesh"]
    assert more.priced[:2] == outcome.priced
    job.run_job(spark, request(folder), candidates(), folder / "out")
    assert planned == ["mesh"]


def test_a_crowd_has_the_bills_of_the_few(spark, finished, tmp_path):
    folder, outcome = finished
    asked = replace(request(folder), is_crowd=True)
    placer = job.Candidate(SYSTEMS["coterie"], SYSTEMS["coterie"].parameters())
    crowd = job.run_job(spark, asked, candidates(), tmp_path, placer=placer)
    staying = [one for one in crowd.priced if one.placement == job.STAY]
    for ours, theirs in zip(staying, outcome.priced, strict=True):
        assert ours.later.columns() == pytest.approx(theirs.later.columns(), rel=1e-9)
    for name, value in outcome.facts.items():
        told = crowd.facts[name]
        assert name == "least_copies" or told == (pytest.approx(value) if isinstance(value, float) else value), name
    store = PlanStore(tmp_path)
    placed = replace(crowd, chosen=next(one for one in crowd.priced if one.placement == job.PLACED))
    assert [job.publish_plan(placed, store) for _ in range(2)] == [1, 1]
    seats = pq.read_table(store.folder(1) / "placement").to_pylist()
    assert sorted(row["client"] for row in seats) == sorted(f"u{number}" for number in range(30))
    assert len(pq.read_table(store.folder(1) / "topics.parquet")) == crowd.facts["topics"]
    assert store.facts(1).later.columns() == placed.chosen.later.columns()
    page = comparison(crowd, EXAMPLE, 3600.0, "hour").write(tmp_path / "report.html")
    assert "mesh" in page.read_text() or "scribe" in page.read_text()


def test_a_system_twice_is_refused(spark, finished, tmp_path):
    folder, _ = finished
    with pytest.raises(ConfigError, match="each system once"):
        job.run_job(spark, request(folder), candidates() * 2, tmp_path)


def test_with_nobody_to_choose_nothing_is_published(finished, tmp_path):
    _, outcome = finished
    with pytest.raises(InputError, match="nothing to publish"):
        job.publish_plan(replace(outcome, chosen=None), PlanStore(tmp_path))
    assert PlanStore(tmp_path).versions() == []
