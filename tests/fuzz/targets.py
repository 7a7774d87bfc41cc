"""What strangers can send, one function each: it takes any bytes and raises only what it says it raises.

`SEEDS` are good inputs to start from. Inputs that ever broke something are kept in `corpus/TARGET/` and tried first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from coterie.broker.carried import decode_carried, encode_carried
from coterie.broker.facts import Bytes
from coterie.broker.frames import (
    CONTROL,
    HELLO,
    LINK_VERSION,
    MESSAGE,
    FrameReader,
    Handed,
    Hello,
    HoldFor,
    KeepLog,
    SentOff,
    WantedFilters,
    decode_control,
    decode_hello,
    encode_control,
    encode_hello,
    frame,
    greeting_in,
)
from coterie.broker.members import MemberEntry, Members, pack_members, unpack_member, unpack_members
from coterie.broker.rights import Rights, TopicRules
from coterie.broker.said import AskJoin, ListOfMembers
from coterie.broker.settings import AccessSection
from coterie.errors import RemoteProtocolError
from coterie.live.admin import AdminInterface
from coterie.live.clients import WebSocket
from coterie.live.guard import Guard
from coterie.live.sealing import Sealing
from coterie.model.plan import Slice
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.publish import Message
from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import OpenPolicy
from coterie.mqtt.stream import Decoder
from coterie.mqtt.topics import check_filter, filter_covers, filter_matches, split_shared
from tests.broker.driving import Driven, setup
from tests.fuzz import filetargets
from tests.mqtt.conversation import Network, Peer

OPTIONS = ServerOptions(packet_bytes_max=4096, queue_bytes_max=1 << 16, unread_bytes_max=4096)
SAID: list[p.Packet] = [
    p.Publish("a/b", b"x" * 20, 0),
    p.Publish("a/b", b"payload", 1, packet_id=3, properties=Properties(message_expiry_s=5, topic_alias=1)),
    p.Publish("a", b"payload", 2, retain=True, packet_id=4),
    p.PubRel(4),
    p.Subscribe(1, (p.Subscription("a/#", 1), p.Subscription("$share/g/+/b", 2))),
    p.Unsubscribe(2, ("a/#",)),
    p.PubAck(1),
    p.PubRec(1),
    p.PubComp(1),
    p.PingReq(),
    p.Disconnect(4, Properties(session_expiry_s=9)),
]
WILL = p.Will("gone", b"will", 1, True)
CONNECTS = [p.Connect("c", version, False, 30, "ann", b"secret", WILL) for version in (4, 5)]
RECORDS = [encode_packet(packet, connect.version) for connect in CONNECTS for packet in (connect, *SAID)]


def codec(data: bytes) -> None:
    """Bytes to packets; what is a packet comes back from its own encoding."""
    for version in (0, 4, 5):
        decoder = Decoder(version, 4096)
        decoder.feed(data)
        try:
            while (packet := decoder.next_packet()) is not None:
                again = Decoder(decoder.version if type(packet) is not p.Connect else 0)
                again.feed(encode_packet(packet, decoder.version))
                assert again.next_packet() == packet
        except MqttError:
            continue


def connection(data: bytes) -> None:
    """A connection that is open: however its bytes are cut, others get the same of it, and it ends for the same reason;
    the short cuts for common packets find what the codec finds."""
    for version in (p.MQTT_3, p.MQTT_5):
        whole, heard = _served(version, data, len(data) + 1)
        pieces, heard_in_pieces = _served(version, data, 7)
        assert heard == heard_in_pieces
        assert (whole.ended and whole.ended.reason) == (pieces.ended and pieces.ended.reason)
        decoder = Decoder(version, 4096)
        decoder.feed(data)
        said: list[p.Packet] = []
        try:
            while (packet := decoder.next_packet()) is not None:
                said.append(packet)
        except MqttError:
            assert whole.ended is not None
        given = [one.payload for one in said if isinstance(one, p.Publish)]
        assert all(one[1] in given for one in heard)


class _OnlyOther(OpenPolicy):
    """Who hears itself could acknowledge what has not been sent yet, which then depends on how its bytes are cut."""

    def subscribe(self, session: Session, subscription: p.Subscription) -> Reason:
        return Reason.SUCCESS if session.client_id == "other" else Reason.NOT_AUTHORIZED


def _served(version: int, data: bytes, size: int) -> tuple[Peer, list[tuple[str, bytes, int]]]:
    """A client that says this in pieces of a size, and what another one gets of it."""
    network = Network(OPTIONS, _OnlyOther())
    other = network.subscriber("other", "#", qos=1)
    line = network.peer("c", version=version)
    line.send(p.Publish("a/b", b"known from now on", 0))
    other.take()
    for start in range(0, len(data), size):
        line.send_raw(data[start : start + size])
    return line, [(one.topic, one.payload, one.qos) for one in other.take(p.Publish)]


def broker(data: bytes) -> None:
    """A connection from its first byte, and one that has been accepted; somebody else goes on being served."""
    rights = AccessSection(anonymous_publish=("a/#",), anonymous_subscribe=("a/#",))
    node = Driven(setup(options=OPTIONS, access=rights))
    other = node.client("other")
    node.say(other, SAID[4])
    for first in (b"", encode_packet(p.Connect("c", 4), 4), encode_packet(p.Connect("d", 5), 5)):
        line = node.open()
        node.take(Bytes(line, first + data))
        node.cut(line)
    node.wait(2.0)
    node.hear(other)
    node.say(other, p.PingReq())
    assert p.PingResp() in node.hear(other)
    assert all(check_filter(one) for session in node.broker.sessions.of.values() for one in session.subscriptions)


def frames(data: bytes) -> None:
    """What comes on a link once it is open, and the greeting."""
    reader = FrameReader(4096)
    try:
        for kind, body in reader.feed(data):
            if kind == CONTROL:
                said = decode_control(body)
                assert decode_control(encode_control(said)) == said
                if isinstance(said, AskJoin):
                    unpack_member(said.member).impossible()
                elif isinstance(said, ListOfMembers):
                    unpack_members(said.members)
            elif kind == MESSAGE:
                decode_carried(body)
            elif kind == HELLO:
                decode_hello(body)
    except RemoteProtocolError:
        pass
    with contextlib.suppress(RemoteProtocolError):
        greeting_in(data, 1024)


def sealing(data: bytes) -> None:
    """Records: nothing opens that was not sealed here."""
    here, there = Sealing(True), Sealing(False)
    here.agree(b"a", b"b", there.public, (b"k",))
    there.agree(b"b", b"a", here.public, (b"k", b"l"))
    with contextlib.suppress(RemoteProtocolError):
        assert there.open(data) == b""


class _Transport:
    """As much of a transport as a connection needs."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> object:
        return "has no file" if name == "sslcontext" else None

    def set_write_buffer_limits(self, high: int) -> None:
        return


