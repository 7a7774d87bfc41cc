"""Nodes of two versions in a row understand each other: what is added at the end, and what is new altogether."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from coterie.broker.carried import decode_carried, encode_carried
from coterie.broker.copies import unpack_rows
from coterie.broker.frames import (
    LINK_VERSION,
    SPOKEN,
    Hello,
    decode_control,
    decode_hello,
    encode_control,
    encode_hello,
)
from coterie.broker.members import MemberEntry, Members, pack_members, unpack_member, unpack_members
from coterie.broker.said import KnowsMembers, Unheard
from coterie.errors import RemoteProtocolError
from coterie.mqtt.publish import Message


def said(version: int, *parts: object) -> bytes:
    return bytes((version,)) + msgspec.msgpack.encode(list(parts))


def test_one_version_on_either_side_is_spoken():
    assert SPOKEN == (LINK_VERSION - 1, LINK_VERSION, LINK_VERSION + 1)
    for version in SPOKEN:
        assert decode_control(said(version, "KnowsMembers", 3)) == KnowsMembers(3)
    for version in (LINK_VERSION - 2, LINK_VERSION + 2):
        with pytest.raises(RemoteProtocolError, match="another version"):
            decode_control(said(version, "KnowsMembers", 3))


def test_what_a_newer_one_adds_is_not_heard():
    newer = LINK_VERSION + 1
    assert decode_control(said(newer, "KnowsMembers", 3, "and more")) == KnowsMembers(3)
    assert decode_control(said(newer, "SomethingNew", 1, 2)) == Unheard()


def test_nonsense_stays_nonsense():
    for body in (said(LINK_VERSION, "SomethingNew", 1), said(LINK_VERSION + 1, "KnowsMembers", "x"), b"\x08\xc1", b""):
        with pytest.raises(RemoteProtocolError):
            decode_control(body)
    assert decode_control(encode_control(KnowsMembers(1))) == KnowsMembers(1)


DEEP = b"\x91" * 5000 + b"\xc0"


def with_a_deep_field(data: bytes) -> bytes:
    """One more field at the end, as a later version may add, nested deeper than anybody can read."""
    assert 0x90 <= data[0] < 0x9F
    return bytes((data[0] + 1,)) + data[1:] + DEEP


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (decode_hello, encode_hello(Hello(LINK_VERSION, "home", "scribe", 1, b"k"))),
        (unpack_members, pack_members(Members(3, ()))),
        (unpack_member, pack_members(MemberEntry(3, "c", "127.0.0.1", 3883))),
        (decode_carried, encode_carried(1, Message("a/b", b"x", 1, False), 1)),
        (unpack_rows, b"\x90"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_nested_too_deep_is_malformed(read: Callable[[bytes], object], data: bytes) -> None:
    read(data)
    with pytest.raises(RemoteProtocolError, match="malformed"):
        read(with_a_deep_field(data))
