"""`coterie up`: a whole network on this machine with one command."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from coterie.cli.adminclient import ask
from coterie.cli.console import err, out, settings_of
from coterie.errors import ConfigError, RunError
from coterie.model import Publications, Relation, Workload
from coterie.model.plan import slices
from coterie.protocol.system import System
from coterie.runtime.config import load_config
from coterie.runtime.node import run_node
from coterie.runtime.tokens import TOKEN_FILE, kept_token, read_token
from coterie.systems import system_named

ADMIN_OFFSET, LINK_OFFSET = 1000, 2000
HEALTHY_S = 60.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the terminal is gone: nobody is left behind

BasePort = Annotated[int, typer.Option(min=1, max=65_535 - LINK_OFFSET, help="The base port of `coterie up`.")]


def up_command(
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, max=1000, help="How many nodes.")] = 3,
    system: Annotated[str, typer.Option("--system", "-s", help="A system; 'coterie systems' lists them.")] = "scribe",
    base_port: Annotated[int, typer.Option(help="Node i takes MQTT on this port plus i.")] = 1883,
    data: Annotated[Path, typer.Option(help="Where the nodes keep what they must not forget.")] = Path("coterie-data"),
    parameters: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the system, NAME=VALUE; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Positions of the nodes and their randomness.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    zones: Annotated[
        int, typer.Option(min=1, help="Nodes stand in so many zones in turn; systems with +zones make use of it.")
    ] = 1,
    respawn: Annotated[bool, typer.Option("--respawn", help="Start a node again when it dies.")] = False,
    follow: Annotated[
        Path | None, typer.Option(help="Switch to every plan that `coterie watch --out` publishes into this folder.")
    ] = None,
) -> None:
    """Start a network of nodes on this machine, wait until it is healthy, stop it with Ctrl-C.

    Node i listens for MQTT on base port + i, for its admin interface 1,000 higher, for its peers 2,000 higher; each has
    a folder in --data with its configuration, store, journal and log.

    Example: coterie up --nodes 5 --system scribe --base-port 1883 --data ./net
    """
    chosen = system_named(system)
    if base_port + LINK_OFFSET + nodes > 65_535 or base_port < 1:
        raise ConfigError("--base-port", base_port, f"1 to {65_535 - LINK_OFFSET - nodes}")
    settings = settings_of(parameters or (), "--set")
    chosen.configure(settings)
    _check_free(host, [base_port + offset + i for i in range(nodes) for offset in (0, ADMIN_OFFSET, LINK_OFFSET)])
    configs = arrange(chosen, settings, nodes, base_port, data, seed, host, zones)
    admin_ports = [base_port + ADMIN_OFFSET + node for node in range(nodes)]
    fleet = Fleet(chosen, configs, admin_ports, host, read_token(data / TOKEN_FILE))
    for number in ENDING:
        signal.signal(number, signal.default_int_handler)
    try:
        fleet.start()
        fleet.wait_healthy(HEALTHY_S)
        last = base_port + nodes - 1
        out.print(f"{nodes} nodes of {chosen.title} are up: MQTT on {host}:{base_port}..{last}, data in {data}")
        out.print(f"stop with Ctrl-C; look with: coterie top --base-port {base_port} --nodes {nodes} --data {data}")
        sys.stdout.flush()
        if follow is not None:
            fleet.follow(follow)
        fleet.watch(respawn)
    except KeyboardInterrupt:
        out.print("stopping")
    finally:
        fleet.stop()


def arrange(
    system: System,
    settings: dict[str, Any],
    nodes: int,
    base_port: int,
    data: Path,
    seed: int,
    host: str,
    zones: int = 1,
) -> list[Path]:
    """A folder per node with its configuration and its slice of the first plan; the key stays that of earlier runs."""
    data.mkdir(parents=True, exist_ok=True)
    key_path = data / "network.key"
    if not key_path.exists():
        key_path.touch(mode=0o600)
        key_path.write_text(secrets.token_hex(32) + "\n")
    kept_token(data / TOKEN_FILE)
    design = system.plan(_nobody_yet(nodes, zones), system.configure(settings), seed)
    peers = "\n".join(
        f'[[network.peers]]\nid = {node}\nhost = "{host}"\nport = {base_port + LINK_OFFSET + node}\n'
        f'server = "{host}:{base_port + node}"\n'
        for node in range(nodes)
    )
    paths = []
    for part in slices(design, version=1):
        folder = data / f"node-{part.node}"
        folder.mkdir(exist_ok=True)
        (folder / "slice.json").write_bytes(msgspec.json.encode(part))
        path = folder / "node.toml"
        path.write_text(_config_text(system, settings, part.node, base_port, seed, host) + peers)
        paths.append(path)
    return paths


def _config_text(system: System, settings: dict[str, Any], node: int, base_port: int, seed: int, host: str) -> str:
    chosen = "".join(f"{name} = {_toml(value)}\n" for name, value in settings.items())
    return f"""# written by `coterie up`; `coterie node --config` runs this node alone
[node]
id = {node}
data = "."

[mqtt]
host = "{host}"
port = {base_port + node}

