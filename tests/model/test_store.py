"""Files come back as they went out, and nothing damaged gets in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coterie.accounting.price import price
from coterie.errors import InputError
from coterie.model.store import load_design, load_workload, save_design, save_workload
from coterie.systems import SYSTEMS
from tests.conformance.deviations import instance_for


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_saved_design_prices_the_same(name: str, tmp_path: Path) -> None:
    system = SYSTEMS[name]
    workload = instance_for(system, 15, 5, seed=3)
    design = system.plan(workload, seed=3)
    save_workload(workload, tmp_path / "w.npz")
    save_design(design, tmp_path / "d.npz")
    again = load_workload(tmp_path / "w.npz")
    assert again.interests == workload.interests
    assert price(load_design(tmp_path / "d.npz"), again) == price(design, workload)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["d.npz", "w.npz"]


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "w.npz"
    save_workload(instance_for(SYSTEMS["scribe"], 15, 5, seed=3), path)
    return path


def test_truncated_files_are_refused_wherever_they_end(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, max(len(whole) // 50, 1)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"w\.npz"):
            load_workload(path)


def test_no_damage_gives_anything_but_an_input_error(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole = path.read_bytes()
    draw = np.random.default_rng(1)
    for _ in range(300):
        broken = bytearray(whole)
        for at in draw.integers(0, len(broken), 3):
            broken[at] = draw.integers(0, 256)
        path.write_bytes(bytes(broken))
        try:
            load_workload(path).interests.check("again")
        except InputError:
            continue


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("attachment", np.array([99] * 15, np.int32), "attachment"),
        ("interests.columns", np.array([7], np.int32), "offsets"),
        ("publications.rate", np.zeros(1, np.float32), "float32"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, part: str, value: np.ndarray, says: str) -> None:
    path = saved(tmp_path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays[part] = value
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=says):
        load_workload(path)


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_workload(tmp_path / "none.npz")
    path = saved(tmp_path)
    with pytest.raises(InputError, match="expected a coterie design"):
        load_design(path)
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(InputError, match="damaged"):
        load_workload(tmp_path / "text.npz")
    with pytest.raises(InputError, match="cannot be written"):
        save_workload(instance_for(SYSTEMS["scribe"], 3, 2, seed=1), tmp_path / "no" / "folder.npz")
