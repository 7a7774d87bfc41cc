"""The frame: one version byte, typed MessagePack, and nothing else gets through."""

from __future__ import annotations

from typing import ClassVar

import pytest

from coterie.errors import RemoteProtocolError
from coterie.protocol.events import Event, EventMessage
from coterie.protocol.wire import FRAME_BYTES_MAX, Codec, SystemMessage
from coterie.trace import Traffic


class Greeting(SystemMessage, frozen=True):
    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    position: int


class Carried(EventMessage, frozen=True):
    traffic: ClassVar[Traffic] = Traffic.EVENT


CODEC = Codec([Greeting, Carried])


def test_round_trip_of_numbers_and_names_as_topics() -> None:
    for message in (Greeting(2**64 - 1), Carried(Event(7, "a/b", b"\x00"), 3), Carried(Event(7, 12), 0)):
        assert CODEC.decode(CODEC.encode(message)) == message


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "empty"),
        (b"\x02" + CODEC.encode(Greeting(1))[1:], "wire version 2"),
        (CODEC.encode(Greeting(1))[:-1], "malformed"),
        (CODEC.encode(Greeting(1)) + b"\x00", "malformed"),
        (b"\x01\x92\xa8Greeting\xa1x", "malformed"),  # a text where a number belongs
        (b"\x01\x92\xa7Unknown\x01", "malformed"),
        (b"\x01" + b"\x91" * 5000, "malformed"),  # deep nesting
        (b"\x01" + bytes(FRAME_BYTES_MAX), "at most"),
    ],
)
def test_bad_frames_name_the_peer(frame: bytes, says: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"node 3: .*{says}"):
        CODEC.decode(frame, peer="node 3")
