"""The command as a person or a program uses it: real processes, real output, exit codes that mean something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.sim.run import STORM_S

SMALL = ["--nodes", "60", "--topics", "12", "--subscriptions", "3", "--with", "modes=3", "--with", "modes_per_peer=1"]


def coterie(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coterie", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=200,
    )


def test_simulate_is_the_same_bytes_twice_and_under_another_hash_seed() -> None:
    arguments = ["simulate", "--system", "scribe", "--workload", "multimodal", *SMALL, "--seed", "7", "--json"]
    first = coterie(*arguments, PYTHONHASHSEED="1")
    assert first.returncode == 0, first.stderr
    assert first.stdout == coterie(*arguments, PYTHONHASHSEED="2").stdout
    ledger = json.loads(first.stdout)["ledger"]
    assert ledger["loss.owed"] == ledger["loss.delivered"] == 180 / 60  # a second


def test_simulate_with_faults_lists_what_was_lost() -> None:
    done = coterie("simulate", *SMALL, "--seed", "3", "--faults", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["probes"] == 12
    assert report["ledger"]["loss.lost"] * STORM_S == pytest.approx(len(report["lost"]))
    assert all(entry["reason"] for entry in report["lost"])


def test_price_saves_what_can_be_priced_again(tmp_path: Path) -> None:
    first = coterie("price", *SMALL, "--system", "scribe", "--save", str(tmp_path), "--json")
    assert first.returncode == 0, first.stderr
    again = coterie(
        "price", "--from", str(tmp_path / "workload.npz"), "--design", str(tmp_path / "design-scribe.npz"), "--json"
    )
    assert json.loads(again.stdout)["ledgers"] == json.loads(first.stdout)["ledgers"]


def test_tables_are_for_people() -> None:
    done = coterie("price", *SMALL, "--system", "flooding", "--system", "scribe")
    assert "lower bound" in done.stdout
    assert "dissemination.relayed" in done.stdout
    assert "simulate" in coterie("--help").stdout
    assert "scribe" in coterie("systems").stdout
    assert "leaves" in coterie("systems", "scribe").stdout
    assert "multimodal" in coterie("workloads").stdout
    assert coterie("--version").stdout.startswith("coterie ")


def test_doctor_finds_everything() -> None:
    done = coterie("doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert {check["name"] for check in json.loads(done.stdout)["checks"]} >= {"python", "java", "kernels", "pyspark"}


def test_a_trace_can_be_written(tmp_path: Path) -> None:
    done = coterie("simulate", *SMALL, "--trace", str(tmp_path / "trace.jsonl"), "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert {"started", "subscribed", "published", "sent", "delivered"} <= {line["what"] for line in lines}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["simulate", "--system", "gossip"], 2, "one of flooding, mesh"),
        (["simulate", "--workload", "nonsense"], 2, "multimodal"),
        (["simulate", "--nodes", "-4"], 2, "nodes: expected"),
        (["simulate", "--nodes", "many"], 2, "--nodes"),
        (["simulate", "--with", "colour=red"], 2, "colour"),
        (["simulate", "--with", "modes"], 2, "NAME=VALUE"),
        (["simulate", "--set", "leaves=7"], 2, "leaves: expected an even number"),
        (["simulate", "--set", "leaves=x"], 2, "leaves"),
        (["simulate", "--latency", "fast"], 2, "--latency"),
        (["simulate", "--from", "no-such-file.npz"], 3, "no such file"),
        (["price", "--from", "pyproject.toml"], 3, "damaged"),
        (["simulate", *SMALL, "--trace", "no/such/folder/trace"], 3, "cannot be written"),
    ],
)
def test_mistakes_get_one_clear_sentence(arguments: list[str], code: int, says: str) -> None:
    done = coterie(*arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
