"""`coterie pub` and `coterie sub`: a publisher and a subscriber that go where a server sends them."""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from coterie.cli.console import err
from coterie.errors import ConfigError, InputError, RunError
from coterie.live.client import MqttClient, connect_packet
from coterie.mqtt.packets import MQTT_3, MQTT_5, MQTT_31, Publish
from coterie.mqtt.reasons import MqttError, reason_name
from coterie.mqtt.topics import check_filter, check_topic_name

ANSWER_S = 30.0  # what the server has not answered for by then, it will not


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """A server, and who we are to it."""

    host: Annotated[str, typer.Option("--host", "-h", help="The server to connect to.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65_535, help="Its MQTT port.")] = 1883
    qos: Annotated[
        int, typer.Option("--qos", "-q", min=0, max=2, help="0: at most once, 1: at least once, 2: once.")
    ] = 1
    identifier: Annotated[str, typer.Option("--id", "-i", help="Client identifier; the server gives one if empty.")] = (
        ""
    )
    user: Annotated[str | None, typer.Option("--user", "-u", help="User name.")] = None
    password: Annotated[
        str | None,
        typer.Option(
            "--password",
            envvar="COTERIE_PASSWORD",
            help="Password; safer in the variable, which other users cannot see.",
        ),
    ] = None
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Use TLS; add --authority if no public authority signed the server's certificate."),
    ] = False
    authority: Annotated[
        Path | None, typer.Option("--authority", help="PEM file of the authority that signed the server's certificate.")
    ] = None
    mqtt: Annotated[
        str,
        typer.Option(
            "--mqtt", help="MQTT version: 5, 3.1.1 or 3.1. Only with 5 can a server refer clients to another."
        ),
    ] = "5"
    follow: Annotated[
        bool, typer.Option("--follow/--stay", help="Follow the server's reference to another server, or stay.")
    ] = True
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="Another host that a reference may lead to; repeatable.")
    ] = None

    def client(self, give_up_s: float, keep_s: int = 0, **heard: Any) -> MqttClient:
        """Not connected yet; the server keeps its session for so long."""
        versions = {"5": MQTT_5, "3.1.1": MQTT_3, "3": MQTT_3, "3.1": MQTT_31}
        if self.mqtt not in versions:
            raise ConfigError("--mqtt", self.mqtt, "5, 3.1.1 or 3.1")
        packet = connect_packet(
            self.identifier, version=versions[self.mqtt], clean=not keep_s, username=self.user, password=self.password,
            expiry_s=keep_s,
        )  # fmt: skip
        return MqttClient(
            self.host, self.port, packet, follow=self.follow, allowed_hosts=self.allow or (), give_up_s=give_up_s,
            tls=self._tls(), **heard,
        )  # fmt: skip

    def _tls(self) -> ssl.SSLContext | None:
        """How the server's certificate is checked; None: no TLS."""
        if not self.tls and self.authority is None:
            return None
        try:
            return ssl.create_default_context(cafile=None if self.authority is None else str(self.authority))
        except (OSError, ssl.SSLError) as error:
            raise InputError(str(self.authority), f"is no PEM file of an authority: {error}") from None


def pub_command(
    topic: Annotated[str, typer.Argument(help="A topic name, without wildcards.")],
    message: Annotated[
        str | None, typer.Argument(help="The message; without it, each line of standard input is one.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Publish the content of a file.")] = None,
    retain: Annotated[bool, typer.Option("--retain", "-r", help="Retain it for clients that subscribe later.")] = False,
    *,
    server: ConnectionOptions,
) -> None:
    """Publish messages.

    One message, a file, or every line of standard input.

    Examples:
      coterie pub news/vienna "it rains" --qos 1
    """
    _checked(check_topic_name, "topic", topic)
    given = _given(message, file)
    client = server.client(give_up_s=10)

    async def main() -> None:
        async with client:
            async for payload in _lines() if given is None else _once(given):
                try:
                    reason = await asyncio.wait_for(client.publish(topic, payload, server.qos, retain), ANSWER_S)
                except TimeoutError:
                    place = "{}:{}".format(*client.server)
                    raise RunError(f"{place} did not answer for a message on {topic} in {ANSWER_S:g} s") from None
                if reason >= 0x80:
                    raise RunError(f"the server refused the message on {topic}: {reason_name(reason)}")
            await client.drain()

    asyncio.run(main())


def _given(message: str | None, file: Path | None) -> bytes | None:
    """What is to be published; None: the lines of standard input."""
    if file is not None and message is not None:
        raise ConfigError("--file", str(file), "a file or a message, not both")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            raise InputError(str(file), f"cannot be read: {error.strerror}") from None
    return None if message is None else message.encode()


async def _once(payload: bytes) -> AsyncIterator[bytes]:
    yield payload


async def _lines() -> AsyncIterator[bytes]:
    """Lines as they are written; a thread waits for them, so that the connection is kept alive meanwhile."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended before the input
            for line in sys.stdin.buffer:
                loop.call_soon_threadsafe(lines.put_nowait, line.rstrip(b"\n"))
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line


def _checked(check: Callable[[str], object], what: str, text: str) -> None:
    try:
        check(text)
    except MqttError as error:
        raise ConfigError(what, text, error.reason) from None


def sub_command(
    filters: Annotated[list[str], typer.Argument(help="Topic filters.")],
    count: Annotated[int, typer.Option("--count", "-c", min=0, help="Stop after this many messages; 0: never.")] = 0,
    wait: Annotated[float, typer.Option("--wait", "-w", min=0.0, help="Stop after this many seconds; 0: never.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with topic and options.")] = False,
    keep: Annotated[
        int, typer.Option(min=0, max=0xFFFFFFFF, help="Seconds the server keeps the session while we are away.")
    ] = 0,
    *,
    server: ConnectionOptions,
) -> None:
    """Subscribe and print the messages.

    One message a line; comes back after a lost connection.

    Examples:
      coterie sub "news/#" --json
    """
    for one in filters:
        _checked(check_filter, "filter", one)
    finished = asyncio.Event()
    left = [count]

    def show(message: Publish) -> None:
        if finished.is_set():
            return
        sys.stdout.buffer.write(_json(message) if as_json else message.payload + b"\n")
        sys.stdout.flush()
        left[0] -= 1  # from 0 on it never is 0 again: no end
        if left[0] == 0:
            finished.set()

    client = server.client(give_up_s=60, keep_s=keep, on_message=show, on_trouble=_Teller())

    async def main() -> None:
        async with client:
            reasons = await client.subscribe(*filters, qos=server.qos)
            for topic_filter, reason in zip(filters, reasons, strict=True):
                if reason >= 0x80:
                    raise RunError(f"the server refused the subscription to {topic_filter}: {reason_name(reason)}")
            if client.redirects:
                err.print(f"moved to {client.server[0]}:{client.server[1]}")
            try:
                await asyncio.wait_for(finished.wait(), wait or None)
            except TimeoutError:
                return

    asyncio.run(main())


class _Teller:
    """Says what is wrong with the connection, each thing once, so that nobody waits without knowing for what."""

    def __init__(self) -> None:
        self._told = ""

    def __call__(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            err.print(f"{reason} (trying again)", soft_wrap=True, markup=False)


def _json(message: Publish) -> bytes:
    document = {
        "t": round(time.time(), 6),
        "topic": message.topic,
        "payload": message.payload.decode("utf-8", "backslashreplace"),
        "qos": message.qos,
        "retain": message.retain,
    }
    return msgspec.json.encode(document) + b"\n"