_interface = AdminInterface(Guard("secret"))
_interface.add("GET", "/health", lambda query, body: {}, lambda query, body: {})
_interface.add("POST", "/plan", lambda query, body: msgspec.to_builtins(msgspec.json.decode(body, type=Slice)))


def http(data: bytes) -> None:
    async def main() -> None:
        connection = _interface.connection()
        transport: Any = _Transport()
        connection.connection_made(transport)
        connection.data_received(data)
        connection.connection_lost(None)

    _loop.run_until_complete(main())


_loop = asyncio.new_event_loop()


def websocket(data: bytes) -> None:
    """A connection to the WebSocket port from its first byte; its messages go to a driver that takes all."""

    async def main() -> None:
        socket = WebSocket(_Taker(), 4096)  # type: ignore[arg-type]
        transport: Any = _Transport()
        socket.connection_made(transport)
        for start in range(0, len(data), 200):
            socket.data_received(data[start : start + 200])
        socket.connection_lost(None)

    _loop.run_until_complete(main())


class _Taker:
    """As much of a driver as a client's socket needs."""

    def opened(self, *_: object, **_facts: object) -> int:
        return 1

    def closed(self, line: int) -> None:
        return

    def take(self, fact: object) -> None:
        return


def framed(data: bytes) -> bytes:
    """A binary message of a WebSocket, with a mask of zeros."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x82" + size + bytes(4) + data


def filters(data: bytes) -> None:
    """Two texts: filters and names. What is covered is matched, and no client's name opens more than its level."""
    one, _, other = data.decode("utf-8", "ignore").partition("\n")
    rights = Rights(TopicRules(("dev/%c/#",), ("dev/%c/#",)), "ann", one)
    assert not rights.may_subscribe("dev/#") or one == ""
    try:
        wide, narrow = split_shared(check_filter(one))[1], split_shared(check_filter(other))[1]
    except MqttError:
        return
    assert filter_covers(wide, wide)
    name = narrow.replace("+", "x").replace("#", "y/z")
    if filter_covers(wide, narrow) and filter_matches(narrow, name):
        assert filter_matches(wide, name)


