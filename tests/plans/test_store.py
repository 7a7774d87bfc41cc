"""Versioned plans: whole or not at all, once each, whatever moment the publisher dies at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import InputError
from coterie.model.store import save_design
from coterie.plans.plan import DESIGN, PartsInFolder, PlanFacts
from coterie.plans.store import CURRENT, PlanStore
from coterie.systems import SYSTEMS
from tests.conftest import small_workload

FACTS = PlanFacts(system="flooding")


class Killed(BaseException):
    """Stands for a process that ends here."""


@pytest.fixture(scope="module")
def design():
    return SYSTEMS["flooding"].plan(small_workload(6, 4, seed=1), seed=1)


@pytest.fixture
def write(design):
    return lambda folder: save_design(design, folder / DESIGN)


def test_versions_count_up_and_the_last_one_is_current(tmp_path, write, design):
    store = PlanStore(tmp_path)
    assert (store.current(), store.versions(), store.find("a")) == (None, [], None)
    assert store.publish("a", PlanFacts(system="flooding", because="first"), write) == 1
    assert store.publish("b", FACTS, write) == 2
    assert (store.current(), store.versions(), store.find("a")) == (2, [1, 2], 1)
    assert store.facts(1).because == "first"
    assert store.load(2).design.overlay.links == design.overlay.links


def test_the_same_key_is_published_once(tmp_path, write):
    store = PlanStore(tmp_path)
    assert [store.publish("a", FACTS, write) for _ in range(3)] == [1, 1, 1]
    assert store.versions() == [1]


@pytest.mark.parametrize("moment", ["in write", "before rename", "before CURRENT", "before CURRENT is replaced"])
def test_a_publisher_killed_anywhere_leaves_the_old_plan_current_and_publishes_once_more(
    tmp_path, write, monkeypatch, moment
):
    store = PlanStore(tmp_path)
    store.publish("old", FACTS, write)

    def die(*_: object) -> None:
        raise Killed

    def die_in_write(folder: Path) -> None:
        (folder / "half").write_text("half")
        die()

    with monkeypatch.context() as patch:
        if moment == "before rename":
            patch.setattr(Path, "rename", die)
        if moment == "before CURRENT":
            patch.setattr(PlanStore, "_point_to", die)
        if moment == "before CURRENT is replaced":
            patch.setattr(Path, "replace", die)
        with pytest.raises(Killed):
            store.publish(
                "new",
                FACTS,
                die_in_write if moment == "in write" else lambda folder: (folder / DESIGN).write_bytes(b"x"),
            )
    assert store.current() == 1
    written: list[Path] = []
    version = store.publish("new", FACTS, lambda folder: (written.append(folder), write(folder))[1])
    assert (version, store.current(), store.versions()) == (2, 2, [1, 2])
    assert bool(written) == ("CURRENT" not in moment)  # a complete version is taken up, not made again
    assert not list((tmp_path / "plans").glob(".unfinished-*"))


def test_a_changed_design_is_refused(tmp_path, write):
    store = PlanStore(tmp_path)
    version = store.publish("a", FACTS, write)
    path = store.folder(version) / DESIGN
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(InputError, match="not the design that plan 1 was published with"):
        _ = store.load(version).design
    path.unlink()
    with pytest.raises(InputError, match="missing"):
        _ = store.load(version).design


def test_going_back_is_one_move_and_only_to_what_exists(tmp_path, write):
    store = PlanStore(tmp_path)
    store.publish("a", FACTS, write)
    store.publish("b", FACTS, write)
    store.make_current(1)
    assert (store.current(), store.versions()) == (1, [1, 2])
    assert store.publish("c", FACTS, write) == 3
    with pytest.raises(InputError, match="no plan 9; there are: 1, 2, 3"):
        store.make_current(9)


def test_a_damaged_store_says_what_is_wrong(tmp_path, write):
    store = PlanStore(tmp_path)
    store.publish("a", FACTS, write)
    (tmp_path / "plans" / CURRENT).write_text("one\n")
    with pytest.raises(InputError, match="does not hold a version number"):
        store.current()
    (store.folder(1) / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        store.facts(1)


def test_a_plan_without_a_design_is_not_published(tmp_path):
    store = PlanStore(tmp_path)
    with pytest.raises(InputError, match=r"design\.npz: is missing"):
        store.publish("a", FACTS, lambda folder: None)
    assert (store.versions(), store.current()) == ([], None)


def test_a_table_whose_text_is_none_is_told(tmp_path):
    """Found by tests/fuzz: a byte that was changed in a table came out as a UnicodeDecodeError."""
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\x82\xff"))
    pq.write_table(pa.table({"topic": broken}), tmp_path / "topics.parquet")
    with pytest.raises(InputError, match=r"topics\.parquet"):
        PartsInFolder(tmp_path, "").table("topics")
