"""kill -9 in the middle of a join, a drain, a backup or a migration: started again, it is as it should be."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coterie.broker.writes import META, SESSIONS, SUBSCRIPTIONS
from coterie.live.backup import back_up, restore
from coterie.live.config import load_config
from coterie.live.store import STORE_FILE, Store
from coterie.mqtt.packets import Subscription
from coterie.plans.admin import ask
from tests.interop.fleet import TOKEN, Network, run, until
from tests.interop.test_members import client, newcomer, node_of, states

pytestmark = pytest.mark.interop
DIE = "os.kill(os.getpid(), signal.SIGKILL)"
NODE = """
import os, signal, sys
from pathlib import Path
from coterie.broker.draining import Draining
from coterie.broker.membership import MEMBERS
from coterie.cli.node import node_command
from coterie.live.store import Store
{plot}
node_command(Path(sys.argv[1]))
"""
# Where each of them dies.
BEFORE_THE_LIST = """
keep = Store.keep
def dying(self, writes):
    if any(key == MEMBERS for _, key, _ in writes):
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, writes)
Store.keep = dying
"""
BEHIND_THE_LIST = """
keep = Store.keep
def dying(self, writes):
    keep(self, writes)
    if any(key == MEMBERS for _, key, _ in writes):
        os.kill(os.getpid(), signal.SIGKILL)
Store.keep = dying
"""
AT_SESSIONS = "Draining._hand_over = lambda self, left: os.kill(os.getpid(), signal.SIGKILL)"
AT_LOG = "Draining._await_log = lambda self: os.kill(os.getpid(), signal.SIGKILL)"


def start(path: Path, plot: str) -> subprocess.Popen[bytes]:
    with open(path.parent / "log", "ab") as log:
        command = [sys.executable, "-c", NODE.format(plot=plot), str(path)]
        return subprocess.Popen(command, stdout=log, stderr=log)


async def died(process: subprocess.Popen[bytes], path: Path) -> None:
    code = await asyncio.to_thread(process.wait, 60)
    assert code == -signal.SIGKILL, (path.parent / "log").read_text()


@pytest.mark.parametrize("plot", [BEFORE_THE_LIST, BEHIND_THE_LIST], ids=["before the list", "behind the list"])
def test_a_join(tmp_path, plot):
    async def main() -> None:
        async with Network(tmp_path, "mesh", 2) as network:
            config = newcomer(tmp_path / "late", load_config(network.paths[0]), 2)
            path = tmp_path / "late" / "node.toml"
            await died(start(path, plot), path)
            async with node_of(config) as late:
                await late.start()
                await until(lambda: late.broker.membership.is_settled, 30)
                assert [states(one) for one in (*network.nodes, late)] == [["in", "in", "in"]] * 3
                got: list[Any] = []
                reader = await client(late, "reader", got)
                await reader.subscribe("t", qos=1)
                writer = await network.client(1, "writer")
                await writer.publish("t", b"x", 1)
                await until(lambda: len(got) == 1)
                await asyncio.gather(reader.stop(), writer.stop())

    run(main)


@pytest.mark.parametrize("plot", [AT_SESSIONS, AT_LOG], ids=["sessions", "log"])
def test_a_drain(tmp_path, plot):
    async def main() -> None:
        lasting = {"clean": False, "expiry_s": 3600}
        async with Network(tmp_path, "mesh", 3) as network:
            path, got = network.paths[2], []  # type: ignore[var-annotated]
            reader = await network.client(2, "reader", got, **lasting)
            await reader.subscribe("news/+", qos=1)
            await reader.stop()
            await network.nodes.pop().stop()
            process = start(path, plot)
            try:
                await until(lambda: all(2 in one.broker.links.connected for one in network.nodes), 60)
                writer = await network.client(0, "writer")
                for number in range(10):
                    await writer.publish(f"news/{number}", b"", 1)
                await asyncio.to_thread(_drain, path)
                await died(process, path)
            finally:
                process.kill()
                process.wait(30)
            async with node_of(load_config(path)) as again:
                await again.start()  # it goes on where it was
                await until(again.left.done, 60)
            await until(lambda: all(states(one) == ["in", "in", "removed"] for one in network.nodes))
            back = await network.client(1, "reader", got, **lasting)
            await until(lambda: len(got) >= 10)
            assert [one.topic for one in got] == [f"news/{number}" for number in range(10)]
            await asyncio.gather(back.stop(), writer.stop())

    run(main)


def _drain(path: Path) -> None:
    """Told as soon as it listens."""
    port, deadline_s = load_config(path).admin.port, time.monotonic() + 60
    while ask("127.0.0.1", port, "/drain", TOKEN, "POST") is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_a_backup(tmp_path):
    store = Store(tmp_path / "data")
    store.keep([(META, "life", b"\x01")])
    plot = f"""
import os, signal, sys
from pathlib import Path
import coterie.live.backup as backup
backup._check = lambda path: {DIE}
backup.back_up(Path(sys.argv[1]), Path(sys.argv[2]))
"""
    out = tmp_path / "out.sqlite"
    done = subprocess.run([sys.executable, "-c", plot, tmp_path / "data", out], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not out.exists()  # half a backup is none
    back_up(tmp_path / "data", out)
    store.close()
    restore(out, tmp_path / "new")
    assert dict(Store(tmp_path / "new").rows(META)) == {"life": b"\x01"}


def old_store(folder: Path) -> None:
    """As 0.1 wrote it."""
    folder.mkdir()
    db = sqlite3.connect(folder / STORE_FILE)
    db.executescript(
        "create table meta (key text primary key, value integer);"
        "create table sessions (client text primary key, expiry_s integer, will blob, will_due_s real, "
        "expires_at_s real);"
        "create table subscriptions (client text, filter text, body blob);"
        "create table deliveries (client text, sequence integer, body blob);"
        "create table incoming (client text, packet integer);"
        "create table retained (topic text primary key, stamp integer, body blob);"
        "create table log (id integer primary key, topic text, body blob);"
    )
    body = msgspec.msgpack.encode(Subscription("a/#", 1))
    for number in range(50):
        db.execute("insert into sessions values (?, 3600, null, null, null)", (f"c{number}",))
        db.execute("insert into subscriptions values (?, 'a/#', ?)", (f"c{number}", body))
    db.commit()
    db.close()


@pytest.mark.parametrize("statement", [1, 3, 8, 20, 40, 60])
def test_a_migration(tmp_path, statement):
    old_store(tmp_path / "data")
    plot = f"""
import os, signal, sys
from pathlib import Path
from coterie.live.store import Store
opened, left = Store._open, [{statement}]
def counted(text):
    left[0] -= 1
    if left[0] <= 0:
        {DIE}
def opening(self):
    db = opened(self)
    db.set_trace_callback(counted)
    return db
Store._open = opening
Store(Path(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", plot, tmp_path / "data"], check=False)
    assert done.returncode == -signal.SIGKILL
    store = Store(tmp_path / "data")
    assert len(store.rows(SESSIONS)) == len(store.rows(SUBSCRIPTIONS)) == 50
    store.close()
