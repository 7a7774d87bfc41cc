"""A network of our nodes on this machine: started with a plan or with nothing, changed over, billed, stopped."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from coterie.api.places import ADMIN_OFFSET, LINK_OFFSET, places_of
from coterie.errors import ConfigError, RunError
from coterie.live.config import NodeConfig, load_config
from coterie.live.processes import SLICES, count_of, number_of
from coterie.live.tokens import TOKEN_FILE, kept_token, read_token
from coterie.model import Slice
from coterie.model.plan import named, renumbered, slices
from coterie.model.workload import nobody_yet
from coterie.plans.admin import LiveNetwork, ask, processes_of
from coterie.plans.measured import SideBySide, measured, side_by_side
from coterie.plans.plan import Plan
from coterie.plans.rollout import Told, change_over, changes, fit, follow, silent
from coterie.plans.store import PlanStore
from coterie.protocol.system import System
from coterie.systems import system_named
from coterie.writing import write_whole

HEALTHY_S = 60.0
# SIGHUP: the terminal is gone, nobody is left behind; Windows has none
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class RunningNetwork:
    """Nodes that run, by their admin interfaces. `apply` changes them over to a plan, `bill` says what they cost."""

    def __init__(
        self, places: Sequence[tuple[str, int]], token: str = "", stop: Callable[[], None] | None = None
    ) -> None:
        self.live = LiveNetwork(places, token)
        self._stop = stop

    @property
    def node_count(self) -> int:
        return len(self.live.places)

    def health(self) -> list[dict[str, Any]]:
        """What each node says of itself."""
        return self.live.healths()

    def changes(self, plan: Plan) -> dict[str, Any]:
        """What `apply` would change: moves, links, positions, clusters."""
        return changes(self.live, fit(plan, self.live))

    def apply(self, plan: Plan, told: Told = silent) -> None:
        """Change over to a plan without losing a message; if it cannot be built, nothing changes."""
        change_over(self.live, fit(plan, self.live), told)

    def follow(self, folder: str | Path, told: Told = silent, failed: Told = silent) -> None:
        """Until interrupted: apply every plan that is published in this folder."""
        follow(PlanStore.at(Path(folder)), self.live, told, failed)

    def bill(self, plan: Plan | None = None, over_s: float = 0.0) -> SideBySide | dict[str, float]:
        """What the nodes counted, per second, since the plan is in force or over the coming seconds.

        With the plan: column -> (predicted, measured).
        """
        return measured(self.live, over_s) if plan is None else side_by_side(plan, self.live, over_s)

    def stop(self) -> None:
        """Only what `up` started is stopped."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def __enter__(self) -> RunningNetwork:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        host, port = self.live.places[0]
        return f"<RunningNetwork of {self.node_count} nodes, admin interfaces from {host}:{port}>"


def connect(
    nodes: int = 3,
    *,
    base_port: int = 1883,
    host: str = "127.0.0.1",
    token: str = "",
    data: str | Path = "coterie-data",
    admin: Sequence[str] | None = None,
) -> RunningNetwork:
    """A network that `up` or `coterie up` has started; `admin` lists HOST:PORT of each node instead."""
    places = places_of(admin, host, base_port, nodes)
    token = token or read_token(Path(data) / TOKEN_FILE)
    return RunningNetwork(processes_of(places, token), token)