_head = b"Host: 127.0.0.1\r\nAuthorization: Bearer secret\r\n"
_MEMBER = MemberEntry(3, "three", "h", 1003, "h:1883", "z", "token")
FRAMES = [
    frame(CONTROL, encode_control(WantedFilters(3, 17, ("a/#", "+/b"), ("g/a",)))),
    frame(CONTROL, encode_control(SentOff("c", 2))),
    frame(CONTROL, encode_control(AskJoin(pack_members(_MEMBER)))),
    frame(CONTROL, encode_control(ListOfMembers(pack_members(Members(2, (_MEMBER,)))))),
    frame(CONTROL, encode_control(Handed("c", ((1, b"x"),), True))),
    frame(CONTROL, encode_control(HoldFor(1, 5, encode_control(KeepLog(1, 2, ((2, b"t", b"x"),)))))),
    frame(MESSAGE, encode_carried(99, Message("a/b", b"x", 2, True, publisher="ann"), 1)),
    frame(HELLO, encode_hello(Hello(LINK_VERSION, "coterie", "flooding", 1, bytes(range(32))))),
]
REQUESTS = [
    b"GET /health HTTP/1.1\r\n" + _head + b"\r\n",
    b"POST /plan?x=1 HTTP/1.1\r\n" + _head + b"Content-Length: 2\r\n\r\n{}",
    b"POST /plan HTTP/1.1\r\n" + _head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"GET /health HTTP/1.0\r\n" + _head + b"Origin: http://evil\r\nExpect: 100-continue\r\n\r\n",
]


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
OPENINGS = [HANDSHAKE + framed(RECORDS[0]), HANDSHAKE + b"\x89\x80" + bytes(4) + b"\x88\x82" + bytes(4) + b"\x03\xe8"]


class Target(NamedTuple):
    """`share`: its part of a run's inputs, less for those that take longer."""

    check: Callable[[bytes], None]
    seeds: list[bytes]
    share: int


TARGETS = {
    "codec": Target(codec, RECORDS, 3000),
    "connection": Target(connection, RECORDS, 30),
    "broker": Target(broker, RECORDS, 20),
    "frames": Target(frames, FRAMES, 4200),
    "sealing": Target(sealing, [b"\0\0\0\x20" + bytes(32), b"\0\0\0\x11" + bytes(17)], 30),
    "http": Target(http, REQUESTS, 100),
    "websocket": Target(websocket, [HANDSHAKE, *OPENINGS], 30),
    "filters": Target(filters, [b"a/+/#\na/b/c", b"$share/g/a/#\n$SYS/x", b"+\n#", b"dev/x\ndev/+"], 1500),
    "files": Target(filetargets.files, filetargets.FILES, 1000),
    "journal": Target(filetargets.journal, filetargets.LOGS, 20),
    "batches": Target(filetargets.batches, filetargets.BATCHES, 80),
    "plans": Target(filetargets.plans, filetargets.PLANS, 5),
}
