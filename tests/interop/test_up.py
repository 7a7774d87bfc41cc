"""`coterie up`, `pub`, `sub`, `top` and `bench` as a person would use them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.api.places import ADMIN_OFFSET, LINK_OFFSET
from coterie.live.tokens import TOKEN_FILE, read_token

pytestmark = pytest.mark.interop
RUN = """
import sys, typer
from coterie.cli.groups import spread
from coterie.cli.{module} import {name}
sys.argv[0] = "coterie"
typer.run(spread({name}))
"""


def command(module: str, name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", RUN.format(module=module, name=name), *arguments]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_base() -> int:
    """Below the ports that the system gives out by itself, and not where another run of this test looks first."""
    for base in range(20_000 + os.getpid() % 900 * 10, 30_000, 10):
        if all(is_free(base + offset + node) for offset in (0, ADMIN_OFFSET, LINK_OFFSET) for node in (0, 1)):
            return base
    pytest.skip("no free range of ports")


def test_a_network_with_one_command(tmp_path: Path) -> None:
    base = free_base()
    options = ["--nodes", "2", "--system", "scribe", "--base-port", str(base), "--data", str(tmp_path / "net")]
    network = subprocess.Popen(command("up", "up_command", *options), stdout=subprocess.PIPE, text=True)
    assert network.stdout is not None
    try:
        assert "2 nodes" in network.stdout.readline()
        reading = subprocess.Popen(
            command("pubsub", "sub_command", "news/#", "-p", str(base), "-c", "2", "-w", "30", "--json"),
            stdout=subprocess.PIPE,
        )
        subscribed = False
        token = read_token(tmp_path / "net" / TOKEN_FILE)
        while not subscribed:
            channels = subprocess.run(
                [sys.executable, "-c", f"from coterie.plans.admin import ask; import json; "
                 f"print(json.dumps(ask('127.0.0.1', {base + ADMIN_OFFSET}, '/channels', '{token}')))"],
                capture_output=True, check=True,
            )  # fmt: skip
            subscribed = json.loads(channels.stdout)["subscriptions"] == 1
        talk = command("pubsub", "pub_command", "news/x", "-p", str(base + 1))
        subprocess.run(talk, input=b"one\ntwo\n", check=True)
        said, _ = reading.communicate(timeout=40)
        assert [json.loads(line)["payload"] for line in said.splitlines()] == ["one", "two"]
        bench = command("bench", "bench_command", "-p", str(base), "-p", str(base + 1), "-n", "1000", "--json")
        figures = json.loads(subprocess.run(bench, capture_output=True, check=True).stdout)
        assert figures["delivered"] == 1000
        assert figures["missing"] == 0
        top = command(
            "top",
            "top_command",
            "--nodes",
            "2",
            "--base-port",
            str(base),
            "--once",
            "--interval",
            "0.2",
            "--data",
            str(tmp_path / "net"),
        )
        shown = subprocess.run(top, capture_output=True, check=True, env={**os.environ, "COLUMNS": "200"}).stdout
        assert b"copies/s" in shown
        assert len(shown.splitlines()) == 4
    finally:
        network.send_signal(signal.SIGINT)
        network.communicate(timeout=30)
    assert network.returncode == 0
    assert sorted(path.name for path in (tmp_path / "net" / "journal").iterdir()) == ["node-0", "node-1"]
    for node in (0, 1):
        assert "Traceback" not in (tmp_path / "net" / f"node-{node}" / "node.log").read_text()
