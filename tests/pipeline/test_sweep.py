"""Sweeps: every measurement once, failures told, everything else kept, interrupted ones resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import ConfigError, RunError
from coterie.pipeline.sweep import Measurement, _neighbours, in_processes, in_spark, measured, sweep

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def make_measure():
    """A function made here travels by value: the workers cannot import this module."""

    def measure(point: Mapping[str, Any], seed: int) -> dict[str, float]:
        with open(point["log"], "a") as file:  # one line per run, from whichever process
            file.write(f"{point['x']} {seed} {os.getpid()}\n")
        if point["x"] == point.get("deadly"):
            with suppress(FileNotFoundError):  # whoever resumes is spared
                os.kill(int(Path(point["driver"]).read_text()), signal.SIGKILL)
                time.sleep(3)  # holds the only slot until Spark has noticed
        if point["x"] == point.get("broken"):
            raise ValueError("no such thing")
        if point["x"] == point.get("refused"):
            raise ConfigError("x", point["x"], "something else")
        return {"y": point["x"] * 10 + seed, "z": 1}

    return measure


def measurements(tmp_path: Path, xs, seeds=(1, 2), version="1", **more) -> list[Measurement]:
    return [
        Measurement("test", {"x": x, "log": str(tmp_path / "log"), **more}, seed, make_measure(), version)
        for x in xs
        for seed in seeds
    ]


def ran(tmp_path: Path) -> list[tuple[int, int]]:
    return sorted(tuple(map(int, line.split()[:2])) for line in (tmp_path / "log").read_text().splitlines())


def test_what_measured_nothing_is_tried_again(tmp_path):
    """A trace was not there; it may be by now."""
    found: list[dict[str, float]] = [{}, {"y": 1.0}]
    one = [Measurement("test", {"x": 0}, 1, lambda point, seed: found.pop(0), "1")]
    for expected in ({}, {"y": 1.0}, {"y": 1.0}):
        assert sweep(in_processes(), one, tmp_path)[one[0].key]["values"] == expected


def test_every_measurement_runs_once_and_only_missing_ones_run_again(spark, tmp_path):
    wanted = measurements(tmp_path, [0, 1, 2])
    results = sweep(in_spark(spark), wanted, tmp_path / "results")
    assert {results[one.key]["values"]["y"] for one in wanted} == {1.0, 2.0, 11.0, 12.0, 21.0, 22.0}
    assert all(results[one.key]["seconds"] >= 0 for one in wanted)
    assert len(ran(tmp_path)) == 6
    (tmp_path / "results" / f"{wanted[3].key}.json").unlink()
    (tmp_path / "results" / f"{wanted[4].key}.json").write_text('{"values"')  # damaged counts as missing
    (tmp_path / "log").unlink()
    again = sweep(in_spark(spark), wanted, tmp_path / "results")
    assert ran(tmp_path) == [(1, 2), (2, 1)]
    assert {key: found["values"] for key, found in again.items()} == {
        key: found["values"] for key, found in results.items()
    }


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_sweep as tests
from coterie.pipeline.session import open_session
folder = Path(sys.argv[2])
(folder / "driver").write_text(str(os.getpid()))
tests.sweep(tests.in_spark(open_session("local[1]", profile="test")), tests.deadly(folder), folder / "results")
"""


def deadly(folder: Path) -> list[Measurement]:
    return measurements(folder, range(5), deadly=2, driver=str(folder / "driver"))


def test_a_killed_sweep_is_finished_by_the_next_with_the_same_results(spark, tmp_path):
    home = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    killed = subprocess.run([sys.executable, "-c", KILLED, home, str(tmp_path)], check=False, env=environment)
    assert killed.returncode == -signal.SIGKILL
    (tmp_path / "driver").unlink()
    before = ran(tmp_path)
    assert (4, 2) not in before
    assert {(0, 1), (0, 2), (1, 1), (1, 2), (2, 1)} <= set(before)
    kept = {path.stem for path in (tmp_path / "results").glob("*.json")}
    resumed = sweep(in_spark(spark), deadly(tmp_path), tmp_path / "results")
    again = ran(tmp_path)[:]
    for one in before:
        again.remove(one)
    assert {resumed[one.key]["values"]["y"] for one in deadly(tmp_path)} == {
        x * 10 + seed for x in range(5) for seed in (1, 2)
    }
    assert len(again) <= 10 - len(kept)
    assert not {(0, 1), (0, 2), (1, 1), (1, 2)} & set(again)


def test_failures_are_told_and_the_others_are_kept(spark, tmp_path):
    wanted = measurements(tmp_path, [0, 1, 2], seeds=[1], broken=1, refused=2)
    with pytest.raises(RunError, match=r"2 of 3 runs failed; the first: test .*ValueError: no such thing"):
        sweep(in_spark(spark), wanted, tmp_path / "results")
    assert [path.stem for path in (tmp_path / "results").glob("*.json")] == [wanted[0].key]
    (tmp_path / "log").unlink()
    with pytest.raises(RunError):
        sweep(in_spark(spark), wanted, tmp_path / "results")
    assert ran(tmp_path) == [(1, 1), (2, 1)]


def test_a_key_names_everything_that_decides_a_result(tmp_path):
    keys = [
        one.key
        for one in [
            *measurements(tmp_path, [0, 1]),
            *measurements(tmp_path, [0, 1], version="2"),
            *measurements(tmp_path, [0, 1], extra=1),
        ]
    ]
    assert len(set(keys)) == 12
    assert keys[:4] == [one.key for one in measurements(tmp_path, [0, 1])]


def test_progress_is_told_and_nothing_to_do_is_nothing_done(spark, tmp_path):
    told: list[float] = []
    run = in_spark(spark)
    assert sweep(run, [], tmp_path / "results", lambda stage, share: told.append(share)) == {}
    sweep(run, measurements(tmp_path, [3], [1]), tmp_path / "results", lambda stage, share: told.append(share))
    assert [told[0], *dict.fromkeys(told[1:])] == [1.0, 0.0, 1.0]  # a slow start is told more than once


def test_neighbours_stay_together_and_nobody_is_left_out():
    """A process that has made an instance measures the next points of it, too; other seeds are others' work."""
    asked = [Measurement(owner, {"x": x}, seed, measured, "1") for owner in "ab" for seed in (1, 2) for x in range(7)]
    parts = list(_neighbours(asked))
    assert [one for part in parts for one in part] == asked
    assert [len(part) for part in parts] == [5, 2] * 4
    assert all(len({(one.owner, one.seed) for one in part}) == 1 for part in parts)
