"""Lopsided logs: a topic half of all want, a client that wants 100,000, tiny files by the thousand, one big file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.pipeline import ingest as ingests
from coterie.pipeline import job
from coterie.pipeline.files import find_files
from coterie.pipeline.mapping import Source
from coterie.pipeline.planning import is_whole
from coterie.pipeline.reading import Split
from coterie.pipeline.storage import read_rows
from coterie.pipeline.windows import WindowChoices
from coterie.systems import SYSTEMS

SPARK = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1800)]
USERS, GREEDY, TINY = 40_000, 100_000, 20_000
BIG_BYTES = 3 * ingests.SPLIT_BYTES


def test_tiny_files_share_tasks_and_no_task_opens_them_all(tmp_path):
    (tmp_path / "one.csv").write_text("subscriber,topic\nu,t\n")
    (file,) = find_files(Source((str(tmp_path),)))
    splits = [Split(index, file, index, Source((str(tmp_path),))) for index in range(TINY)]
    bins = ingests._bins(splits)
    sizes = [len(found) for found in bins]
    assert sum(sizes) == TINY
    assert max(sizes) <= 256
    assert len(sizes) <= TINY // 200
    sent = [ingests._wrapped(found) for found in bins]  # all of it goes to every task
    assert sum(map(len, sent)) < 20 * TINY
    assert [split for data in sent for split in ingests._unwrapped(data)] == splits


@pytest.fixture(scope="module")
def lopsided(tmp_path_factory) -> Path:
    """Half of the users want one topic, one of them wants 100,000 that nobody else does, all want two by chance."""
    folder, draw = tmp_path_factory.mktemp("lopsided"), np.random.default_rng(3)
    who = np.concatenate([np.arange(USERS // 2), np.repeat(np.arange(USERS), 2), np.zeros(GREEDY, np.int64)])
    what = [
        *["all"] * (USERS // 2),
        *(f"some/{topic}" for topic in draw.integers(0, 1000, 2 * USERS)),
        *(f"own/{topic}" for topic in range(GREEDY)),
    ]
    since = 1_700_000_000 + draw.integers(0, 86_400, len(who))
    table = pa.table({"subscriber": [f"u{user}" for user in who], "topic": what, "since": since})
    pq.write_table(table, folder / "subs.parquet")
    told = ["all"] * 2000 + [f"some/{topic}" for topic in draw.integers(0, 1000, 6000)]
    told += [f"own/{topic}" for topic in draw.integers(0, GREEDY, 2000)]
    when = 1_700_000_000 + draw.integers(0, 86_400, len(told))
    publishers = [f"u{user}" for user in draw.integers(0, USERS, len(told))]
    pq.write_table(pa.table({"publisher": publishers, "topic": told, "time": when}), folder / "pubs.parquet")
    return folder


class TestSpark:
    pytestmark = SPARK

    def test_a_topic_of_half_the_users_and_a_user_of_many_topics_cost_what_they_cost_in_one_memory(
        self, spark, lopsided, tmp_path
    ):
        sources = (
            Source((str(lopsided / "subs.parquet"),), "subscriptions"),
            Source((str(lopsided / "pubs.parquet"),), "publications"),
        )
        asked = job.Request("lopsided", sources=sources, windows=WindowChoices(brokers=8))
        systems = [job.Candidate(SYSTEMS[name], SYSTEMS[name].parameters()) for name in ("mesh", "scribe")]
        placer = job.Candidate(SYSTEMS["coterie"], SYSTEMS["coterie"].parameters())
        few = job.run_job(spark, asked, systems, tmp_path / "few")
        crowd = job.run_job(spark, replace(asked, is_crowd=True), systems, tmp_path / "crowd", placer=placer)
        stay = [one for one in crowd.priced if one.placement == "stay"]
        assert [one.system for one in stay] == [one.system for one in few.priced]
        for ours, theirs in zip(stay, few.priced, strict=True):
            assert ours.later.columns() == pytest.approx(theirs.later.columns(), rel=1e-9)
        placed = [one for one in crowd.priced if one.placement == "placed"]
        assert placed
        assert all(is_whole(one.later) for one in placed)

    def test_twenty_thousand_tiny_files_are_one_table(self, spark, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        for number in range(TINY):
            (folder / f"{number:05d}.csv").write_text(f"subscriber,topic\nu{number},t\nu{number},s{number % 7}\n")
        (folder / "00777.csv").write_text("subscriber,topic\nbad\n")
        account = ingests.ingest(spark, [Source((str(folder),))], tmp_path / "out")
        assert (account.rows_in, account.kept, account.quarantined) == (2 * TINY - 1, 2 * TINY - 2, 1)
        (bad,) = [file for file in account.files if file.quarantined]
        assert Path(bad.path).name == "00777.csv"

    def test_one_big_file_is_read_by_several_tasks(self, spark, tmp_path):
        """Every row once, wherever the cuts fall."""
        path, count = tmp_path / "big.csv", 0
        with open(path, "w") as file:
            file.write("subscriber,topic\n")
            while file.tell() < BIG_BYTES:
                file.writelines(f"u{number},t/{number % 1009}/{'x' * 60}\n" for number in range(count, count + 100_000))
                count += 100_000
        source = Source((str(path),))
        placed = [(0, find_files(source)[0], source)]
        assert len(ingests._bins(ingests._splits(placed))) >= 3
        account = ingests.ingest(spark, [source], tmp_path / "out")
        assert (account.rows_in, account.kept) == (count, count)
        assert account.files[0].note == ""
        parts = [read_rows(part, ["subscriber"]) for part in sorted((tmp_path / "out/subscriptions").glob("part-*"))]
        assert len(pa.concat_tables(parts)["subscriber"].unique()) == count
