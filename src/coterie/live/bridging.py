"""A node's bridges to other MQTT brokers: the sockets and the clock of `mqtt.bridge`.

The far side is a socket of ours; the near side is a line of our own driver, as if the bridge were a client of the node.
A side that is slow stops the other from being read, so nothing piles up between them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from coterie.broker.clients import BRIDGE_PREFIX
from coterie.broker.facts import Bytes, Choked, Drained
from coterie.errors import ConfigError
from coterie.live.bridgesettings import BridgeSection, rules_of
from coterie.live.config import NodeConfig
from coterie.live.driver import Driver
from coterie.mqtt.bridge import Bridge, BridgeCounts
from coterie.mqtt.packets import MQTT_5, Connect
from coterie.mqtt.reasons import MqttError

RETRY_S, RETRY_S_MAX = 0.5, 30.0
ANSWER_S = 10.0
LOOK_S = 0.5
KEEP_ALIVE_S = 30


class NearLine:
    """The bridge's place among the node's clients; what the node says is read in the loop's next round."""

    def __init__(self, driver: Driver, far: FarSocket) -> None:
        self._driver, self._far = driver, far
        self._loop = asyncio.get_running_loop()
        self.number = 0
        self.is_over = False

    def open(self, user: str) -> None:
        self.number = self._driver.opened(self, "", user, is_inner=True)

    def send(self, data: bytes) -> None:
        if not self.is_over:
            self._driver.take(Bytes(self.number, data))

    def choke(self, is_choked: bool) -> None:
        if not self.is_over:
            self._driver.take(Choked(self.number) if is_choked else Drained(self.number))

    def leave(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._driver.closed(self.number)

    # --- what the driver asks of a line ---

    def write(self, chunks: list[bytes], at_once: bool) -> None:
        self._loop.call_soon(self._far.from_near, b"".join(chunks))

    def finish(self, linger: bool) -> None:
        self._loop.call_soon(self._far.end, "this node closed its line")

    def hold(self, reason: str) -> None:
        self._far.pause(True)

    def release(self, reason: str) -> None:
        self._far.pause(False)


class FarSocket(asyncio.Protocol):
    """The connection to the other broker, for one stint."""

    def __init__(self, bridge: Bridge, driver: Driver, user: str, ended: asyncio.Future[str]) -> None:
        self._bridge, self._user, self._ended = bridge, user, ended
        self._near = NearLine(driver, self)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._bridge.start(self._loop.time())
        self._flush()
        self._loop.call_later(LOOK_S, self._look)

    def data_received(self, data: bytes) -> None:
        self._take(self._bridge.from_far, data)

    def from_near(self, data: bytes) -> None:
        self._take(self._bridge.from_near, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.end("the other broker closed the connection" if error is None else str(error))

    def pause_writing(self) -> None:
        self._near.choke(True)

    def resume_writing(self) -> None:
        self._near.choke(False)

    def pause(self, is_paused: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    def end(self, reason: str) -> None:
        self._bridge.is_up = False
        if not self._ended.done():
            self._ended.set_result(self._bridge.trouble or reason)
        self._near.leave()
        if self._transport is not None:
            self._transport.close()

    def _take(self, step: Callable[[bytes, float], bool], data: bytes) -> None:
        if self._ended.done():
            return
        try:
            goes_on = step(data, self._loop.time())
        except MqttError as error:
            self.end(f"it does not speak MQTT as it should: {error.reason}")
            return
        self._flush()
        if not goes_on:
            self.end("")

    def _flush(self) -> None:
        near, far = self._bridge.near.client, self._bridge.far.client
        if far.output and self._transport is not None:
            self._transport.write(b"".join(far.output))
            far.output.clear()
            far.sent(self._loop.time())
        if near.output:
            said = b"".join(near.output)
            near.output.clear()
            near.sent(self._loop.time())
            if not self._near.number:
                self._near.open(self._user)
            self._near.send(said)

    def _look(self) -> None:
        """Pings; and an end for a broker that says nothing."""
        if self._ended.done():
            return
        now_s, far = self._loop.time(), self._bridge.far.client
        if not far.is_connected and now_s - self._began_s > ANSWER_S:
            self.end(f"it said nothing for {ANSWER_S:g} s")
        elif not far.on_time(now_s):
            self.end("it does not answer pings")
        else:
            self._flush()
            self._loop.call_later(LOOK_S, self._look)


class LiveBridge:
    """One bridge of a node, for as long as the node runs: connects, and comes back after a loss."""

    def __init__(self, config: NodeConfig, section: BridgeSection, driver: Driver, log: Callable[[str], None]) -> None:
        self.name, self.counts = section.name, BridgeCounts()
        self._section, self._driver, self._log = section, driver, log
        self._network, self._rules = config.network.name, rules_of(section)
        client_id = section.client_id or f"{config.network.name}-{config.name}-{section.name}"
        password = config.read(section.password_file).strip() if section.password_file else None
        self._far = Connect(client_id, section.version, False, KEEP_ALIVE_S, section.user or None, password)
        self._near = Connect(f"{BRIDGE_PREFIX}{section.name}-{config.name}", MQTT_5, False, 0)
        self._tls = _tls(config, section) if section.tls else None
        self._bridge: Bridge | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._bridge is not None and self._bridge.is_up

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        delay_s, last = RETRY_S, ""
        while True:
            reason, was_up = await self._stint()
            if was_up or reason != last:
                self._log(f"bridge {self.name} to {self._section.server}: {reason}; it will be tried again")
            delay_s = RETRY_S if was_up else min(2 * delay_s, RETRY_S_MAX)
            last = reason
            await asyncio.sleep(delay_s)

    async def _stint(self) -> tuple[str, bool]:
        """Until one side is lost: why, and whether messages could pass before."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()
        network, server = f"network {self._network}", self._section.server
        bridge = self._bridge = Bridge(network, server, self._rules, self._near, self._far, self.counts)
        host, _, port = server.rpartition(":")
        socket = FarSocket(bridge, self._driver, self._section.local_user, ended)
        try:
            await asyncio.wait_for(
                loop.create_connection(lambda: socket, host.strip("[]"), int(port), ssl=self._tls), ANSWER_S
            )
        except (OSError, TimeoutError) as error:
            return f"cannot be reached: {getattr(error, 'strerror', None) or error or 'no answer'}", False
        try:
            reason = await ended
        finally:
            socket.end("the node ends")
        return reason, bridge.near.client.is_connected


def _tls(config: NodeConfig, section: BridgeSection) -> ssl.SSLContext:
    authority = str(config.path(section.authority)) if section.authority else None
    try:
        context = ssl.create_default_context(cafile=authority)
        if section.certificate:
            key = str(config.path(section.certificate_key)) if section.certificate_key else None
            context.load_cert_chain(str(config.path(section.certificate)), key)
    except (OSError, ssl.SSLError) as error:
        told = f"PEM files that can be used: {error}"
        raise ConfigError(f"bridges {section.name}: authority or certificate", section.authority, told) from None
    return context
