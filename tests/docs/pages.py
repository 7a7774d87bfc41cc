"""Pages of the documentation as tests see them: their blocks of code in order, and how commands in them are run."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECONDS_MAX = 240


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text."""

    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    return [Block(language, text) for language, text in FENCE.findall(page.read_text())]


def all_pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def with_command(folder: Path) -> dict[str, str]:
    """An environment in which `coterie` is this very code, whatever is installed."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "coterie"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m coterie "$@"\n')
    command.chmod(0o755)
    python = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": python}


def run(block: str, folder: Path, environment: dict[str, str]) -> str:
    """What a block of shell commands prints; a command that fails fails the test."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def running(command: str, folder: Path, environment: dict[str, str], ready: str) -> Iterator[None]:
    """A command that goes on until it is stopped, from the moment it says `ready`."""
    log = folder / "running.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        for _ in range(600):
            if ready in log.read_text():
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_base(count: int) -> int:
    """A port such that it and the next ones, and those a thousand and two thousand higher, are free now."""
    for base in random.sample(range(20_000, 29_000, count), 200):
        ports = [base + number + higher for number in range(count) for higher in (0, 1000, 2000)]
        with ExitStack() as held:
            try:
                for port in ports:
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        return base
    raise OSError("no free ports")


def plain(text: str) -> str:
    """Text with its spaces and line ends evened out."""
    return " ".join(text.split())
