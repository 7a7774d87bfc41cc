"""A node of the live network: everything of one process put together, from its configuration to its end."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import resource
import signal
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from coterie import __version__
from coterie.broker import inspection, views
from coterie.broker.commands import (
    Block,
    Command,
    Drain,
    DropPlan,
    LoadPlan,
    Place,
    Remove,
    Setup,
    Show,
    StartPlan,
    SwitchPlan,
)
from coterie.broker.facts import Booted
from coterie.broker.leaf import leaf_slice
from coterie.broker.machine import Broker
from coterie.broker.writes import META
from coterie.errors import ConfigError, CoterieError, InputError, RunError
from coterie.live import figures
from coterie.live.admin import AdminInterface, NotNow
from coterie.live.board import MappedBoard
from coterie.live.bridging import LiveBridge
from coterie.live.clients import ClientSocket, WebSocket, client_tls
from coterie.live.config import OFF, NodeConfig, secrets_of
from coterie.live.driver import Driver
from coterie.live.figures import in_short
from coterie.live.guard import Guard
from coterie.live.joining import joined
from coterie.live.journal import JournalFiles
from coterie.live.logins import Logins
from coterie.live.oldfiles import old_files
from coterie.live.overview import Overview
from coterie.live.pacing import Pacer
from coterie.live.peers import PeerSockets
from coterie.live.processes import machine_of, socket_of
from coterie.live.reloading import reload
from coterie.live.store import FOLD_BYTES, Store
from coterie.live.tokens import kept_token
from coterie.live.transfers import transfers_of
from coterie.model.plan import Slice
from coterie.plans.orders import PlanOrder
from coterie.protocol.events import Stopping
from coterie.protocol.system import System

LIFE = "life"
SYS_S = 10.0
FOLD_LOOK_S, FOLD_S = 0.5, 4.0
LOG_LINES_PER_S = 20
SHARED = ("mqtt", "tls", "websocket")  # ports that all processes of a machine listen on


def load_slice(config: NodeConfig, system: System) -> Slice:
    """What the plan says of this node; alone in the network where there is none, or a leaf if it joins one."""
    if config.network.join:
        return leaf_slice(config.node.id)
    if not config.network.slice:
        return Slice(version=0, system=system.name, node=config.node.id)
    path = config.path(config.network.slice)
    try:
        slice_ = msgspec.json.decode(path.read_bytes(), type=Slice)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise InputError(str(path), f"is no slice of a plan: {error}") from None
    if slice_.node != config.node.id or slice_.system != system.name:
        raise ConfigError("network.slice", config.network.slice, f"the slice of node {config.node.id}, {system.name}")
    return slice_


def _locked(folder: Path) -> IO[str]:
    """The data folder belongs to one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / "lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ConfigError("node.data", str(folder), "a folder that no running node uses") from None
    return lock


def _only(system: System) -> Callable[[str], System]:
    def named(name: str) -> System:
        if name != system.name:
            raise ConfigError("system", name, system.name)
        return system

    return named


def setup_of(config: NodeConfig, system: System, system_named: Callable[[str], System]) -> Setup:
    """What a configuration tells a broker; files that it names are read."""
    passwords, key = secrets_of(config)
    system.configure(config.network.settings)
    return Setup(
        node=config.node.id, name=config.name, system_named=system_named, slice=load_slice(config, system),
        network=config.network, mqtt=config.mqtt, links=config.links, access=config.access, limits=config.limits,
        store=config.store, durability=config.durability, journal=config.journal, recovery=config.recovery,
        admission=config.admission, options=config.options(),
        passwords=passwords, token_key=key, may_grow=config.network.may_grow or bool(config.network.join),
        machine=machine_of(config),
    )  # fmt: skip


