"""Clients' sockets: MQTT over TCP, TLS and WebSocket, as lines of the driver."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence
from typing import cast

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.events import Message as WebSocketMessage
from wsproto.utilities import RemoteProtocolError as WebSocketError

from coterie.broker.facts import Bytes, Choked, Drained
from coterie.errors import ConfigError
from coterie.live.credentials import certificate_user
from coterie.live.driver import Driver
from coterie.live.guard import may_open_socket
from coterie.live.pacing import OFTEN_S, Pacer

LINGER_S = 2.0
MUCH_BYTES = 16_384  # who sends so much at once can wait for the links
WAIT_S, LOOK_S = 0.2, 0.01
READ_BYTES = 256 << 10


class ClientSocket(asyncio.Protocol):
    """One client's socket; `given`: the process of this machine that had it before, and its number for it."""

    is_plain = True  # what the system has of it is all there is

    def __init__(
        self, driver: Driver, write_buffer_bytes_max: int, pacer: Pacer | None = None,
        given: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        self.line = 0
        self.is_closing = False
        self._pacer, self._given = pacer, given
        self._spoke_s = (0.0, 0.0)  # the last two times, where somebody paces
        self._driver = driver
        self._write_buffer_bytes_max = write_buffer_bytes_max
        self._transport: asyncio.Transport | None = None
        self._file = -1  # where bytes can be written and read past the transport, which saves its queue
        self._holds: set[str] = set()  # why nothing is read at present

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = self._transport.get_extra_info("peername")
        self._transport.set_write_buffer_limits(high=self._write_buffer_bytes_max)
        if self._transport.get_extra_info("sslcontext") is None:
            self._file = self._transport.get_extra_info("socket").fileno()
        host = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._given is not None:
            self.line = self._driver.got(self, host, *self._given)
            return
        certified = certificate_user(self._transport.get_extra_info("peercert"))
        is_movable = self._file >= 0 and self.is_plain
        self.line = self._driver.opened(self, host, certified, is_movable=is_movable)

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        self._driver.take(Bytes(self.line, data))
        if self._pacer is not None and "pace" not in self._holds:
            self._note_spoken(self._pacer)
        if len(data) >= MUCH_BYTES:
            self._take_turns()

    def _note_spoken(self, pacer: Pacer) -> None:
        now_s = self._driver.now_s()
        first_s, last_s = self._spoke_s
        self._spoke_s = last_s, now_s
        if now_s - first_s < OFTEN_S:
            pacer.join(self)

    def read_now(self) -> bool | None:
        """See `pacing.PacedSocket`. The end and failures are left to the transport."""
        if self.is_closing or self._transport is None:
            return None
        if len(self._holds) > 1:
            return False
        try:
            data = os.read(self._file, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return None
        if not data:
            return None
        self.data_received(data)
        return True

    def _take_turns(self) -> None:
        """A client that sends much at once lets the others have their turn, and the links catch up, before it goes on.

        Not for long: a peer that is stuck must not stop everybody.
        """
        broker = self._driver.broker
        if broker.is_alone or "links" in self._holds or (broker.siblings is not None and not broker.links.is_crowded):
            return
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + WAIT_S

        def look() -> None:
            if broker.links.is_crowded and loop.time() < deadline_s:
                loop.call_later(LOOK_S, look)
            else:
                self.release("links")

        self.hold("links")
        loop.call_soon(look)

    def hold(self, reason: str) -> None:
        if not self._holds and self._transport is not None and not self.is_closing:
            self._transport.pause_reading()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The client does not read: keep its answers bounded too, by not reading its questions."""
        self.hold("client")
        self._driver.take(Choked(self.line))

    def resume_writing(self) -> None:
        self.release("client")
        self._driver.take(Drained(self.line))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.is_closing = True
        if self._pacer is not None:
            self._pacer.leave(self)
        self._driver.closed(self.line)

    def write(self, chunks: list[bytes], at_once: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if at_once and self._file >= 0 and not transport.get_write_buffer_size():
            try:
                sent = os.write(self._file, data)
            except OSError:  # there is no room, or the transport finds out what it is
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        transport.write(data)

    def finish(self, linger: bool) -> None:
        """Close; with last words to be read, half-close and give the client a moment."""
        if self.is_closing or self._transport is None:
            return
        self.is_closing = True
        if self._transport.is_closing():
            return
        if linger and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        asyncio.get_running_loop().call_later(LINGER_S, self._give_up)

    def give(self) -> int | None:
        """The file to be given to another process; -1 while something is still to be written; None if it has gone."""
        self.is_closing = True
        if self._transport is None or self._transport.is_closing():
            return None
        return -1 if self._transport.get_write_buffer_size() else self._file

    def let_go(self) -> None:
        """It is another process's now, or nobody's: close the file of this one, and no more."""
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self) -> None:
        """A client that does not read its last words does not keep the socket."""
        if self._transport is not None:
            self._transport.abort()


class WebSocket(ClientSocket):
    """The same behind a WebSocket (section 6 of MQTT 5): binary messages whose borders mean nothing."""

    is_plain = False

    def __init__(self, driver: Driver, write_buffer_bytes_max: int, origins: Sequence[str] = ()) -> None:
        super().__init__(driver, write_buffer_bytes_max)
        self._origins = origins
        self._socket = WSConnection(ConnectionType.SERVER)
        self._is_open = False

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                self._on_event(event)
        except WebSocketError as error:
            if error.event_hint is not None:
                self._send(error.event_hint)
            self.finish(linger=False)
        except UnicodeError:  # a host that is no name: wsproto does not expect that
            self.finish(linger=False)

    def _on_event(self, event: object) -> None:
        match event:
            case Request():
                headers = {bytes(name).lower(): bytes(value) for name, value in event.extra_headers}
                origin = headers[b"origin"].decode("latin-1") if b"origin" in headers else None
                if not may_open_socket(origin, event.host, self._origins):
                    self._send(RejectConnection(status_code=403))
                    self.finish(linger=False)
                elif "mqtt" in event.subprotocols:
                    self._send(AcceptConnection(subprotocol="mqtt"))
                    self._is_open = True
                else:
                    self._send(RejectConnection(status_code=400))
                    self.finish(linger=False)
            case BytesMessage():
                super().data_received(bytes(event.data))
            case Ping():
                self._send(event.response())
            case CloseConnection():
                self._send(event.response())
                self.finish(linger=False)
            case TextMessage():
                self._send(CloseConnection(code=1003, reason="MQTT is binary"))
                self.finish(linger=False)

    def _send(self, event: object) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._socket.send(event))  # type: ignore[arg-type]

    def write(self, chunks: list[bytes], at_once: bool) -> None:
        if self._is_open:
            self._send(WebSocketMessage(data=b"".join(chunks)))


def client_tls(certificate: str, key: str, authority: str) -> ssl.SSLContext:
    """TLS for clients; with an authority, clients must show a certificate of it."""
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority or None)
        context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("mqtt.certificate", certificate, f"a usable certificate: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authority:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
