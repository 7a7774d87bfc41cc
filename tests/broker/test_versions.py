"""Nodes of two versions in a row understand each other: what is added at the end, and what is new altogether."""

from __future__ import annotations

import msgspec
import pytest

from coterie.broker.frames import LINK_VERSION, SPOKEN, decode_control, encode_control
from coterie.broker.said import KnowsMembers, Unheard
from coterie.errors import RemoteProtocolError


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
