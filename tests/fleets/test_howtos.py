"""The how-to pages, followed word for word: their fleet file, their commands, in their order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fleets.nats import NatsCrowd, NatsFleet
from tests.fleets.plans import publish_plan
from tests.fleets.stock import Crowd, Stock, answers, program, until

PAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "howto"
TASTES = {"clients": 12, "topics": 12, "modes": 3, "seed": 5}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


def fleet_of_page(page: str) -> str:
    (text,) = blocks(page, "toml")
    for port in map(int, re.findall(r"127\.0\.0\.1:(\d+)", text)):
        if answers(port):
            pytest.skip(f"port {port}, which docs/howto/{page} uses, is taken on this machine")
    return text


def follow(page: str, folder: Path) -> str:
    """Run every command of a page; what they print."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "coterie"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m coterie "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}:/usr/sbin"}
    said = ""
    for block in blocks(page, "sh"):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        said += done.stdout
    return said


@contextmanager
def crowd_behind(stock: Stock) -> Iterator[Crowd]:
    crowd = Crowd(**TASTES)
    crowd.start(lambda name: stock.front)
    try:
        yield crowd
    finally:
        crowd.stop()


def plan_for(folder: Path, brokers: list[str], system: str) -> Crowd:
    crowd = Crowd(**TASTES)
    publish_plan(folder / "plan", crowd.wishes, crowd.publishes, brokers, system)
    return crowd


@pytest.mark.interop
@pytest.mark.timeout(120)
def test_haproxy(tmp_path):
    program("haproxy")
    plan_for(tmp_path, ["b0", "b1", "b2"], "mesh")
    (tmp_path / "fleet.toml").write_text(fleet_of_page("haproxy.md"))
    with Stock(tmp_path, text=fleet_of_page("haproxy.md")) as stock:
        stock.stop("haproxy")  # the page starts it
        try:
            said = follow("haproxy.md", tmp_path)
        finally:
            with suppress(OSError, ValueError):
                os.kill(int((tmp_path / "haproxy.pid").read_text()), signal.SIGTERM)
    assert "haproxy: ready to apply" in said
    assert "map entries" in said
    assert "rolled back" in said


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_mosquitto_acl(tmp_path):
    """From the brokers' own logs to the plan, to fewer copies, and back."""
    with Stock(tmp_path, text=fleet_of_page("mosquitto-acl.md")) as stock, crowd_behind(stock) as crowd:
        crowd.publish(3, 0, "before")
        crowd.settle()
        said = follow("mosquitto-acl.md", tmp_path)
        until(lambda: len(crowd.subscribed) == len(crowd.wishes), "everybody is back")
        crowd.publish(1, 0, "still there")
        crowd.settle()
        assert (crowd.missing(), crowd.twice()) == (0, 0)
    assert "mosquitto-acl: ready to apply" in said
    assert "the plan's hub" not in said
    assert "copies measured" in said
    assert "topic read mode" in said
    assert "rolled back" in said


@pytest.mark.interop
@pytest.mark.timeout(120)
def test_mosquitto_bridges(tmp_path):
    plan_for(tmp_path, ["b0", "b1", "b2"], "coterie:links=lean")
    text = fleet_of_page("mosquitto-bridges.md")
    with Stock(tmp_path, has_star=False, text=text) as stock, crowd_behind(stock) as crowd:
        said = follow("mosquitto-bridges.md", tmp_path)
        until(lambda: len(crowd.subscribed) == len(crowd.wishes), "everybody is back")
    assert "copies measured" in said
    assert "rolled back" in said


@pytest.mark.interop
@pytest.mark.timeout(120)
def test_nats(tmp_path):
    tastes = Crowd(**TASTES)
    publish_plan(tmp_path / "plan", tastes.wishes, tastes.publishes, ["b0", "b1", "b2"], "mesh")
    text = fleet_of_page("nats.md")
    with NatsFleet(tmp_path, 3, [*tastes.wishes, "admin"], text) as fleet:
        crowd = NatsCrowd(tastes.wishes, fleet.ports, seed=1)
        try:
            until(lambda: len(crowd.at) == len(crowd.wishes), "everybody is connected")
            said = follow("nats.md", tmp_path)
            until(lambda: len(crowd.at) == len(crowd.wishes), "everybody is back")
        finally:
            crowd.stop()
    assert "copies measured" in said
    assert "rolled back" in said


@pytest.mark.interop
@pytest.mark.timeout(120)
def test_loop(tmp_path):
    with Stock(tmp_path, text=fleet_of_page("loop.md")) as stock, crowd_behind(stock) as crowd:
        crowd.publish(3, 0, "before")
        crowd.settle()
        said = follow("loop.md", tmp_path)
        until(lambda: len(crowd.subscribed) == len(crowd.wishes), "everybody is back")
        crowd.publish(1, 0, "after")
        crowd.settle()
        assert (crowd.missing(), crowd.twice()) == (0, 0)
    assert "12 clients" in said
    assert "would be applied: saves" in said
    assert "; applied: saves" in said


@pytest.mark.parametrize(("page", "brokers"), [("emqx.md", ["e1", "e2", "e3"]), ("table.md", ["b0", "b1", "b2"])])
def test_pages_that_only_write_files(tmp_path, page, brokers):
    crowd = plan_for(tmp_path, brokers, "mesh")
    (tmp_path / "fleet.toml").write_text(blocks(page, "toml")[0])
    said = follow(page, tmp_path)
    assert "client%20" in said or next(iter(crowd.wishes)) in said


def test_every_target_has_a_page_and_every_page_is_followed():
    from coterie.fleets.export.registry import TARGETS

    pages = {path.name for path in PAGES.glob("*.md")}
    assert "loop.md" in pages
    wanted = {"nats.md" if name.startswith("nats") else f"{name}.md" for name in TARGETS}
    assert wanted <= pages
