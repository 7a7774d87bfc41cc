"""The runner: whole outputs or none, nothing done twice, resuming after a kill."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest

from coterie.errors import ConfigError
from coterie.pipeline.legs import Legs
from coterie.pipeline.steps import MANIFEST, Step, read_manifest, run_steps


class Recorder:
    def __init__(self):
        self.ran = []

    def step(self, name, inputs=(), text="x", **more):
        def run(out, given):
            self.ran.append(name)
            before = "".join((given[other] / "data.txt").read_text() for other in inputs)
            (out / "data.txt").write_text(before + text)
            return {"length": len(before + text)}

        return Step(name, run, tuple(inputs), {"text": text}, **more)


def test_steps_run_once_and_are_kept_while_nothing_changes(tmp_path):
    recorder = Recorder()
    for _ in range(2):
        done = run_steps([recorder.step("a"), recorder.step("b", ["a"])], tmp_path)
    assert recorder.ran == ["a", "b"]
    assert done["b"].kept
    assert (done["b"].path / "data.txt").read_text() == "xx"
    assert done["b"].facts["length"] == 2


def test_a_changed_parameter_runs_the_step_and_what_depends_on_it(tmp_path):
    recorder = Recorder()
    run_steps([recorder.step("a"), recorder.step("b", ["a"]), recorder.step("c")], tmp_path)
    done = run_steps([recorder.step("a", text="y"), recorder.step("b", ["a"]), recorder.step("c")], tmp_path)
    assert recorder.ran == ["a", "b", "c", "a", "b"]
    assert (done["b"].path / "data.txt").read_text() == "yx"
    assert len(list((tmp_path / "a").iterdir())) == 1


@pytest.mark.parametrize("is_hashed", [False, True])
def test_a_changed_source_file_runs_the_step_and_a_touched_one_only_if_nobody_looks_inside(tmp_path, is_hashed):
    recorder = Recorder()
    source = tmp_path / "source.csv"
    for number, content in enumerate(("one", "one", "one", "two")):
        if number != 1:
            source.write_text(content)
            os.utime(source, (number, number))
        run_steps([recorder.step("a", sources={source: None}, is_hashed=is_hashed)], tmp_path / "out")
    assert recorder.ran == ["a"] * (2 if is_hashed else 3)


def test_a_damaged_output_is_made_again(tmp_path):
    recorder = Recorder()
    done = run_steps([recorder.step("a")], tmp_path)
    (done["a"].path / "data.txt").write_text("longer than before")
    assert read_manifest(done["a"].path) is None
    done = run_steps([recorder.step("a")], tmp_path)
    assert (done["a"].path / "data.txt").read_text() == "x"


def test_a_failing_step_leaves_no_output_and_keeps_the_earlier_ones(tmp_path):
    recorder = Recorder()

    def fail(out, given):
        (out / "half.txt").write_text("half")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_steps([recorder.step("a"), Step("b", fail, ("a",))], tmp_path)
    done = run_steps([recorder.step("a"), recorder.step("b", ["a"])], tmp_path)
    assert recorder.ran == ["a", "b"]
    assert sorted(p.name for p in done["b"].path.iterdir()) == ["data.txt", MANIFEST]
    assert [p.name for p in (tmp_path / "b").iterdir()] == [done["b"].fingerprint]


def test_a_killed_run_is_resumed_with_the_same_result(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from coterie.pipeline.steps import Step, run_steps
        def first(out, given): (out / "data.txt").write_text("first")
        def second(out, given):
            (out / "half.txt").write_text("half")
            if sys.argv[2] == "kill": os.kill(os.getpid(), signal.SIGKILL)
            (out / "data.txt").write_text((given["first"] / "data.txt").read_text() + " second")
        done = run_steps([Step("first", first), Step("second", second, ("first",))], Path(sys.argv[1]))
        sys.stdout.write(f"{done['first'].kept} {(done['second'].path / 'data.txt').read_text()}")
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run([*command, "kill"], check=False).returncode == -signal.SIGKILL
    again = subprocess.run([*command, "go"], check=True, capture_output=True, text=True)
    assert again.stdout == "True first second"


def test_the_manifest_says_what_was_made_of_what(tmp_path):
    recorder = Recorder()
    done = run_steps([recorder.step("a"), recorder.step("b", ["a"])], tmp_path)
    manifest = json.loads((done["b"].path / MANIFEST).read_text())
    assert manifest["inputs"] == {"a": done["a"].fingerprint}
    assert manifest["params"] == {"text": "x"}
    assert manifest["files"] == {"data.txt": 2}


def test_progress_names_every_step_from_0_to_1(tmp_path):
    recorder, told = Recorder(), []
    run_steps([recorder.step("a"), recorder.step("b")], tmp_path, progress=lambda *what: told.append(what))
    assert told == [("a", 0.0), ("a", 1.0), ("b", 0.0), ("b", 1.0)]


def test_progress_follows_spark_tasks_and_never_falls(tmp_path):
    told, enough = [], threading.Event()
    counts = iter([(1, 8), (6, 8), (0, 4)])  # a later stage starts anew

    class Tracker:
        def getActiveStageIds(self):
            return [7]

        def getStageInfo(self, stage):
            done, total = next(counts, (0, 0))
            if not total:
                enough.set()
            return SimpleNamespace(numTasks=total, numCompletedTasks=done)

    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
    step = Step("slow", lambda out, given: enough.wait(20) and None)
    run_steps([step], tmp_path, progress=lambda *what: told.append(what), spark=spark)
    assert [fraction for _, fraction in told] == [0.0, 0.125, 0.75, 0.75, 1.0]


def test_a_step_of_many_jobs_says_which_leg_of_its_way_they_are(tmp_path):
    told, counts, asked = [], {"now": (0, 4)}, threading.Condition()

    class Tracker:
        def getActiveStageIds(self):
            return [7]

        def getStageInfo(self, stage):
            done, total = counts["now"]
            return SimpleNamespace(numTasks=total, numCompletedTasks=done)

    def tell(*what):
        with asked:
            told.append(what)
            asked.notify_all()

    def until(share):
        with asked:
            assert asked.wait_for(lambda: told[-1][1] == share, 20), told

    legs = Legs()

    def run(out, given):
        legs(0.0, 0.5)
        counts["now"] = (2, 4)
        until(0.25)
        counts["now"] = (0, 2)  # the job of the next leg
        legs(0.5, 1.0)
        until(0.5)
        counts["now"] = (1, 2)
        until(0.75)

    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
    run_steps([Step("long", run, legs=legs)], tmp_path, progress=tell, spark=spark)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="no other run is using"):
            run_steps([Recorder().step("a")], tmp_path)


@pytest.mark.parametrize("inputs", [["b"], ["a"]])
def test_a_step_may_read_only_earlier_ones(tmp_path, inputs):
    with pytest.raises(ConfigError, match="which no earlier step makes"):
        run_steps([Recorder().step("a", inputs)], tmp_path)


def test_leftovers_of_a_dead_process_are_swept(tmp_path):
    for _ in range(2):  # made, then kept
        (tmp_path / "a" / "0123456789abcdef").mkdir(parents=True)
        done = run_steps([Recorder().step("a")], tmp_path)
        assert os.listdir(tmp_path / "a") == [done["a"].fingerprint]
