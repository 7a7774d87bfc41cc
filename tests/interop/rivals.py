"""The same users and rules at a node of ours and at mosquitto, so that what is tried on one is tried on the other."""

from __future__ import annotations

import asyncio
import getpass
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.broker.test_access import cheap
from tests.interop.fleet import OLD, Processes, free_ports, lone_config, to_toml

MOSQUITTO = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
Users = dict[str, dict[str, Any]]  # name (its password too) -> publish, subscribe


def users_of(users: Users, password: Callable[[str], str] = cheap) -> list[dict[str, Any]]:
    return [{"name": name, "password": password(name), **rules} for name, rules in users.items()]


@asynccontextmanager
async def broker_with(kind: str, folder: Path, users: Users) -> AsyncIterator[int]:
    """Its MQTT port. Users only; nobody comes in without a name."""
    if kind == "mosquitto" or OLD:
        async with Program(kind, folder, users) as program:
            yield program.mqtt
        return
    node = LiveNode(
        lone_config(folder, access={"anonymous": "never", "users": users_of(users)}), system_named("flooding")
    )
    await node.start()
    try:
        yield node.ports["mqtt"]
    finally:
        await node.stop()


class Program:
    """A broker as a process of its own, on its defaults but for what is said here: it can be killed, and started again.

    `kind` is coterie (of this version, or of COTERIE_OLD) or mosquitto. Clients without a name may everything if they
    are let in at all.
    """

    def __init__(
        self, kind: str, folder: Path, users: Users, is_open: bool = False, password: Callable[[str], str] = cheap,
        limits: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.mqtt, self.websocket, self.admin = free_ports(3)
        self.kind, self._folder = kind, folder
        if kind == "mosquitto":
            if MOSQUITTO is None or shutil.which("mosquitto_passwd") is None:
                pytest.skip("mosquitto is not installed")
            self._path = _configured(folder, self.mqtt, users, is_open)
            more = f"listener {self.websocket} 127.0.0.1\nprotocol websockets\n"
            more += f"persistence true\npersistence_location {folder}/\nautosave_on_changes true\nautosave_interval 1\n"
            self._path.write_text(self._path.read_text() + more)
        else:
            self._path = folder / "node.toml"
            access = {"anonymous": "always" if is_open else "never", "users": users_of(users, password)}
            mqtt = {"port": self.mqtt, "websocket_port": self.websocket, "limits": limits or {}}
            table = {"node": {"data": "."}, "mqtt": mqtt, "admin": {"port": self.admin}, "access": access}
            self._path.write_text(to_toml(table))
            self._processes = Processes([self._path])

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    @property
    def pid(self) -> int:
        return self._process.pid if self.kind == "mosquitto" else self._processes.running[0]

    async def start(self) -> None:
        if self.kind == "mosquitto":
            assert MOSQUITTO is not None
            self._process = subprocess.Popen([MOSQUITTO, "-c", str(self._path)], stderr=subprocess.DEVNULL)
            for port in (self.mqtt, self.websocket):
                await listens(port)
        else:
            self._processes.start(0)
            await self._processes.healthy([0])

    def kill(self) -> None:
        if self.kind == "mosquitto":
            self._process.kill()
            self._process.wait()
        else:
            self._processes.kill(0)

    async def __aenter__(self) -> Program:
        try:
            await self.start()
        except AssertionError:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.kind == "mosquitto":
            self._process.terminate()
            self._process.wait()
        else:
            await asyncio.to_thread(self._processes.stop)


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


def _configured(folder: Path, port: int, users: Users, is_open: bool) -> Path:
    passwords, rules, settings = folder / "passwd", folder / "acl", folder / "mosquitto.conf"
    passwords.touch(mode=0o600)
    for name in users:
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), name, name], check=True, capture_output=True)
    patterns = {"%c", "%u"}
    lines, common = ["topic readwrite #"] if is_open else [], []
    for name, granted in users.items():
        lines.append(f"user {name}")
        for verb, filters in (("write", granted["publish"]), ("read", granted["subscribe"])):
            for one in filters:
                into, word = (common, "pattern") if any(mark in one for mark in patterns) else (lines, "topic")
                into.append(f"{word} {verb} {one}")
    rules.write_text("\n".join([*lines, *common]) + "\n")
    settings.write_text(
        f"user {getpass.getuser()}\nlistener {port} 127.0.0.1\nallow_anonymous {str(is_open).lower()}\n"
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
