"""The primitive fields of an MQTT packet: integers, variable byte integers, strings and binary data."""

from __future__ import annotations

from coterie.errors import LocalProtocolError
from coterie.mqtt.reasons import MqttError, Reason

VARINT_MAX = 268_435_455
TEXT_BYTES_MAX = 65_535


class Reader:
    """A cursor over one packet body; every read checks the end and raises MqttError past it."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    def take(self, size: int) -> bytes:
        start = self.pos
        stop = start + size
        if stop > self.end:
            raise MqttError(f"the packet ends {stop - self.end} bytes too early")
        self.pos = stop
        return self.data[start:stop]

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise MqttError("a variable byte integer is longer than it needs to be")
                return value
            shift += 7
            if shift > 21:
                raise MqttError("a variable byte integer has more than four bytes")

    def binary(self) -> bytes:
        return self.take(self.u16())

    def text(self) -> str:
        return decode_text(self.binary())

    def rest(self) -> bytes:
        return self.take(self.end - self.pos)

    def packet_id(self) -> int:
        value = self.u16()
        if value == 0:
            raise MqttError("packet identifier 0 is not allowed", Reason.PROTOCOL_ERROR)
        return value

    def finish(self) -> None:
        if self.pos != self.end:
            raise MqttError(f"{self.end - self.pos} bytes are left over at the end of the packet")


def decode_text(raw: bytes) -> str:
    """UTF-8 as MQTT wants it: no surrogates (the strict codec refuses them) and no U+0000."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MqttError(f"a string is not valid UTF-8: {error.reason}") from None
    if "\0" in text:
        raise MqttError("a string holds the character U+0000")
    return text


def encode_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value > VARINT_MAX:
        raise LocalProtocolError(f"{value} does not fit a variable byte integer (at most {VARINT_MAX})")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_binary(raw: bytes) -> bytes:
    if len(raw) > TEXT_BYTES_MAX:
        raise LocalProtocolError(f"a field of {len(raw)} bytes is too long for MQTT (at most {TEXT_BYTES_MAX})")
    return len(raw).to_bytes(2, "big") + raw


def encode_text(text: str) -> bytes:
    if "\0" in text:
        raise LocalProtocolError("a string for MQTT must not hold U+0000")
    try:
        return encode_binary(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a string cannot be encoded as UTF-8: {error.reason}") from None


def encode_packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id < 65_536:
        raise LocalProtocolError(f"packet identifier {packet_id} is not in 1..65535")
    return packet_id.to_bytes(2, "big")