def up(
    plan: Plan | None = None,
    *,
    nodes: int | None = None,
    system: str = "scribe",
    settings: Mapping[str, Any] | None = None,
    base_port: int = 1883,
    data: str | Path | None = None,
    host: str = "127.0.0.1",
    seed: int = 0,
) -> RunningNetwork:
    """Start nodes on this machine, wait until they are healthy; `with ct.up(plan) as net:` stops them at the end.

    With a plan there are as many nodes as it has, and they begin with it; without, `nodes` of a system. Node i takes
    MQTT on `base_port` + i. Without `data` everything is forgotten at the end.
    """
    temporary = None if data is not None else tempfile.TemporaryDirectory(prefix="coterie-")
    home = Path(temporary.name if temporary is not None else data)  # type: ignore[arg-type]
    processes: NodeProcesses | None = None

    def stop() -> None:
        if processes is not None:
            processes.stop(is_last=False)
        if temporary is not None:
            temporary.cleanup()

    try:
        processes = arranged(plan, nodes, system, settings or {}, base_port, home, host, seed)
        processes.start()
        processes.wait_healthy(HEALTHY_S)
    except BaseException:
        stop()
        raise
    return RunningNetwork(places_of(None, host, base_port, processes.count), read_token(home / TOKEN_FILE), stop)


def arranged(
    plan: Plan | None,
    nodes: int | None,
    system: str,
    settings: Mapping[str, Any],
    base_port: int,
    data: Path,
    host: str,
    seed: int,
) -> NodeProcesses:
    """The folders of a network whose ports are free, ready to start."""
    if not hasattr(os, "fork"):
        raise ConfigError("up", sys.platform, "Linux, macOS or WSL: nodes are processes that are forked")
    import coterie.live.node  # noqa: F401 - before the forks, so that nodes have it; Windows does not

    chosen = system_named(plan.system if plan is not None else system)
    count = plan.node_count if plan is not None else 3 if nodes is None else nodes
    if nodes is not None and nodes != count:
        raise ConfigError("nodes", nodes, f"{count}, which the plan has")
    if base_port + LINK_OFFSET + count > 65_535 or base_port < 1:
        raise ConfigError("--base-port", base_port, f"1 to {65_535 - LINK_OFFSET - count}")
    told = dict(plan.settings if plan is not None else settings)
    parameters = chosen.configure(told)
    check_free(host, base_port, count)
    if plan is not None:
        parts = [named(part, plan.topics) for part in plan.slices()]
    else:
        parts = slices(chosen.plan(nobody_yet(count), parameters, seed), version=1)
    names = plan.nodes if plan is not None else None
    configs = _arrange(chosen, told, parts, base_port, data, seed, host, names, is_planned=plan is not None)
    return NodeProcesses(configs, [port for _, port in places_of(None, host, base_port, count)], host)


def _arrange(
    system: System,
    settings: Mapping[str, Any],
    parts: Sequence[Slice],
    base_port: int,
    data: Path,
    seed: int,
    host: str,
    names: Sequence[str] | None,
    is_planned: bool = False,
) -> list[Path]:
    """A folder per node with its configuration and its slice of the first plan; the key stays that of earlier runs."""
    data.mkdir(parents=True, exist_ok=True)
    key_path = data / "network.key"
    if not key_path.exists():
        key_path.touch(mode=0o600)
        key_path.write_text(secrets.token_hex(32) + "\n")
    kept_token(data / TOKEN_FILE)
    peers = "\n".join(
        f'[[network.peers]]\nid = {part.node}\nhost = "{host}"\nport = {base_port + LINK_OFFSET + part.node}\n'
        f'server = "{host}:{base_port + part.node}"\n'
        for part in parts
    )
    paths = []
    for part in parts:
        folder = data / f"node-{part.node}"
        folder.mkdir(exist_ok=True)
        (folder / "slice.json").write_bytes(msgspec.json.encode(part))
        path = folder / "node.toml"
        name = f"name = {_toml(names[part.node])}\n" if names else ""
        path.write_text(_config_text(system, settings, part.node, name, base_port, seed, host, is_planned) + peers)
        paths.append(path)
    return paths


def _config_text(
    system: System, settings: Mapping[str, Any], node: int, name: str, base_port: int, seed: int, host: str,
    is_planned: bool,
) -> str:  # fmt: skip
    renewal = "renew_s = 0  # the plan is somebody's\n" if is_planned else ""
    chosen = "".join(f"{key} = {_toml(value)}\n" for key, value in settings.items())
    return f"""# written by `coterie up`; `coterie node --config` runs this node alone
[node]
id = {node}
{name}data = "."

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
{renewal}key_file = "../network.key"

[network.settings]
{chosen}
"""


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    is_plain = text.replace(".", "", 1).lstrip("-").isdigit() or text in ("true", "false")
    return text if is_plain else msgspec.json.encode(text).decode()


