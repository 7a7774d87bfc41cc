"""A small MQTT client on asyncio: publishes, subscribes, comes back after a loss, and goes where a server sends it.

Server references are followed only if they name an allowed server (by default anywhere on the host it first asked), at
most `hops_max` times in a row, so that two servers cannot play ping-pong with a client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable

import msgspec

from coterie.errors import RunError
from coterie.mqtt.client import (
    Client,
    Connected,
    Disconnected,
    Event,
    PublishDone,
    Refused,
    SubscribeDone,
    UnsubscribeDone,
    redirect_accepted,
)
from coterie.mqtt.packets import MQTT_5, Connect, Publish, Subscription
from coterie.mqtt.properties import NO_PROPERTIES, Properties
from coterie.mqtt.reasons import MqttError, Reason, reason_name

GOODBYE_S = 2.0
RETRY_S, RETRY_S_MAX = 0.1, 2.0
ANSWER_S = 10.0  # a server that has said nothing to CONNECT for so long is not one
REDIRECTS = (Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED)


class MqttClient:
    """`start` connects and keeps the connection; messages go to `on_message`. Use it as an async context manager."""

    def __init__(
        self, host: str, port: int, connect: Connect, on_message: Callable[[Publish], None] = lambda message: None,
        *, follow: bool = True, allowed_hosts: Iterable[str] = (), hops_max: int = 3, give_up_s: float = 30.0,
        on_trouble: Callable[[str], None] = lambda reason: None, tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        if follow and connect.version >= MQTT_5:
            connect = msgspec.structs.replace(connect, properties=redirect_accepted(connect.properties))
        self.server = (host, port)
        self.redirects = 0
        self.on_message, self._on_trouble = on_message, on_trouble
        self.subscriptions: dict[str, Subscription] = {}
        self._client = Client(connect)
        self._tls = tls
        self._follow = follow and connect.version >= MQTT_5
        self._allowed = {host, *allowed_hosts}
        self._hops_max, self._hops, self._give_up_s = hops_max, 0, give_up_s
        self._answers: dict[int, asyncio.Future[tuple[int, ...]]] = {}
        self._requests: dict[int, tuple[Subscription | str, ...]] = {}  # not answered yet: to be made again elsewhere
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._failure: RunError | None = None
        self._was_connected = False
        self._is_leaving = False

    async def __aenter__(self) -> MqttClient:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._connected.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not self._connected.is_set():
            waiting.cancel()
            self._task.result()  # an error of ours is raised here
            raise self._failure or RunError("the client ended before it was connected")

    async def stop(self) -> None:
        self._is_leaving = True
        if self._client.is_connected and self._writer is not None:
            self._client.disconnect()
            self._flush()
        if self._writer is not None:
            await self._hang_up(self._writer)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @staticmethod
    async def _hang_up(writer: asyncio.StreamWriter) -> None:
        """Close once all has left, and TLS has said goodbye; a server that does not take part is not waited for."""
        writer.close()
        try:
            async with asyncio.timeout(GOODBYE_S):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            writer.transport.abort()

    async def go_to(self, host: str, port: int) -> None:
        """Leave, and come to another server with all that it knows: asked for is the session that it had."""
        await self.stop()
        self.server = (host, port)
        self._is_leaving = self._is_refused = False
        self._connected.clear()
        await self.start()

    def cut(self) -> None:
        """Lose the connection without a word; the client comes back by itself."""
        if self._writer is not None:
            self._writer.transport.abort()

    # --- verbs ---

    def send(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> asyncio.Future[tuple[int, ...]]:
        """Publish; the result comes when the server has answered for it (at once for QoS 0)."""
        packet_id = self._client.publish(topic, payload, qos, retain)
        answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        if packet_id:
            self._answers[packet_id] = answer
        else:
            answer.set_result((0,))
        self._flush()
        return answer

    async def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> int:
        """The reason code of the server's answer."""
        return (await self.send(topic, payload, qos, retain))[0]

    async def subscribe(self, *filters: str, qos: int = 0) -> tuple[int, ...]:
        chosen = tuple(Subscription(one, qos) for one in filters)
        self.subscriptions.update({one.filter: one for one in chosen})
        return await self._request(chosen)

    async def unsubscribe(self, *filters: str) -> tuple[int, ...]:
        for one in filters:
            self.subscriptions.pop(one, None)
        return await self._request(filters)

    async def drain(self) -> None:
        if self._writer is not None:
            await self._writer.drain()

    async def _request(self, asked: tuple[Subscription | str, ...]) -> tuple[int, ...]:
        """Subscribe or unsubscribe (filters); whoever answers in the end, for a server may send us on instead."""
        answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self._ask(asked, answer)
        self._flush()
        return await answer

    def _ask(self, asked: tuple[Subscription | str, ...], answer: asyncio.Future[tuple[int, ...]]) -> None:
        wanted = [one for one in asked if isinstance(one, Subscription)]
        given_up = [one for one in asked if isinstance(one, str)]
        packet_id = self._client.subscribe(*wanted) if wanted else self._client.unsubscribe(*given_up)
        self._answers[packet_id], self._requests[packet_id] = answer, asked

    # --- the connection ---

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        delay_s, since_s = RETRY_S, loop.time()
        while not self._is_leaving:
            moves, self._failure = self.redirects, None
            try:
                await self._converse()
                delay_s = RETRY_S
                if self._failure is None and self.redirects == moves:
                    self._failure = RunError(f"{self._place} closed the connection")
            except ConnectionRefusedError:
                self._failure = RunError(f"{self._place} cannot be reached: nobody listens there; is the network up?")
            except MqttError as error:
                self._failure = RunError(f"{self._place} does not speak MQTT as it should: {error}")
            except ssl.SSLCertVerificationError as error:
                told = f"its certificate is not trusted here ({error.verify_message}); --authority names who signed it"
                self._failure = RunError(f"{self._place}: {told}")
            except (OSError, asyncio.IncompleteReadError) as error:
                reason = getattr(error, "strerror", None) or error
                self._failure = RunError(f"{self._place} cannot be reached: {reason}")
            if self._client.is_connected or self._was_connected:
                since_s = loop.time()
            self._client.is_connected = False
            if self._failure is not None and not self._is_leaving and not self._is_refused:
                self._on_trouble(str(self._failure))
            if self._is_refused or loop.time() - since_s > self._give_up_s:
                return
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, RETRY_S_MAX)

    _is_refused = False

    @property
    def _place(self) -> str:
        return f"{self.server[0]}:{self.server[1]}"

    async def _converse(self) -> None:
        """One connection from CONNECT to its end."""
        loop = asyncio.get_running_loop()
        reader, self._writer = await asyncio.open_connection(*self.server, ssl=self._tls)
        try:
            self._client.start(loop.time(), resume=self._was_connected)
            self._flush()
            while True:
                data = await self._read(reader)
                if not data:
                    return
                for event in self._client.receive(data, loop.time()):
                    if self._on_event(event):
                        return
                self._flush()
        finally:
            self._writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """The next bytes; pings while there are none. Empty: the server is gone."""
        loop = asyncio.get_running_loop()
        while True:
            deadline_s = self._client.deadline_s
            timeout_s = None if deadline_s is None else max(0.0, deadline_s - loop.time())
            if not self._client.is_connected:
                timeout_s = ANSWER_S
            try:
                return await asyncio.wait_for(reader.read(1 << 18), timeout_s)
            except TimeoutError:
                if not self._client.is_connected:
                    raise TimeoutError(f"it said nothing for {ANSWER_S:g} s; is this the MQTT port?") from None
                if not self._client.on_time(loop.time()):
                    return b""
                self._flush()

    def _flush(self) -> None:
        if self._writer is not None and self._client.output and not self._writer.is_closing():
            self._writer.write(b"".join(self._client.output))
            self._client.output.clear()
            self._client.sent(asyncio.get_running_loop().time())

    def _on_event(self, event: Event) -> bool:
        """True if the connection is over."""
        match event:
            case Publish():
                self.on_message(event)
            case PublishDone():
                self._answer(event.packet_id, (event.reason,))
            case SubscribeDone() | UnsubscribeDone():
                self._answer(event.packet_id, event.reasons)
            case Connected():
                self._on_connected(event)
            case Refused() | Disconnected():
                return self._on_end(event)
        return False

    def _answer(self, packet_id: int, reasons: tuple[int, ...]) -> None:
        self._requests.pop(packet_id, None)
        answer = self._answers.pop(packet_id, None)
        if answer is not None and not answer.done():
            answer.set_result(reasons)

    def _on_connected(self, event: Connected) -> None:
        self._was_connected = True
        self._hops = 0
        open_requests, self._requests = self._requests, {}
        again = [(asked, self._answers.pop(packet_id)) for packet_id, asked in open_requests.items()]
        asked_again = {one.filter for asked, _ in again for one in asked if isinstance(one, Subscription)}
        known = [one for name, one in self.subscriptions.items() if name not in asked_again]
        if not event.session_present and known:
            self._client.subscribe(*known)
        for asked, answer in again:
            self._ask(asked, answer)
        self._connected.set()

    def _on_end(self, event: Refused | Disconnected) -> bool:
        if event.reason in REDIRECTS and self._follow and self._hops < self._hops_max:
            for host, port in event.servers:
                if host in self._allowed and port is not None:
                    self.server = (host, port)
                    self._hops += 1
                    self.redirects += 1
                    return True
        if isinstance(event, Refused):
            self._is_refused = True
            self._failure = RunError(
                f"{self.server[0]}:{self.server[1]} refused the connection: {reason_name(event.reason)}"
            )
        return True


def connect_packet(
    client_id: str = "", *, version: int = MQTT_5, clean: bool = True, keep_alive_s: int = 30,
    username: str | None = None, password: str | None = None, expiry_s: int = 0,
) -> Connect:  # fmt: skip
    properties = Properties(session_expiry_s=expiry_s) if expiry_s and version >= MQTT_5 else NO_PROPERTIES
    secret = None if password is None else password.encode()
    return Connect(client_id, version, clean, keep_alive_s, username, secret, None, properties)
