"""A node of the live network: everything of one process put together, from its configuration to its end."""

from __future__ import annotations

import asyncio
import fcntl
import resource
import signal
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from coterie import __version__
from coterie.broker.carried import microseconds
from coterie.errors import ConfigError, CoterieError, InputError, RunError
from coterie.model.plan import Slice
from coterie.plans.orders import NewPlacement, PlanOrder
from coterie.protocol.system import System
from coterie.runtime import figures
from coterie.runtime.access import Access
from coterie.runtime.admin import AdminInterface
from coterie.runtime.admitting import Admitting, admit_by_interest
from coterie.runtime.arriving import Arriving, secrets_of
from coterie.runtime.config import NodeConfig
from coterie.runtime.counts import Counts
from coterie.runtime.guard import Guard
from coterie.runtime.journal import Journal
from coterie.runtime.listeners import ClientLink, WebSocketLink, client_tls
from coterie.runtime.network import Network
from coterie.runtime.nodebroker import NodeBroker
from coterie.runtime.placement import Placement
from coterie.runtime.reloading import reload
from coterie.runtime.server import Server
from coterie.runtime.store import Store
from coterie.runtime.tokens import kept_token

ALIVE_S = 1.0
SYS_S = 10.0
TRIM_S = 600.0
LOG_LINES_PER_S = 20


def load_slice(config: NodeConfig, system: System) -> Slice:
    """What the plan says of this node; alone in the network where there is none."""
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


def _in_short(node: LiveNode) -> dict[str, Any]:
    """What anybody may know: whether the node is there and ready."""
    health = figures.health(node)
    return {name: health[name] for name in ("status", "ready")}