def found_processes(config: NodeConfig, system: System) -> None:
    """The slices of a network of one machine's processes."""
    count, folder = count_of(config), config.data / SLICES
    folder.mkdir(parents=True, exist_ok=True)
    design = system.plan(nobody_yet(count), system.configure(config.network.settings), config.network.seed)
    numbers = [number_of(config, process) for process in range(count)]
    for process, part in enumerate(slices(design, version=1)):
        write_whole(folder / f"{process}.json", msgspec.json.encode(renumbered(part, numbers)))


def check_free(host: str, base_port: int, nodes: int) -> None:
    """Every port that the nodes will listen on; what is told is the base port, and which of them is taken."""
    for offset in (0, ADMIN_OFFSET, LINK_OFFSET):
        for port in range(base_port + offset, base_port + offset + nodes):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, port))
                except socket.gaierror as error:
                    raise ConfigError("--host", host, f"an address of this machine ({error.strerror})") from None
                except OSError as error:
                    if error.errno == errno.EADDRNOTAVAIL:
                        raise ConfigError("--host", host, f"an address of this machine ({error.strerror})") from None
                    told = f"a base port whose ports are free; port {port} is not ({error.strerror})"
                    raise ConfigError("--base-port", base_port, told) from None


class NodeProcesses:
    """The node processes. They are forked, so that what they have in common is loaded once."""

    def __init__(self, configs: Sequence[Path], admin_ports: Sequence[int], host: str, told: Told = silent) -> None:
        self.pids: dict[int, int] = {}  # pid -> node
        self.told = told
        self._configs, self._admin_ports, self._host = configs, admin_ports, host
        self._follower = 0

    @property
    def count(self) -> int:
        return len(self._configs)

    def start(self) -> None:
        sys.stdout.flush()
        for node in range(self.count):
            self.start_node(node)

    def follow(self, plans: Path, token: str, told: Told, failed: Told) -> None:
        """A process that applies what the planner publishes; it ends with us."""
        pid = os.fork()
        if pid:
            self._follower = pid
            return
        try:
            live = LiveNetwork([(self._host, port) for port in self._admin_ports], token)
            follow(PlanStore(plans), live, told, failed)
        except BaseException as error:
            failed(f"plans are no longer followed: {error}")
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
            sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - a notebook has its own
            from coterie.live.node import run_node

            run_node(load_config(path), system_named, _log, lambda ports: _log(f"ready: {ports}"),
                     reread=lambda: load_config(path))  # fmt: skip
            code = 0
        except BaseException as error:
            _log(f"ended by {type(error).__name__}: {error}")
        finally:
            os._exit(code)

    def wait_healthy(self, limit_s: float, told: Callable[[int, int], None] = lambda ready, count: None) -> None:
        """`told(ready, count)` is called as they come."""
        deadline_s = time.monotonic() + limit_s
        for node, port in enumerate(self._admin_ports):
            told(node, self.count)
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
                    self.told(f"start it again with: coterie node --config {self._configs[node]}")
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
                self.told(f"node {node} was {how}" if code < 0 else f"node {node} {how}")
        return ended

    def _log_of(self, node: int) -> Path:
        return self._configs[node].parent / "node.log"

    def stop(self, is_last: bool = True) -> None:
        """Ask, wait, insist; if it is the last thing we do, a second Ctrl-C does not leave anybody behind."""
        if is_last:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
        if self._follower:
            os.kill(self._follower, signal.SIGKILL)
            os.waitpid(self._follower, 0)
            self._follower = 0
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
    sys.stdout.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")
    sys.stdout.flush()
