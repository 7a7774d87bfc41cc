"""Messages between nodes and their encoding: one version byte, then MessagePack checked against declared types.

A system declares its messages as subclasses of `SystemMessage`; `Codec` is built from that list. Decoding accepts
exactly what the types say: any other bytes give RemoteProtocolError and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import msgspec

from coterie.errors import RemoteProtocolError
from coterie.trace import Traffic

WIRE_VERSION = 1
FRAME_BYTES_MAX = 4 * 1024 * 1024


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
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(f"malformed message: {error}", peer) from None
        assert isinstance(message, SystemMessage)
        return message