class LiveNode:
    """Start it inside a running loop; `stop` ends it in good order. Plans may be of systems `system_named` knows."""

    def __init__(
        self,
        config: NodeConfig,
        system: System,
        log: Callable[[str], None] = lambda text: None,
        system_named: Callable[[str], System] | None = None,
    ) -> None:
        self.config = config
        self._tell = _bounded(log)
        self.log = log = self._note
        start_s = time.monotonic()
        base_s = time.time() - start_s
        # Wall time that never jumps while the process lives: deadlines in the store mean the same after a restart.
        self.wall_s: Callable[[], float] = lambda: base_s + time.monotonic()
        self._start_s = start_s
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.left: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # it is no member any more
        self._lock = _locked(config.data)
        self.store = Store(config.data, config.store.sync)
        self.logins = Logins(config.access.logins, self.wall_s)
        self._board = _board_of(config)
        self.broker = Broker(setup_of(config, system, system_named or _only(system)), self.store, self._board)
        folder = config.journal_folder / config.name
        self.journal = JournalFiles(folder, config.journal.segment_bytes_max) if config.journal.enabled else None
        self.driver = Driver(self.broker, self.store, self.logins, self.journal, base_s, log, self._fail, self._leave)
        network = config.network
        self.peers: PeerSockets | None = None
        if not self.broker.is_alone:
            self.peers = self.driver.peers = PeerSockets(
                network.name,
                network.system,
                config.node.id,
                config.keys(),
                network.peers,
                config.link_section,
                self.driver,
                partial(socket_of, config),
            )
        self.transfers = transfers_of(config, self.driver, self._given_line)
        self.bridges = [LiveBridge(config, one, self.driver, log) for one in config.bridges]
        self.token, self.is_new_token = (
            (config.admin.token, False) if config.admin.token else kept_token(config.token_path)
        )
        self.interface = self._admin()
        self.reread: Callable[[], NodeConfig] = lambda: self.config
        self.tls: list[ssl.SSLContext] = []
        self.websocket_origins = list(config.mqtt.websocket_origins)
        self.ports: dict[str, int] = {}
        self._listeners: list[asyncio.Server] = []
        self.pacer: Pacer | None = None
        self._fold_s = 0.0  # since the last time
        self._is_stopped = False
        self._folding: asyncio.Future[None] | None = None

    def _given_line(self, given: tuple[int, int]) -> ClientSocket:
        return ClientSocket(self.driver, self.config.mqtt.write_buffer_bytes_max, self.pacer, given)

    def _note(self, text: str) -> None:
        if self.config.node.log_level == "info":
            self._tell(text)

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._start_s

    async def start(self) -> dict[str, int]:
        """Returns the ports that are open, by what they are for. A node that joins has become a member by then."""
        if self.config.network.join:
            await joined(self.config, self.store, self.log)
        self.transfers.listen()
        if self.peers is not None:
            self.ports["links"] = await self.peers.listen()
        saved = old_files(self.config.data, self.store.saved())
        lives = [msgspec.msgpack.decode(value, type=int) for key, value in saved.rows(META) if key == LIFE]
        life = max([int(self.wall_s()), *(one + 1 for one in lives)])
        self.store.keep([(META, LIFE, msgspec.msgpack.encode(life))])
        self.driver.take(Booted(life, saved))
        await self._listen()
        for bridge in self.bridges:
            bridge.start()
        self._every(SYS_S, self._publish_sys)
        self._every(FOLD_LOOK_S, self._fold)
        if self.journal is not None:
            self._journal_counters()  # the planner learns of the node before anybody uses it
            self._every(self.config.journal.counters_s, self._journal_counters)
        return self.ports

    async def _listen(self) -> None:
        mqtt, admin = self.config.mqtt, self.config.admin
        new_socket = partial(ClientSocket, self.driver, mqtt.write_buffer_bytes_max)
        if mqtt.latency_budget_ms:
            self.pacer = Pacer(mqtt.latency_budget_ms / 1e3, self.driver)
        if mqtt.port != OFF:
            await self._open("mqtt", partial(new_socket, self.pacer), mqtt.host, mqtt.port)
        if mqtt.tls_port:
            paths = [str(self.config.path(one)) if one else "" for one in
                     (mqtt.certificate, mqtt.certificate_key, mqtt.client_authority)]  # fmt: skip
            self.tls.append(client_tls(*paths))
            await self._open("tls", new_socket, mqtt.host, mqtt.tls_port, self.tls[0])
        if self.config.process is not None and self.config.node.process_port:
            own_port = self.config.node.process_port + self.config.process.number
            await self._open("own", new_socket, mqtt.host, own_port, self.tls[0] if mqtt.port == OFF else None)
        if mqtt.websocket_port:
            make = partial(WebSocket, self.driver, mqtt.write_buffer_bytes_max, self.websocket_origins)
            await self._open("websocket", make, mqtt.host, mqtt.websocket_port)
        await self._open("admin", self.interface.connection, admin.host, admin.port)

    async def _open(
        self, name: str, make: Callable[[], asyncio.Protocol], host: str, port: int, tls: Any = None
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            is_shared = self.config.process is not None and name in SHARED
            listener = await loop.create_server(make, host, port, ssl=tls, backlog=1024, reuse_port=is_shared or None)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"{name} port", port, f"a port that is free on {host} ({why})") from None
        self._listeners.append(listener)
        self.ports[name] = listener.sockets[0].getsockname()[1]

    def _admin(self) -> AdminInterface:
        self.overview = Overview(self.broker)
        broker, interface = self.broker, AdminInterface(Guard(self.token, self.config.admin.hosts))
        interface.add("GET", "/health", lambda query, body: figures.health(self), lambda query, body: in_short(self))
        interface.add("GET", "/ready", lambda query, body: self._ready(), lambda query, body: self._ready())
        interface.add("GET", "/metrics", lambda query, body: figures.prometheus(self))
        interface.add("GET", "/topology", lambda query, body: views.topology(broker))
        interface.add("GET", "/channels", lambda query, body: views.channels(broker))
        interface.add("GET", "/overview", lambda query, body: self.overview.document())
        interface.add("GET", "/find", lambda query, body: self.overview.find(query.get("name", "")))
        interface.add("GET", "/ledger", lambda query, body: figures.ledger_document(self))
        interface.add("GET", "/totals", lambda query, body: figures.totals(self))
        interface.add("GET", "/histograms", lambda query, body: views.histograms(broker))
        interface.add("GET", "/inspect", self._inspect)
        interface.add("GET", "/plan", lambda query, body: broker.planes.document())
        interface.add("POST", "/plan", self._take_plan)
        interface.add("GET", "/placement", lambda query, body: views.placement(broker))
        interface.add("POST", "/placement", self._take_placement)
        interface.add("GET", "/members", lambda query, body: views.members(broker))
        interface.add("POST", "/drain", lambda query, body: self._membership(Drain()))
        interface.add("GET", "/remove", lambda query, body: views.cost_of_removing(broker, int(query["node"])))
        interface.add("POST", "/remove", lambda query, body: self._membership(_removal(query)))
        interface.add("POST", "/block", self._block)
        interface.add("POST", "/reload", lambda query, body: self.reload())
        return interface

    def _inspect(self, query: dict[str, str], body: bytes) -> dict[str, Any]:
        """`?client=NAME`, `?topic=NAME` or `?link=NODE`."""
        if "client" in query:
            return inspection.client(self.broker, query["client"])
        if "topic" in query:
            return inspection.topic(self.broker, query["topic"])
        return inspection.link(self.broker, int(query["link"]))

    def _ready(self) -> dict[str, Any] | NotNow:
        """For load balancers and orchestrators, who look at the status alone: 200, or 503."""
        found = in_short(self)
        return found if found["ready"] else NotNow(found)

    def reload(self) -> dict[str, list[str]]:
        """Take the configuration as it is now; errors leave everything as it was."""
        done = reload(self, self.reread())
        rest = f"; a restart is needed for {', '.join(done['needs_restart'])}" if done["needs_restart"] else ""
        self.log(f"the configuration was read again; changed: {', '.join(done['taken']) or 'nothing'}{rest}")
        return done

    def on_hangup(self) -> None:
        """SIGHUP."""
        try:
            self.reload()
        except CoterieError as error:
            self._tell(f"the configuration was not taken: {error}")

    def _take_plan(self, query: dict[str, str], body: bytes) -> dict[str, Any]:
        """A step of a change of plans; the answer is what GET says afterwards."""
        order = msgspec.json.decode(body, type=PlanOrder)
        command: Command
        match order.phase:
            case "load":
                if order.part is None:
                    raise ConfigError("part", None, "this node's part of the plan")
                command = LoadPlan(order.part)
            case "start":
                command = StartPlan(order.generation)
            case "switch":
                command = SwitchPlan(order.generation)
            case "drop":
                command = DropPlan()
        self.driver.take(command)
        return self.broker.planes.document()

    def _take_placement(self, query: dict[str, str], body: bytes) -> dict[str, Any]:
        """`{"version": 3, "clients": {"ann": 1}}`: clients that follow are moved, twenty a second."""
        self.driver.take(msgspec.json.decode(body, type=Place))
        return views.placement(self.broker)

    def _block(self, query: dict[str, str], body: bytes) -> dict[str, Any]:
        """Fault injection: `peers=1,2` cuts this node off from them until it is called without any."""
        peers = [int(one) for one in query.get("peers", "").split(",") if one]
        self.driver.take(Block(tuple(peers)))
        return {"blocked": peers}

    def _membership(self, command: Drain | Remove) -> dict[str, Any]:
        """Leave, or have another node removed; the answer is what /members says, and says again while it goes on."""
        if self.broker.is_alone:
            raise ConfigError("network.peers", [], "a network", do="a node that is alone is stopped, not drained")
        self.driver.take(command)
        return views.members(self.broker)

    def _leave(self, reason: str) -> None:
        if not self.left.done():
            self._tell(reason)
            self.left.set_result(reason)

    def _fail(self, reason: str) -> None:
        if not self.failure.done():
            self._tell(reason)
            self.failure.set_result(reason)

    # --- what is done again and again ---

    def _every(self, interval_s: float, action: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            if not self._is_stopped:
                action()
                loop.call_later(interval_s, run)

        loop.call_later(interval_s, run)

    def _publish_sys(self) -> None:
        self.driver.take(Show(figures.system_topics(self, __version__)))

    def _journal_counters(self) -> None:
        assert self.broker.journal is not None
        self.broker.journal.counters(self.wall_s(), figures.totals(self))

    def _fold(self) -> None:
        """Bring batches from the append-only file into SQLite, in a thread of its own: every few seconds, or megabytes.

        Not more often, for most of what is in them is gone by then, and opening and syncing SQLite costs some
        milliseconds whatever there is to write.
        """
        self._fold_s += FOLD_LOOK_S
        if self._fold_s < FOLD_S and self.store.unfolded_bytes < FOLD_BYTES:
            return
        if self._folding is None and self.store.begin_fold():
            self._fold_s = 0.0
            self._folding = asyncio.get_running_loop().run_in_executor(None, self.store.fold)
            self._folding.add_done_callback(self._folded)

    def _folded(self, done: asyncio.Future[None]) -> None:
        self._folding = None
        error = done.exception()
        if error is None:
            self.store.end_fold()
        elif not self._is_stopped:
            self._fail(f"the store cannot be folded: {error}")

    async def stop(self) -> None:
        if self._is_stopped:
            return
        for listener in self._listeners:
            listener.close()
        for bridge in self.bridges:
            await bridge.stop()
        if self.journal is not None:
            self._journal_counters()
        self.driver.take(Stopping())
        self.driver.turn()
        self._is_stopped = True
        await self.driver.settled()
        await asyncio.sleep(0.05)  # last words
        self.driver.stop()
        self.logins.stop()
        self.transfers.close()
        if self.peers is not None:
            await self.peers.close()
        if self.journal is not None:
            self.journal.close()
        if self._folding is not None:
            await asyncio.wait([self._folding])
        self.store.close()
        if self._board is not None:
            self._board.close()
        self._lock.close()


def _board_of(config: NodeConfig) -> MappedBoard | None:
    """What the processes of a machine share, where there are several."""
    part = config.process
    return None if part is None or part.count < 2 else MappedBoard(Path(part.folder), part.number, part.count)


def _removal(query: dict[str, str]) -> Remove:
    return Remove(int(query["node"]), query.get("force", "") == "1")


def _bounded(log: Callable[[str], None]) -> Callable[[str], None]:
    """At most `LOG_LINES_PER_S` lines a second: whoever knocks at the port all day must not fill the disk.

    Strangers' words may be in a line; they end none and begin none.
    """
    window = [0, 0, 0]  # second, lines written, lines left out

    def write(text: str) -> None:
        second = int(time.monotonic())
        if second != window[0]:
            if window[2]:
                log(f"({window[2]} more lines like these were left out)")
            window[:] = [second, 0, 0]
        window[1] += 1
        if window[1] <= LOG_LINES_PER_S:
            log("".join(one if one.isprintable() else repr(one)[1:-1] for one in text))
        else:
            window[2] += 1

    return write


def run_node(
    config: NodeConfig, system_named: Callable[[str], System], log: Callable[[str], None],
    ready: Callable[[dict[str, int]], None], announce: Callable[[str, Path], None] = lambda token, path: None,
    reread: Callable[[], NodeConfig] | None = None,
) -> None:  # fmt: skip
    """A process: until SIGINT or SIGTERM; SIGHUP reads the configuration again. A new token is announced, this once."""

    async def main() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        node = LiveNode(config, system_named(config.network.system), log, system_named)
        node.reread = reread or node.reread
        loop.add_signal_handler(signal.SIGHUP, node.on_hangup)
        for end in (node.failure, node.left):
            end.add_done_callback(lambda _: stopped.set())
        starting, stopping = asyncio.ensure_future(node.start()), asyncio.ensure_future(stopped.wait())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # it was still joining
            starting.cancel()
            await asyncio.wait((starting,))
        else:
            ready(starting.result())
            gc.collect()
            gc.freeze()  # what was imported stays anyway: a full collection looks at sessions alone, not at all of it
            if node.is_new_token:
                announce(node.token, config.token_path)
        await stopping
        if node.failure.done():
            raise RunError(f"{config.name} has stopped: {node.failure.result()}")
        await node.stop()

    _raise_file_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())


def _raise_file_limit() -> None:
    """Connections are files: as many as the system lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
