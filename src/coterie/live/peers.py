"""Links' sockets. A TCP connection between two nodes: who are you, prove it, then frames until one side goes.

Both sides greet with a fresh key; whatever comes then is sealed with what follows from both keys, both greetings and
the network's shared key (`sealing`), so the first record that opens is the proof. With certificates, TLS has checked
the peer before, and its certificate must name the node it claims to be.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol, cast

from coterie.broker.facts import DialFailed, Fact, Knocked, PeerChoked, PeerDrained, PeerGone, PeerSaid, PeerUp
from coterie.broker.frames import (
    HELLO,
    LINK_VERSION,
    NEWCOMER,
    PROOF,
    SPOKEN,
    FrameReader,
    Hello,
    decode_hello,
    encode_hello,
    frame,
    greeting_in,
)
from coterie.broker.members import STRIDE
from coterie.broker.settings import LinkSection, PeerEntry
from coterie.errors import ConfigError, RemoteProtocolError
from coterie.live.driver import Driver
from coterie.live.sealing import Sealing
from coterie.protocol.wire import FRAME_BYTES_MAX

DIAL_TIMEOUT_S = 5.0
GREETING_BYTES_MAX = 1024
NODE_NAME = re.compile("node-([0-9]{1,4})").fullmatch  # in a certificate
DOOR_S = 60.0  # how long somebody who is no member may wait for an answer
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}


def _watch_host(connection: socket.socket | None) -> None:
    """Hosts that vanish are found by TCP within half a minute, so that heartbeats need not be frequent."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class PeerOwner(Protocol):
    """Whose socket it is: a node, or somebody who would like to become one (`joining`)."""

    network: str
    system: str
    node: int
    keys: tuple[bytes, ...]
    choke_bytes: int
    bytes_in: int
    bytes_out: int

    def objection(self, node: int) -> str: ...
    def opened(self, one: PeerSocket) -> None: ...
    def take(self, fact: Fact, /) -> None: ...
    def choked(self, one: PeerSocket, is_choked: bool) -> None: ...
    def closed(self, one: PeerSocket, reason: str) -> None: ...


