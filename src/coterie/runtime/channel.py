"""One TCP connection between two nodes: who are you, prove it, then frames until one side goes.

Both sides greet with a fresh key; whatever comes then is sealed with what follows from both keys, both greetings and
the network's shared key (`sealing`), so the first record that opens is the proof. With certificates, TLS has checked
the peer before, and its certificate must name the node it claims to be.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast

from coterie.broker.frames import (
    BYE,
    HELLO,
    LINK_VERSION,
    PROOF,
    FrameReader,
    Hello,
    decode_hello,
    encode_hello,
    frame,
    greeting_in,
)
from coterie.errors import RemoteProtocolError
from coterie.runtime.sealing import Sealing

GREETING_BYTES_MAX = 1024
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}


def _watch_host(connection: socket.socket | None) -> None:
    """Hosts that vanish are found by TCP within half a minute, so that heartbeats need not be frequent."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class Owner(Protocol):
    """Whom a channel tells: the links of a node."""

    network: str
    system: str
    node: int
    keys: tuple[bytes, ...]
    frame_bytes_max: int

    def may_link(self, peer: int) -> bool: ...
    def opened(self, channel: Channel) -> None: ...
    def closed(self, channel: Channel, reason: str) -> None: ...
    def received(self, channel: Channel, frames: list[tuple[int, bytes]]) -> None: ...
    def now(self) -> float: ...


class Channel(asyncio.Protocol):
    """See the module. `output` is written once per loop turn by the owner's `flush`."""

    def __init__(self, owner: Owner, dialled: int | None) -> None:
        self.peer = -1 if dialled is None else dialled
        self.is_open = False
        self.is_leaving = False  # one side said BYE: the end of the connection is no loss
        self.output: list[bytes] = []
        self.output_bytes = 0
        self.heard_s = self.used_s = self.sent_s = owner.now()
        self.bytes_in = self.bytes_out = 0
        self.transport: asyncio.Transport | None = None
        self.settled = asyncio.Event()  # greeted, or gone before that
        self.reason = "the connection closed"
        self._owner = owner
        self._is_dialler = dialled is not None
        self._reader = FrameReader(owner.frame_bytes_max)
        self._sealing = Sealing(self._is_dialler)
        self._greeting = b""  # ours
        self._early = b""  # the start of theirs
        self._is_greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        _watch_host(transport.get_extra_info("socket"))
        owner = self._owner
        hello = Hello(LINK_VERSION, owner.network, owner.system, owner.node, self._sealing.public)
        self._greeting = encode_hello(hello)
        self.transport.write(frame(HELLO, self._greeting))

    def data_received(self, data: bytes) -> None:
        self.heard_s = self._owner.now()
        self.bytes_in += len(data)
        try:
            if not self._is_greeted:
                data = self._greet(self._early + data)
            frames = self._reader.feed(self._sealing.open(data)) if data else []
            if frames and not self.is_open:
                self._take_proof(*frames.pop(0))
            if frames:
                self._owner.received(self, frames)
        except RemoteProtocolError as error:
            self.abort(str(error))

    def _greet(self, data: bytes) -> bytes:
        """Take the other's greeting once it is whole; returns what came behind it."""
        found = greeting_in(data, GREETING_BYTES_MAX)
        if found is None:
            self._early = data
            return b""
        body, rest = found
        hello = decode_hello(body)
        self._check_hello(hello)
        self._sealing.agree(self._greeting, body, hello.public, self._owner.keys)
        self._is_greeted, self._early = True, b""
        assert self.transport is not None
        self.transport.write(self._sealing.seal(frame(PROOF, b"")))
        return rest

    def _take_proof(self, kind: int, body: bytes) -> None:
        """It opened: whoever sent it has the key, and means this conversation."""
        if kind != PROOF or body:
            raise RemoteProtocolError(f"a frame of kind {kind} before the greeting was over")
        self.is_open = True
        self._owner.opened(self)

    def _check_hello(self, hello: Hello) -> None:
        owner = self._owner
        if hello.version != LINK_VERSION:
            raise RemoteProtocolError(f"links of version {hello.version}, this node speaks {LINK_VERSION}")
        if (hello.network, hello.system) != (owner.network, owner.system):
            raise RemoteProtocolError(f"belongs to {hello.network}/{hello.system}, not {owner.network}/{owner.system}")
        if hello.node == owner.node or self.peer not in (-1, hello.node):
            raise RemoteProtocolError(f"node {hello.node} is not who should be there")
        if not owner.may_link(hello.node):
            raise RemoteProtocolError(f"node {hello.node} is not expected here")
        self._check_certificate(hello.node)
        self.peer = hello.node

    def _check_certificate(self, node: int) -> None:
        assert self.transport is not None
        certificate = self.transport.get_extra_info("peercert")
        if certificate:
            names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
            names |= {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
            if f"node-{node}" not in names:
                raise RemoteProtocolError(f"the certificate names {sorted(names)}, not node-{node}")

    # --- out ---

    def put(self, data: bytes) -> None:
        self.output.append(data)
        self.output_bytes += len(data)

    def flush(self, now_s: float) -> None:
        if self.output:
            if self.transport is not None and not self.transport.is_closing():
                sealed = self._sealing.seal(b"".join(self.output))
                self.transport.write(sealed)
                self.bytes_out += len(sealed)
                self.sent_s = now_s
            self.output.clear()
            self.output_bytes = 0

    @property
    def backlog_bytes(self) -> int:
        if self.transport is None or self.transport.is_closing():
            return self.output_bytes
        return self.transport.get_write_buffer_size() + self.output_bytes

    def close(self) -> None:
        """In good order: the peer is told that this is no failure."""
        if self.is_open and not self.is_leaving:
            self.is_leaving = True
            self.put(frame(BYE, b""))
            self.flush(self._owner.now())
        if self.transport is not None:
            self.transport.close()

    def abort(self, reason: str) -> None:
        self.reason = reason
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._owner.closed(self, self.reason if error is None else str(error))