def _homes(node: LiveNode) -> dict[str, Any]:
    return {"clients": sorted(name for name, one in node.broker.sessions.items() if one.is_online)}


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
        base_s, start_s = time.time(), time.monotonic()
        # Wall time that never jumps while the process lives: deadlines in the store mean the same after a restart.
        self.wall_s: Callable[[], float] = lambda: base_s + (time.monotonic() - start_s)
        self._start_s = start_s
        self.counts = Counts()
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._lock = _locked(config.data)
        self.store = Store(config.data / "node.sqlite", config.store.sync)
        self.access = Access(config.access, *secrets_of(config))
        arriving = Arriving(self.access, config.access.logins, config.limits, self.counts, self.wall_s)
        self.broker = NodeBroker(config.options(), self.access, f"{config.name}-{microseconds(base_s)}-")
        system.configure(config.network.settings)
        self.network = Network(
            config, system_named or _only(system), load_slice(config, system), self.store, self.wall_s
        )
        self.network.log = log
        self.before_plan = Counts()  # as counts stood when the plan in use came into force
        self.network.planes.on_switch = self._note_switch
        self.journal = (
            Journal(config.journal_folder, config.name, config.journal.segment_bytes_max)
            if config.journal.enabled
            else None
        )
        mqtt = config.mqtt
        self.server = Server(
            self.broker, self.network, self.store, self.access, self.journal, self.counts, self.wall_s,
            mqtt.connections_max, mqtt.write_buffer_bytes_max, arriving,
        )  # fmt: skip
        self.server.log = log
        self.server.on_failure = self._fail
        servers = {peer.id: peer.server for peer in config.network.peers if peer.server}
        self.placement = Placement(config.node.id, servers, config.data / "placement.json", self.wall_s)
        self.server.placement = self.placement
        if config.admission.enabled and not self.network.is_alone:
            by_interest = Admitting(config.admission, config.node.id, servers, self.network, self.counts, self.wall_s)
            admit_by_interest(self.server, by_interest)
        self.token, self.is_new_token = (
            (config.admin.token, False) if config.admin.token else kept_token(config.token_path)
        )
        self.interface = self._admin()
        self.reread: Callable[[], NodeConfig] = lambda: self.config
        self.tls: list[ssl.SSLContext] = []
        self.websocket_origins = list(mqtt.websocket_origins)
        self.ports: dict[str, int] = {}
        self._listeners: list[asyncio.Server] = []
        self._is_stopped = False

    def _note(self, text: str) -> None:
        if self.config.node.log_level == "info":
            self._tell(text)

    @property
    def deliveries(self) -> int:
        """To local clients since the plan is in force."""
        return self.counts.messages_out - self.before_plan.messages_out

    @property
    def publications(self) -> int:
        return self.counts.messages_in - self.before_plan.messages_in

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._start_s

    async def start(self) -> dict[str, int]:
        """Returns the ports that are open, by what they are for."""
        alive_until_us = int(self.store.meta("alive_us", 0))
        self.ports["links"] = await self.network.start(alive_until_us)
        self.server.restore()
        self.server.start()
        await self._listen()
        self._every(ALIVE_S, self._note_alive)
        self._every(SYS_S, self._publish_sys)
        self._every(1.0, self.server.move_clients)
        self._every(TRIM_S, self._trim)
        if self.journal is not None:
            self._journal_counters()  # the planner learns of the node before anybody uses it
            self._every(0.2, self.journal.flush)
            self._every(self.config.journal.counters_s, self._journal_counters)
        return self.ports

    async def _listen(self) -> None:
        mqtt, admin = self.config.mqtt, self.config.admin
        await self._open("mqtt", lambda: ClientLink(self.server), mqtt.host, mqtt.port)
        if mqtt.tls_port:
            paths = [str(self.config.path(one)) if one else "" for one in
                     (mqtt.certificate, mqtt.certificate_key, mqtt.client_authority)]  # fmt: skip
            self.tls.append(client_tls(*paths))
            await self._open("tls", lambda: ClientLink(self.server), mqtt.host, mqtt.tls_port, self.tls[0])
        if mqtt.websocket_port:
            make = partial(WebSocketLink, self.server, self.websocket_origins)
            await self._open("websocket", make, mqtt.host, mqtt.websocket_port)
        await self._open("admin", self.interface.connection, admin.host, admin.port)

    async def _open(
        self, name: str, make: Callable[[], asyncio.Protocol], host: str, port: int, tls: Any = None
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(make, host, port, ssl=tls, backlog=1024)
        except OSError as error:
            raise ConfigError(f"{name} port", port, f"free on {host}: {error.strerror or error}") from None
        self._listeners.append(listener)
        self.ports[name] = listener.sockets[0].getsockname()[1]

    def _admin(self) -> AdminInterface:
        interface = AdminInterface(Guard(self.token, self.config.admin.hosts))
        interface.add("GET", "/health", lambda query, body: figures.health(self), lambda query, body: _in_short(self))
        interface.add("GET", "/metrics", lambda query, body: figures.prometheus(self))
        interface.add("GET", "/topology", lambda query, body: figures.topology(self))
        interface.add("GET", "/channels", lambda query, body: figures.channels(self))
        interface.add("GET", "/ledger", lambda query, body: figures.ledger_document(self))
        interface.add("GET", "/totals", lambda query, body: figures.totals(self))
        interface.add("GET", "/plan", lambda query, body: figures.plan(self))
        interface.add("POST", "/plan", lambda query, body: self._take_plan(body))
        interface.add("GET", "/placement", lambda query, body: {"version": self.placement.version, **_homes(self)})
        interface.add("POST", "/placement", lambda query, body: self._take_placement(body))
        interface.add("POST", "/block", lambda query, body: self._block(query))
        interface.add("POST", "/reload", lambda query, body: self.reload())
        return interface

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

    def _take_plan(self, body: bytes) -> dict[str, Any]:
        """A step of a change of plans; the answer is what GET says afterwards."""
        order = msgspec.json.decode(body, type=PlanOrder)
        planes = self.network.planes
        match order.phase:
            case "load":
                if order.part is None:
                    raise ConfigError("part", None, "this node's part of the plan")
                planes.load(order.part)
            case "start":
                planes.start(order.generation)
            case "switch":
                self.network.switch_plan(order.generation)
            case "drop":
                planes.drop()
        self.server.schedule()
        return planes.document()

    def _note_switch(self) -> None:
        self.before_plan = replace(self.counts)
        self.log(f"plan {self.network.overlay.slice.version} is in force")

    def _take_placement(self, body: bytes) -> dict[str, Any]:
        """`{"version": 3, "clients": {"ann": 1}}`: clients that follow are moved, twenty a second."""
        wanted = msgspec.json.decode(body, type=NewPlacement)
        known = {self.config.node.id, *self.network.links.peers}
        if strangers := sorted(set(wanted.clients.values()) - known):
            raise ConfigError("placement", strangers[0], "a node of the network")
        return {"version": wanted.version, "elsewhere": self.placement.take(wanted.version, wanted.clients)}

    def _block(self, query: dict[str, str]) -> dict[str, Any]:
        """Fault injection: `peers=1,2` cuts this node off from them until it is called without any."""
        peers = [int(one) for one in query.get("peers", "").split(",") if one]
        self.network.links.block(peers)
        return {"blocked": peers}

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

    def _note_alive(self) -> None:
        if not self.network.is_alone:
            self.store.set_meta("alive_us", microseconds(self.wall_s()))
            self.server.schedule()

    def _publish_sys(self) -> None:
        figures.publish_sys(self, __version__)
        self.server.schedule()

    def _journal_counters(self) -> None:
        assert self.journal is not None
        self.journal.counters(self.wall_s(), figures.totals(self))

    def _trim(self) -> None:
        settings = self.config.store
        before_us = microseconds(self.wall_s() - settings.log_hours * 3600)
        nodes = [self.config.node.id, *self.network.links.peers]
        self.counts.log_dropped += self.store.trim(nodes, before_us, settings.log_bytes_max)
        for topic in self.store.trim_retained(before_us):
            self.server.stamps.pop(topic, None)

    async def stop(self) -> None:
        if self._is_stopped:
            return
        for listener in self._listeners:
            listener.close()
        await self.server.stop()
        if not self.network.is_alone:
            self.store.set_meta("alive_us", microseconds(self.wall_s()))
        self._is_stopped = True
        await self.network.stop()
        if self.journal is not None:
            self.journal.counters(self.wall_s(), figures.totals(self))
            self.journal.close(self.wall_s())
        self.store.close()
        self._lock.close()


def _bounded(log: Callable[[str], None]) -> Callable[[str], None]:
    """At most `LOG_LINES_PER_S` lines a second: whoever knocks at the port all day must not fill the disk."""
    window = [0, 0, 0]  # second, lines written, lines left out

    def write(text: str) -> None:
        second = int(time.monotonic())
        if second != window[0]:
            if window[2]:
                log(f"({window[2]} more lines like these were left out)")
            window[:] = [second, 0, 0]
        window[1] += 1
        if window[1] <= LOG_LINES_PER_S:
            log(text)
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
        ready(await node.start())
        if node.is_new_token:
            announce(node.token, config.token_path)
        node.failure.add_done_callback(lambda _: stopped.set())
        await stopped.wait()
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
