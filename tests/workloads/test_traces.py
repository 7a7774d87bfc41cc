"""The traces are what their description says, and broken ones are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import ConfigError, InputError
from coterie.workloads import make_timeline, make_workload
from coterie.workloads.rates import per_interval
from coterie.workloads.traces import latency_ms, trace_file, trace_table, traces_folder, word_counts

real = [pytest.mark.traces, pytest.mark.usefixtures("traces")]


class TestReal:
    pytestmark = real

    @pytest.mark.parametrize(
        ("name", "people", "topics", "pairs"),
        [("wiki", 8227, 1000, 18_257), ("wiki24h", 10_531, 35_278, None), ("citeulike", 7947, 25_584, 134_860)],
    )
    def test_recorded_sizes(self, name: str, people: int, topics: int, pairs: int | None) -> None:
        workload = make_workload(name, {}, 1)
        assert (workload.subscriber_count, workload.topic_count) == (people, topics)
        assert pairs is None or workload.interests.pair_count == pairs

    def test_wiki_rates_are_edits_per_day(self) -> None:
        workload = make_workload("wiki", {}, 1)
        assert per_interval(workload).sum() == pytest.approx(157_474 / 31, rel=0.01)
        half = make_workload("wiki", {"interval_s": 43_200}, 1)
        assert per_interval(half).sum() == pytest.approx(per_interval(workload).sum() / 2, rel=1e-6)

    def test_a_part_of_a_trace(self) -> None:
        workload = make_workload("wiki24h", {"topics": 3000, "selection": "random", "nodes": 20}, 1)
        assert workload.topic_count == 3000
        assert workload.node_count == 20
        few = make_workload("wiki", {"topics": 50, "subscribers": 200}, 1)
        assert few.subscriber_count == 200
        assert few.interests.lengths.min() >= 1
        with pytest.raises(ConfigError, match="topics"):
            make_workload("wiki", {"topics": 1001}, 1)

    def test_edits_arrive_in_time(self) -> None:
        timeline = make_timeline("wiki", {}, 1)
        assert timeline.at(np.inf).interests == make_workload("wiki", {}, 1).interests
        assert 0 < timeline.at(86_400).interests.pair_count < 18_257

    def test_debian_users_install_what_their_choices_need(self) -> None:
        workload = make_workload("debian", {"subscribers": 100, "topics": 0, "choices": 3}, 1)
        depends = trace_table("debian12_depends.csv.gz", ("package_id",))
        assert len(depends["package_id"]) == 292_684
        popularity = np.sort(np.bincount(workload.interests.columns))[::-1]
        assert popularity[0] > 80  # what everybody needs
        assert np.median(popularity) < 10  # what few do
        day = make_workload("debian", {"subscribers": 100, "topics": 0, "choices": 3, "interval_s": 86_400}, 1)
        assert per_interval(day).sum() == pytest.approx(12 * per_interval(workload).sum(), rel=1e-3)

    def test_articles_go_to_readers_of_their_words(self) -> None:
        workload = make_workload("citeulike-documents", {"topics": 300, "subscribers": 100, "nodes": 50}, 1)
        content = workload.content
        assert content is not None
        assert (content.subscriptions.lengths == 5).all()
        assert content.documents.check("documents").lengths.mean() == pytest.approx(18.9, abs=1.5)

    def test_documents_have_the_recorded_words(self) -> None:
        documents, times = word_counts("citeulike_t_bow.txt.gz")
        assert (documents.row_count, documents.column_count) == (25_975, 20_000)
        assert documents.row(0)[:3].tolist() == [828, 1028, 3225]
        assert times[:3].tolist() == [1, 3, 1]

    def test_latency_is_complete(self) -> None:
        matrix = latency_ms()
        assert matrix.shape == (490, 490)
        assert np.isfinite(matrix).all()
        assert (np.diag(matrix) == 0).all()
        assert np.median(matrix[matrix > 0]) == pytest.approx(135, abs=3)
        with pytest.raises(InputError, match="no table"):
            latency_ms("mean")


def test_folder_is_named_by_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COTERIE_TRACES", str(tmp_path))
    assert traces_folder() == tmp_path
    monkeypatch.setenv("COTERIE_TRACES", str(tmp_path / "nowhere"))
    assert traces_folder() is None
    with pytest.raises(InputError, match="COTERIE_TRACES"):
        trace_file("x.csv")


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"who,page\n1,2\n"), gzip.compress(b"")],
    # A compressed file holds the time it was made, which must not become part of a test's name.
    ids=["not compressed", "other columns", "empty"],
)
def test_broken_traces_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    monkeypatch.setenv("COTERIE_TRACES", str(tmp_path))
    (tmp_path / "wiki_edits_1month.csv.gz").write_bytes(content)
    with pytest.raises(InputError, match="wiki_edits"):
        make_workload("wiki", {}, 1)


def test_broken_words_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COTERIE_TRACES", str(tmp_path))
    for content in (b"3 1:2 x:1\n", b"", b"\n"):
        (tmp_path / "words.gz").write_bytes(gzip.compress(content, mtime=0))
        with pytest.raises(InputError, match="words"):
            word_counts("words.gz")
