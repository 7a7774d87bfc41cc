"""Messages between nodes and their encoding: one version byte, then MessagePack checked against declared types.

A system declares its messages as subclasses of `SystemMessage`; `Codec` is built from that list. Decoding accepts
exactly what the types say: any other bytes give RemoteProtocolError and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any, ClassVar, TypeVar

import msgspec

from coterie.errors import RemoteProtocolError
from coterie.trace import Traffic

WIRE_VERSION = 1
FRAME_BYTES_MAX = 4 * 1024 * 1024
Sort = TypeVar("Sort")
MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding gives for bytes that are not of the declared type; the last for what is nested too deep, even where the
type has no such field and it is passed over."""


def read_as(decode: Callable[[bytes], Sort], data: bytes, what: str) -> Sort:
    """What a peer sent, decoded; whatever is wrong with it, the peer is told, and nobody else notices."""
    try:
        return decode(data)
    except MALFORMED as error:
        raise RemoteProtocolError(f"malformed {what}: {error}") from None


class SystemMessage(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of everything nodes say to each other. `traffic` tells the ledger what it is for."""

    traffic: ClassVar[Traffic]


class Codec:
    """Encodes and decodes one system's messages."""

    def __init__(self, messages: Iterable[type[SystemMessage]]) -> None:
        union: Any = reduce(or_, messages)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(union).decode
        self._version = bytes([WIRE_VERSION])

    def encode(self, message: SystemMessage) -> bytes:
        return self._version + self._encode(message)

    def decode(self, frame: bytes, peer: str | None = None) -> SystemMessage:
        if not frame:
            raise RemoteProtocolError("empty frame", peer)
        if frame[0] != WIRE_VERSION:
            raise RemoteProtocolError(f"frame of wire version {frame[0]}, this node speaks {WIRE_VERSION}", peer)
        if len(frame) > FRAME_BYTES_MAX:
            raise RemoteProtocolError(f"frame of {len(frame)} bytes, at most {FRAME_BYTES_MAX} are taken", peer)
        try:
            message = self._decode(memoryview(frame)[1:])
        except MALFORMED as error:
            raise RemoteProtocolError(f"malformed message: {error}", peer) from None
        assert isinstance(message, SystemMessage)
        return message