class PeerSocket(asyncio.Protocol):
    """See the module. Frames are sealed as they are written. `expected` is whom a dialler wants to find, or anybody.

    `is_plain`: behind the proof, which is sealed, nothing is: the two are processes of one machine, and whoever could
    listen between them could read their keys and their memory.
    """

    def __init__(self, owner: PeerOwner, is_dialler: bool, expected: int = -1, is_plain: bool = False) -> None:
        self.peer = expected
        self.door = -1  # its number, if it is no member
        self.named = -1  # the node that its certificate is for, if it has no number yet
        self.is_open = False
        self.transport: asyncio.Transport | None = None
        self.settled = asyncio.Event()  # greeted, or gone before that
        self.reason = "the connection closed"
        self._owner = owner
        self._reader = FrameReader(FRAME_BYTES_MAX + 64)
        self._sealing = Sealing(is_dialler)
        self._is_plain = is_plain
        self._greeting = b""  # ours
        self._early = b""  # the start of theirs
        self._is_greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # To a process of this machine everything is handed to the system at once, or the broker told that it was not.
        self.transport.set_write_buffer_limits(high=0 if self._is_plain else self._owner.choke_bytes)
        _watch_host(transport.get_extra_info("socket"))
        owner = self._owner
        hello = Hello(LINK_VERSION, owner.network, owner.system, owner.node, self._sealing.public)
        self._greeting = encode_hello(hello)
        self.transport.write(frame(HELLO, self._greeting))

    def data_received(self, data: bytes) -> None:
        self._owner.bytes_in += len(data)
        try:
            if not self._is_greeted:
                data = self._greet(self._early + data)
            if data and not (self._is_plain and self.is_open):  # of a plain connection the proof alone is sealed
                data = self._sealing.open_one(data) if self._is_plain else self._sealing.open(data)
            frames = self._reader.feed(data) if data else []
            if frames and not self.is_open:
                self._take_proof(*frames.pop(0))
            if frames:
                is_member = self.door < 0
                knock = None if is_member else Knocked(self.door, self.peer, frames, self.named)
                self._owner.take(knock or PeerSaid(self.peer, frames))
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
        if hello.version not in SPOKEN:
            told = f"links of version {hello.version}, this node speaks {SPOKEN[0]} to {SPOKEN[-1]}"
            raise RemoteProtocolError(f"{told}; upgrade through the versions between")
        if (hello.network, hello.system) != (owner.network, owner.system):
            raise RemoteProtocolError(f"belongs to {hello.network}/{hello.system}, not {owner.network}/{owner.system}")
        if hello.node == owner.node or self.peer not in (-1, hello.node):
            raise RemoteProtocolError(f"node {hello.node} is not who should be there")
        if objection := owner.objection(hello.node):
            raise RemoteProtocolError(objection)
        self._check_certificate(hello.node)
        self.peer = hello.node

    def _check_certificate(self, node: int) -> None:
        assert self.transport is not None
        certificate = self.transport.get_extra_info("peercert")
        if not certificate:
            return
        names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
        names |= {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
        numbers = [int(found[1]) for one in names if (found := NODE_NAME(one))]
        if node == NEWCOMER and numbers:  # it can become that one only
            self.named = numbers[0]
        elif node not in numbers and node % STRIDE not in numbers:  # a machine's is good for all of its processes
            expected = "a node" if node == NEWCOMER else f"node-{node}"
            raise RemoteProtocolError(f"the certificate names {sorted(names)}, not {expected}")

    # --- out ---

    def write(self, chunks: list[bytes]) -> None:
        if self.transport is not None and not self.transport.is_closing():
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            data = data if self._is_plain else self._sealing.seal(data)
            self._owner.bytes_out += len(data)
            self.transport.write(data)

    def pause_writing(self) -> None:
        self._owner.choked(self, True)

    def resume_writing(self) -> None:
        self._owner.choked(self, False)

    def abort(self, reason: str) -> None:
        self.reason = reason
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._owner.closed(self, self.reason if error is None else str(error))


class PeerSockets:
    """All of a node. Should both sides dial at once, a pair has two connections for a while; each side sends on the
    older one, so that nothing is lost or reordered by closing one of them. To the broker there is one or none."""

    def __init__(
        self, network: str, system: str, node: int, keys: tuple[bytes, ...], peers: Iterable[PeerEntry],
        settings: LinkSection, driver: Driver, socket_of: Callable[[int], str] = lambda node: "",
    ) -> None:  # fmt: skip
        self.network, self.system, self.node, self.keys = network, system, node, keys
        self.settings = settings
        self.choke_bytes = settings.queue_bytes_max >> 3
        self.refused = 0  # connections dropped for breaking the protocol or not proving who they are
        self.bytes_in = self.bytes_out = 0
        self.driver, self.take = driver, driver.take
        self._loop = asyncio.get_running_loop()
        self._addresses = {peer.id: (peer.host, peer.port) for peer in peers if peer.id != node}
        self._open: dict[int, list[PeerSocket]] = {}
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._strangers: set[PeerSocket] = set()
        self._doors: dict[int, PeerSocket] = {}
        self._door_numbers = count()
        self._servers: list[asyncio.Server] = []
        self._socket_of = socket_of
        self._server_tls, self._client_tls = link_tls(settings)

    @property
    def contexts(self) -> list[ssl.SSLContext]:
        """Of TLS, where links use it; certificates can be loaded into them again."""
        return [one for one in (self._server_tls, self._client_tls) if one is not None]

    async def listen(self) -> int:
        """Open the peer port, and the socket for processes of this machine; returns the port's number."""
        settings = self.settings
        server = await self._loop.create_server(
            self._new_socket, settings.host, settings.port, ssl=self._server_tls, backlog=256
        )
        self._servers.append(server)
        if path := self._socket_of(self.node):
            Path(path).unlink(missing_ok=True)  # of a life before
            new_socket = partial(self._new_socket, is_plain=True)
            self._servers.append(await self._loop.create_unix_server(new_socket, path, backlog=256))
            Path(path).chmod(0o600)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def _new_socket(self, dialled: int | None = None, is_plain: bool = False) -> PeerSocket:
        one = PeerSocket(self, dialled is not None, -1 if dialled is None else dialled, is_plain)
        self._strangers.add(one)
        self._loop.call_later(DIAL_TIMEOUT_S, self._check_greeted, one)
        return one

    def _check_greeted(self, one: PeerSocket) -> None:
        if one in self._strangers:
            if one.transport is None:
                self._strangers.discard(one)  # the connection never came about
            one.abort("did not greet in time")

    def may_link(self, peer: int) -> bool:
        return self.driver.broker.may_link(peer)

    def objection(self, node: int) -> str:
        """Who is no member may knock; a member that is cut off may not."""
        is_cut_off = not self.may_link(node) and self.driver.broker.links.knows(node)
        return f"node {node} is not expected here" if is_cut_off else ""

    # --- orders ---

    def dial(self, peer: int) -> None:
        if peer not in self._dialling:
            self._dialling[peer] = self._loop.create_task(self._connect(peer))

    async def _connect(self, peer: int) -> None:
        host, port = self._addresses[peer]
        reason = "it did not greet as it should"
        try:
            if not self.may_link(peer):
                raise OSError("blocked")
            path = self._socket_of(peer)
            new_socket = partial(self._new_socket, peer, is_plain=bool(path))
            if path:  # the key is proven there as anywhere; whoever may open the socket may read the key
                _, one = await asyncio.wait_for(self._loop.create_unix_connection(new_socket, path), DIAL_TIMEOUT_S)
            else:
                make = self._loop.create_connection(new_socket, host, port, ssl=self._client_tls)
                _, one = await asyncio.wait_for(make, DIAL_TIMEOUT_S)
            await one.settled.wait()
        except (OSError, TimeoutError) as error:
            reason = f"{host}:{port}: {error}"
        finally:
            del self._dialling[peer]
        if not self._open.get(peer):
            self.driver.take(DialFailed(peer, reason))

    def hang_up(self, peer: int, reason: str, abrupt: bool) -> None:
        for one in list(self._open.get(peer, ())):
            if abrupt:
                one.abort(reason)
            elif one.transport is not None:
                one.reason = reason
                one.transport.close()

    def meet(self, peer: int, host: str, port: int) -> None:
        self._addresses[peer] = (host, port)

    def answer(self, door: int, data: bytes) -> None:
        one = self._doors.get(door)
        if one is not None and one.transport is not None:
            one.write([data])
            one.transport.close()

    # --- what sockets tell ---

    def opened(self, one: PeerSocket) -> None:
        self._strangers.discard(one)
        one.settled.set()
        if not self.may_link(one.peer):
            self._open_door(one)
            return
        found = self._open.setdefault(one.peer, [])
        found.append(one)
        if len(found) == 1:
            self.driver.peer_lines[one.peer] = one
            self.driver.take(PeerUp(one.peer))

    def _open_door(self, one: PeerSocket) -> None:
        """Somebody has the key and is no member here: the broker hears it, and says what is to be said."""
        one.door = next(self._door_numbers)
        self._doors[one.door] = one
        self._loop.call_later(DOOR_S, one.abort, "nobody answered at the door")
        self.driver.take(Knocked(one.door, one.peer, [], one.named))

    def closed(self, one: PeerSocket, reason: str) -> None:
        one.settled.set()
        if self._doors.pop(one.door, None) is not None:
            return
        if one in self._strangers:
            self._strangers.discard(one)
            self.refused += 1
            who = f"node {one.peer}" if one.peer >= 0 else "a stranger"
            self.driver.say(f"connection with {who} failed: {reason}")
            return
        found = self._open[one.peer]
        was_first = found[0] is one
        found.remove(one)
        if was_first:  # what was under way on it may be lost; another connection does not make up for that
            del self.driver.peer_lines[one.peer]
            self.driver.take(PeerGone(one.peer, reason))
            if found:
                self.driver.peer_lines[one.peer] = found[0]
                self.driver.take(PeerUp(one.peer))

    def choked(self, one: PeerSocket, is_choked: bool) -> None:
        found = self._open.get(one.peer)
        if found and found[0] is one:
            self.driver.take(PeerChoked(one.peer) if is_choked else PeerDrained(one.peer))

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._dialling.values():
            task.cancel()
        for one in [one for found in self._open.values() for one in found]:
            if one.transport is not None:
                one.transport.close()
        for one in [*self._strangers, *self._doors.values()]:
            one.abort("the node stops")
        await asyncio.sleep(0)


def link_tls(settings: LinkSection) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Mutual TLS for both directions, or nothing."""
    if not settings.certificate:
        return None, None
    try:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=settings.authority)
        client = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=settings.authority)
        for context in (server, client):
            context.load_cert_chain(settings.certificate, settings.certificate_key or None)
            context.check_hostname = False  # whose it is, is looked at when the node has said who it is
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("links.certificate", settings.certificate, f"a usable certificate: {error}") from None
    server.minimum_version = client.minimum_version = ssl.TLSVersion.TLSv1_2
    return server, client