[admin]
host = "{host}"
port = {base_port + ADMIN_OFFSET + node}
token_file = "../{TOKEN_FILE}"

[links]
host = "{host}"
port = {base_port + LINK_OFFSET + node}

[journal]
folder = "../journal"

[network]
system = "{system.name}"
seed = {seed}
slice = "slice.json"
key_file = "../network.key"

[network.settings]
{chosen}
"""


def _toml(value: object) -> str:
    text = str(value)
    return text if text.replace(".", "", 1).lstrip("-").isdigit() or text in ("true", "false") else f'"{text}"'


def _nobody_yet(nodes: int, zones: int = 1) -> Workload:
    """A workload without interest: at the start nobody has subscribed. Nodes stand in the zones in turn."""
    everyone = np.arange(nodes, dtype=np.int32)
    empty = np.zeros(0, np.int32)
    return Workload(
        name="nobody yet",
        interests=Relation.from_pairs(empty, empty, nodes, 1),
        attachment=everyone,
        node_count=nodes,
        publications=Publications.of(empty, empty, np.zeros(0)),
        zone_of=everyone % zones if zones > 1 else None,
    )


def _check_free(host: str, ports: list[int]) -> None:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except socket.gaierror as error:
                raise ConfigError("--host", host, f"an address of this machine: {error.strerror}") from None
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise ConfigError("--host", host, f"an address of this machine: {error.strerror}") from None
                raise ConfigError("--base-port", port, f"a free port: {error.strerror}") from None


class Fleet:
    """The node processes. They are forked, so that what they have in common is loaded once."""

    def __init__(self, system: System, configs: list[Path], admin_ports: list[int], host: str, token: str = "") -> None:
        self.pids: dict[int, int] = {}  # pid -> node
        self._system = system
        self._configs = configs
        self._admin_ports = admin_ports
        self._host, self._token = host, token
        self._follower = 0

    def start(self) -> None:
        sys.stdout.flush()
        for node in range(len(self._configs)):
            self.start_node(node)

    def follow(self, plans: Path) -> None:
        """A process that applies what the planner publishes; it ends with us."""
        pid = os.fork()
        if pid:
            self._follower = pid
            return
        from coterie.cli.applying import follow_plans
        from coterie.cli.switching import LiveNetwork
        from coterie.pipeline.plans import PlanStore

        try:
            follow_plans(PlanStore(plans), LiveNetwork([(self._host, port) for port in self._admin_ports], self._token))
        except BaseException as error:
            err.print(f"plans are no longer followed: {error}")
        finally:
            os._exit(0)

    def start_node(self, node: int) -> None:
        pid = os.fork()
        if pid:
            self.pids[pid] = node
            return
        code = 1
        try:
            for number in ENDING:
                signal.signal(number, signal.SIG_DFL)
            os.setpgid(0, 0)  # Ctrl-C is for the parent, which then stops everybody in order
            path = self._configs[node]
            log = os.open(path.parent / "node.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            run_node(load_config(path), system_named, _log, lambda ports: _log(f"ready: {ports}"),
                     reread=lambda: load_config(path))  # fmt: skip
            code = 0
        except BaseException as error:
            _log(f"ended by {type(error).__name__}: {error}")
        finally:
            os._exit(code)

    def wait_healthy(self, limit_s: float) -> None:
        deadline_s = time.monotonic() + limit_s
        for node, port in enumerate(self._admin_ports):
            while True:
                self._reap(is_fatal=True)
                health = ask(self._host, port, "/health")
                if health is not None and health["ready"]:
                    break
                if time.monotonic() > deadline_s:
                    raise RunError(f"node {node} is not healthy after {limit_s:g} s: see {self._log_of(node)}")
                time.sleep(0.05)

    def watch(self, respawn: bool) -> None:
        """Until somebody stops us; deaths of nodes are told, and undone if that is wanted."""
        while self.pids:
            for node in self._reap(is_fatal=False):
                if respawn:
                    self.start_node(node)
                else:
                    err.print(f"start it again with: coterie node --config {self._configs[node]}")
            time.sleep(0.2)

    def _reap(self, is_fatal: bool) -> list[int]:
        ended = []
        for pid, node in list(self.pids.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self.pids[pid]
                ended.append(node)
                code = os.waitstatus_to_exitcode(status)
                how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
                if is_fatal:
                    raise RunError(f"node {node} {how}: see {self._log_of(node)}")
                err.print(f"node {node} was {how}" if code < 0 else f"node {node} {how}")
        return ended

    def _log_of(self, node: int) -> Path:
        return self._configs[node].parent / "node.log"

    def stop(self) -> None:
        """Ask, wait, insist; a second Ctrl-C does not leave anybody behind."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        if self._follower:
            os.kill(self._follower, signal.SIGKILL)
            os.waitpid(self._follower, 0)
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        deadline_s = time.monotonic() + 10
        while self.pids and time.monotonic() < deadline_s:
            self._collect()
            time.sleep(0.02)
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)

    def _collect(self) -> None:
        for pid in list(self.pids):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self.pids[pid]


def _log(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    typer.run(up_command)
