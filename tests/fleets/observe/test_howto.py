"""docs/howto/observe.md, followed word for word by two real mosquittos and their clients."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coterie.cli import main
from coterie.pipeline import latesession
from coterie.pipeline.session import open_session
from tests.fleets.observe.real_mosquitto import Paho, RealMosquitto, needs_mosquitto

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "observe.md"


def run(block: str, folder: Path) -> str:
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "coterie"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m coterie "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_here(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """One command in this process, over the Spark session that other tests use: nothing is started for it alone."""
    session = open_session("local[1]", profile="test", work_dir=folder / "spark")
    monkeypatch.setattr(latesession, "_open", lambda master: session)
    monkeypatch.setattr(session, "stop", lambda: None)
    monkeypatch.setattr(sys, "argv", shlex.split(block))
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main.run()
    said = capsys.readouterr()
    assert not ended.value.code, said.err
    return said.out


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(280)
@needs_mosquitto
def test_the_page(tmp_path, monkeypatch, capsys):
    on, observe, follow, compare = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
    quiet = "log_type notice\npid_file {}/mosquitto.pid"
    north = RealMosquitto(tmp_path / "north", "mosquitto", quiet.format(tmp_path / "north"))
    south = RealMosquitto(tmp_path / "south", "mosquitto", quiet.format(tmp_path / "south"))
    with north, south:
        run(on, tmp_path)
        clients = [Paho((north, south)[number % 2].port, f"client {number}") for number in range(8)]
        for number, client in enumerate(clients):
            client.subscribe(f"t/{number // 2}", f"t/{number // 2 + 1}", "all/#")
        stop = threading.Event()
        talking = threading.Thread(target=talk, args=(clients, stop))
        talking.start()
        try:
            said = run(observe, tmp_path) + run(follow, tmp_path)
        finally:
            stop.set()
            talking.join()
            for client in clients:
                client.leave()
    assert re.search(r"north +[\d,]+ +[\d,]+ +[\d,]+ +0 ", said), said
    assert "lines added to journal" in said
    assert "mesh" in run_here(compare, tmp_path, monkeypatch, capsys)
    told = [
        json.loads(line) for path in (tmp_path / "journal").glob("*/*.jsonl") for line in path.read_text().splitlines()
    ]
    assert sum(line["kind"] == "subscribe" for line in told) == 24
    assert {line["client"] for line in told if line["kind"] == "publish"} == {client.name for client in clients}


def talk(clients: list[Paho], stop: threading.Event) -> None:
    for turn in range(10_000):
        if stop.wait(0.02):
            return
        clients[turn % 8].publish(f"t/{turn % 5}", b"x" * 100)
