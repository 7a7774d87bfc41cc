"""`coterie torture`: what it says when nothing breaks, when something does, and how that is replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from coterie.broker.machine import Broker
from coterie.broker.writes import Saved, Shelf
from coterie.cli import torturing
from coterie.cli.torturing import as_table, scored, torture_command
from coterie.errors import ConfigError
from coterie.protocol.system import System
from coterie.sim.world.drawing import Swarm
from coterie.sim.world.scenario import Scenario, read_scenario
from coterie.sim.world.site import Machine
from coterie.sim.world.torture import Job, Making, setups
from tests.sim.world.saboteurs import Saboteur

SMALL = ["--system", "flooding", "--spread", "here"]


@pytest.fixture(autouse=True)
def in_its_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(torture_command)
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, ConfigError):
        raise done.exception
    return done.exit_code, done.output


def test_a_run_says_what_was_injected_and_checked() -> None:
    code, output = run(*SMALL, "--seeds", "3", "--nodes", "2", "--json")
    told = json.loads(output)
    assert code == 0
    assert told["seeds"] == 3
    assert told["checked"]["owed"] > 0
    assert told["broken"] == []
    assert told["cpu_s"] > 0
    kept = json.loads(Path("out/torture/report.json").read_text())
    assert kept == {name: value for name, value in told.items() if name != "schema"}


def test_systems_take_turns_and_an_interrupted_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torturing, "SEEDS_PER_JOB", 1)
    arguments = ("--spread", "here", "-s", "flooding", "-s", "star", "--seeds", "4", "--nodes", "2", "--json")
    ran: list[int] = []

    def until(last: int) -> Callable[[Job], bytes]:
        def one(job: Job) -> bytes:
            if job.first >= last:
                raise KeyboardInterrupt
            ran.append(job.first)
            return scored(job)

        return one

    monkeypatch.setattr(torturing, "scored", until(3))
    assert run(*arguments)[0] != 0
    with Path("out/torture/done.jsonl").open("a") as lines:
        lines.write('["half')  # a power cut
    monkeypatch.setattr(torturing, "scored", until(9))
    code, output = run(*arguments)
    assert (code, ran) == (0, [0, 1, 2, 3])
    assert json.loads(output)["systems"] == {"flooding": 2, "star": 2}
    assert not Path("out/torture/done.jsonl").exists()


def test_what_breaks_is_written_down_small_and_replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def badly(scenario: Scenario, system_named: Callable[[str], System]) -> Making:
        made = setups(scenario, system_named)

        def make(node: int, shelf: Shelf) -> Machine:
            return Saboteur(Broker(made[node], shelf), lambda orders: orders, lambda saved: Saved())

        return make

    monkeypatch.setattr("coterie.sim.world.torture.brokers_of", badly)
    monkeypatch.setattr(torturing, "brokers_of", badly)
    monkeypatch.setattr(torturing, "SHRUNK", 1)
    code, output = run(*SMALL, "--seeds", "12", "--nodes", "1", "--faults", "kill", "-o", str(tmp_path))
    assert code == 1
    told = json.loads((tmp_path / "report.json").read_text())
    broken = [(one["seed"], one["violations"][0]["rule"]) for one in told["broken"]]
    paths = [tmp_path / f"flooding-{seed}-{rule}.json" for seed, rule in broken]
    assert len(paths) > 1
    assert all(f"coterie torture --replay {one}" in output and one.exists() for one in paths)  # all, small or not
    path = paths[0]
    assert len(read_scenario(path).actions) < 10
    code, output = run("--replay", str(path))
    assert code == 1
    assert f"{path.stem.rpartition(chr(45))[2]}: " in output


@pytest.mark.parametrize(
    ("option", "value"), [("--seeds", "5:2"), ("--seeds", "x"), ("--faults", "storm"), ("--spread", "wide")]
)
def test_a_wrong_option_is_named(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=option):
        run(*SMALL, "--seeds", "1", option, value)


def test_a_job_gives_the_same_score_as_a_task_of_spark_would() -> None:
    job = Job(("flooding",), 0, 1, Swarm(2))
    told, table = json.loads(scored(job)), as_table(job)
    again = json.loads(table["score"][0].as_py())
    assert {**told, "cpu_s": 0} == {**again, "cpu_s": 0}
