"""The same users and rules at a node of ours and at mosquitto, so that what is tried on one is tried on the other."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.broker.test_access import cheap
from tests.interop.fleet import free_ports, lone_config, to_toml

OLD = os.environ.get("COTERIE_OLD", "")  # a checkout of another version: what is tried here is tried on its nodes
MOSQUITTO = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
Users = dict[str, dict[str, Any]]  # name (its password too) -> publish, subscribe


def users_of(users: Users) -> list[dict[str, Any]]:
    return [{"name": name, "password": cheap(name), **rules} for name, rules in users.items()]


@asynccontextmanager
async def broker_with(kind: str, folder: Path, users: Users) -> AsyncIterator[int]:
    """Its MQTT port. Users only; nobody comes in without a name."""
    if kind == "coterie" and OLD:
        async with _other_version(folder, {"anonymous": "never", "users": users_of(users)}) as port:
            yield port
        return
    if kind == "coterie":
        config = lone_config(folder, access={"anonymous": "never", "users": users_of(users)})
        node = LiveNode(config, system_named("flooding"))
        await node.start()
        try:
            yield node.ports["mqtt"]
        finally:
            await node.stop()
        return
    if MOSQUITTO is None or shutil.which("mosquitto_passwd") is None:
        pytest.skip("mosquitto is not installed")
    (port,) = free_ports(1)
    process = subprocess.Popen([MOSQUITTO, "-c", str(_configured(folder, port, users))], stderr=subprocess.DEVNULL)
    async with _listening(process, port):
        yield port


@asynccontextmanager
async def _listening(process: subprocess.Popen[bytes], port: int) -> AsyncIterator[None]:
    """While it does; it is ended afterwards."""
    try:
        await listens(port)
        yield
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def _other_version(folder: Path, access: dict[str, Any]) -> AsyncIterator[int]:
    (port,) = free_ports(1)
    (folder / "node.toml").write_text(
        to_toml({"node": {"data": "."}, "mqtt": {"port": port}, "admin": {"port": 0}, "access": access})
    )
    command = [sys.executable, "-m", "coterie", "node", "--config", str(folder / "node.toml")]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": f"{OLD}/src"}, stderr=subprocess.DEVNULL)
    async with _listening(process, port):
        yield port


@contextmanager
def open_mosquitto(packet_bytes_max: int) -> Iterator[int]:
    """The port of one that lets everybody in; it may take a moment to listen."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as name:
        settings = Path(name) / "mosquitto.conf"
        settings.write_text(
            f"user {getpass.getuser()}\nlistener {port} 127.0.0.1\nallow_anonymous true\n"
            f"max_packet_size {packet_bytes_max}\n"
        )
        process = subprocess.Popen([MOSQUITTO, "-c", str(settings)], stderr=subprocess.DEVNULL)
        try:
            yield port
        finally:
            process.terminate()
            process.wait()


def _configured(folder: Path, port: int, users: Users) -> Path:
    passwords, rules, settings = folder / "passwd", folder / "acl", folder / "mosquitto.conf"
    passwords.touch(mode=0o600)
    for name in users:
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), name, name], check=True, capture_output=True)
    patterns = {"%c", "%u"}
    lines, common = [], []
    for name, granted in users.items():
        lines.append(f"user {name}")
        for verb, filters in (("write", granted["publish"]), ("read", granted["subscribe"])):
            for one in filters:
                into, word = (common, "pattern") if any(mark in one for mark in patterns) else (lines, "topic")
                into.append(f"{word} {verb} {one}")
    rules.write_text("\n".join([*lines, *common]) + "\n")
    settings.write_text(
        f"user {getpass.getuser()}\nlistener {port} 127.0.0.1\nallow_anonymous false\n"
        f"password_file {passwords}\nacl_file {rules}\n"
    )
    return settings


async def listens(port: int) -> None:
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise AssertionError(f"nobody listens on port {port}")
