"""Networks for tests on loopback: nodes in this process for speed, or as processes that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coterie.live.client import MqttClient, connect_packet
from coterie.live.config import NodeConfig, config_of, load_config
from coterie.live.node import LiveNode, loop_factory
from coterie.model.plan import Slice, slices
from coterie.model.workload import nobody_yet
from coterie.systems import system_named

TOKEN = "the token of the tests"
OLD = os.environ.get("COTERIE_OLD", "")  # a checkout of another version: what is tried here is tried on its nodes
ENVIRONMENT = os.environ | ({"PYTHONPATH": f"{OLD}/src"} if OLD else {})
FAST_RECOVERY = {"rounds_s": [0.2, 0.6, 1.5, 3.0], "audit_s": 5.0, "margin_s": 3.0}


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run(main: Callable[[], Any], limit_s: float | None = 120.0) -> Any:
    """An async test body on the loop that nodes use."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(asyncio.wait_for(main(), limit_s))


def write_configs(
    folder: Path, system_name: str, count: int, seed: int = 0, settings: dict[str, Any] | None = None,
    parts: list[Slice] | None = None, **extra: Any,
) -> list[Path]:  # fmt: skip
    """One JSON-in-TOML-shape configuration per node, as files, so that processes can be started from them too.

    `parts` are the slices to start with, where nobody's having subscribed yet is not the plan.
    """
    system = system_named(system_name)
    ports = free_ports(3 * count)
    settings = settings or {}
    design = system.plan(nobody_yet(count), system.configure(settings), seed)
    peers = [{"id": node, "host": "127.0.0.1", "port": ports[node]} for node in range(count)]
    paths = []
    for part in parts or slices(design, version=1):
        home = folder / f"node-{part.node}"
        home.mkdir(parents=True, exist_ok=True)
        (home / "slice.json").write_bytes(msgspec.json.encode(part))
        table: dict[str, Any] = {
            "node": {"id": part.node, "data": "."},
            "mqtt": {"port": ports[count + part.node]},
            "admin": {"port": ports[2 * count + part.node], "token": TOKEN},
            "links": {"port": ports[part.node], "heartbeat_s": 0.5, "silence_s": 3.0, "backoff_s_max": 0.5},
            "network": {"system": system_name, "seed": seed, "slice": "slice.json", "key": "test", "settings": settings,
                        "peers": peers},
            "recovery": FAST_RECOVERY,
        }  # fmt: skip
        for section, keys in extra.items():
            table[section] = {**table.get(section, {}), **keys}
        path = home / "node.toml"
        path.write_text(to_toml(table))
        paths.append(path)
    return paths


def to_toml(table: dict[str, Any]) -> str:
    lines = []
    for section, keys in table.items():
        lines.append(f"[{section}]")
        later = []
        for key, value in keys.items():
            if isinstance(value, dict):
                later += [f"[{section}.{key}]", *(f"{name} = {json.dumps(one)}" for name, one in value.items())]
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                for row in value:
                    later += [f"[[{section}.{key}]]", *(f"{name} = {json.dumps(one)}" for name, one in row.items())]
            else:
                lines.append(f"{key} = {json.dumps(value)}")
        lines += later
    return "\n".join(lines) + "\n"


class Network:
    """Nodes in this process. Use as an async context manager."""

    def __init__(self, folder: Path, system: str, count: int, **extra: Any) -> None:
        self.paths = write_configs(folder, system, count, **extra)
        self.nodes: list[LiveNode] = []

    def tell_servers(self) -> None:
        """Peers say which server clients should be told: each other's MQTT ports, chosen here."""
        ports = free_ports(len(self.paths))
        for node, path in enumerate(self.paths):
            text = path.read_text()
            for peer, port in enumerate(ports):
                text = text.replace(f"id = {peer}\nhost", f'id = {peer}\nserver = "127.0.0.1:{port}"\nhost')
            lines = text.split("\n")
            lines[lines.index("[mqtt]") + 1] = f"port = {ports[node]}"
            path.write_text("\n".join(lines))

    async def __aenter__(self) -> Network:
        for path in self.paths:
            config = load_config(path)
            node = LiveNode(config, system_named(config.network.system), system_named=system_named)
            await node.start()
            self.nodes.append(node)
        await self.until(lambda: all(self._is_linked(node) for node in self.nodes))
        return self

    @staticmethod
    def _is_linked(node: LiveNode) -> bool:
        return set(node.broker.planes.in_use.state().links) <= set(node.broker.links.connected)

    async def __aexit__(self, *error: object) -> None:
        for node in self.nodes:
            await node.stop()

    async def until(self, condition: Callable[[], bool], limit_s: float = 20.0) -> None:
        await until(condition, limit_s)

    def port(self, node: int) -> int:
        return self.nodes[node].ports["mqtt"]

    async def client(self, node: int, name: str, sink: list[Any] | None = None, **packet: Any) -> MqttClient:
        got = [] if sink is None else sink
        client = MqttClient("127.0.0.1", self.port(node), connect_packet(name, **packet), got.append)
        await client.start()
        return client


async def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait for something that must become true."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not become true in time"
        await asyncio.sleep(0.01)


def lone_config(folder: Path, **sections: dict[str, Any] | list[dict[str, Any]]) -> NodeConfig:
    """A node without peers."""
    table: dict[str, Any] = {"node": {"data": "."}, "mqtt": {"port": 0}}
    for section, keys in sections.items():
        table[section] = {**table.get(section, {}), **keys} if isinstance(keys, dict) else keys
    return config_of(table, str(folder))


FORKER = """
import os, signal, sys
from coterie.cli.node import node_command
from pathlib import Path
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    path = Path(line.strip())
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(path.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
        os.dup2(1, 2)
        node_command(path)
        os._exit(0)
    print(pid, flush=True)
"""


class Processes:
    """Nodes as processes of their own, to be killed; forked from one that has loaded everything already."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.configs = [load_config(path) for path in paths]
        self.running: dict[int, int] = {}
        self._forker = subprocess.Popen(
            [sys.executable, "-c", FORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def start(self, node: int) -> None:
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.write(f"{self.paths[node]}\n")
        self._forker.stdin.flush()
        self.running[node] = int(self._forker.stdout.readline())

    def kill(self, node: int) -> None:
        pid = self.running.pop(node)
        os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + 10  # until then it has its folder and its ports
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
            time.sleep(0.002)

    async def healthy(self, nodes: list[int]) -> None:
        for node in nodes:
            await until(lambda node=node: self.health(node).get("ready", False), 40.0)  # type: ignore[misc]

    def health(self, node: int) -> dict[str, Any]:
        return self.ask(node, "/health")

    def ask(self, node: int, path: str, method: str = "GET") -> dict[str, Any]:
        address = f"http://127.0.0.1:{self.configs[node].admin.port}{path}"
        request = urllib.request.Request(address, method=method, headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except OSError:
            return {}

    def stop(self) -> None:
        for pid in self.running.values():
            os.kill(pid, signal.SIGTERM)
        deadline_s = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in self.running.values()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        for pid in self.running.values():
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self._forker.communicate()
