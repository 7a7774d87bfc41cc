"""A byte stream to packets: any split of it gives the same packets, and nothing is buffered beyond the limit."""

from __future__ import annotations

from coterie.mqtt.decode import decode_packet
from coterie.mqtt.packets import MQTT_31, Connect, Packet
from coterie.mqtt.reasons import MqttError, Reason

PACKET_BYTES_MAX = 268_435_460  # what the format itself allows


def _is_valid_first(first: int) -> bool:
    packet, flags = first >> 4, first & 15
    if packet == 3:
        return flags & 6 != 6 and (flags & 14 != 8)
    return packet != 0 and flags == (2 if packet in (6, 8, 10) else 0)


_AGAIN_31 = (0x6A, 0x8A, 0xAA)  # PUBREL, SUBSCRIBE, UNSUBSCRIBE: 3.1 marks what is sent again
_VALID_FIRST = tuple(_is_valid_first(first) for first in range(256))


class Decoder:
    """Feed bytes, then call `next_packet` until it returns None (h11's rhythm).

    `version` 0 means a server that has seen no CONNECT yet: nothing else is accepted first, and the CONNECT sets the
    version. The first byte and the size of a packet are judged before its body is waited for. `data` and `pos` are
    public for the inline scan of `publish.scan_publishes`. After an MqttError the stream is lost; close it.
    """

    __slots__ = ("_need", "_partial", "data", "packet_bytes_max", "pos", "version")

    def __init__(self, version: int = 0, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        self.version = version
        self.packet_bytes_max = packet_bytes_max
        self.data = b""
        self.pos = 0
        self._partial = bytearray()  # the start of a packet whose end has not arrived
        self._need = 0

    @property
    def buffered_bytes(self) -> int:
        return len(self.data) - self.pos + len(self._partial)

    def feed(self, data: bytes) -> None:
        if self._partial:
            # Appending to a bytearray is amortised constant, so a packet in tiny pieces is not copied over and over.
            self._partial += data
            if len(self._partial) < self._need:
                return
            self.data = bytes(self._partial)
            self._partial = bytearray()
        elif self.pos < len(self.data):
            self.data = self.data[self.pos :] + data
        else:
            self.data = data
        self.pos = 0

    def next_packet(self) -> Packet | None:
        """The next whole packet, or None when more bytes are needed; raises MqttError."""
        if self._partial or self.pos >= len(self.data):
            return None
        data, pos = self.data, self.pos
        first = data[pos]
        if self.version == MQTT_31 and first in _AGAIN_31:
            first &= 0xF7
        if not _VALID_FIRST[first]:
            raise MqttError(f"a packet cannot begin with 0x{first:02x}")
        if self.version == 0 and first != 0x10:
            raise MqttError("the first packet is not CONNECT", Reason.PROTOCOL_ERROR)
        length, body = self._remaining_length(data, pos + 1)
        if body == 0:
            self._wait(len(data) - pos + 1)
            return None
        end = body + length
        if end - pos > self.packet_bytes_max:
            raise MqttError(
                f"a packet of {end - pos} bytes is larger than {self.packet_bytes_max}", Reason.PACKET_TOO_LARGE
            )
        if end > len(data):
            self._wait(end - pos)
            return None
        self.pos = end
        packet = decode_packet(first, data[body:end], self.version)
        if type(packet) is Connect and self.version == 0:
            self.version = packet.version
        return packet

    @staticmethod
    def _remaining_length(data: bytes, pos: int) -> tuple[int, int]:
        """(remaining length, where the body starts); the start is 0 when bytes are missing."""
        length = shift = 0
        for index in range(pos, min(pos + 4, len(data))):
            byte = data[index]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise MqttError("the remaining length is longer than it needs to be")
                return length, index + 1
            shift += 7
        if shift == 28:
            raise MqttError("the remaining length has more than four bytes")
        return 0, 0

    def _wait(self, need: int) -> None:
        self._partial = bytearray(self.data[self.pos :])
        self._need = need
        self.data = b""
        self.pos = 0
