"""A conversation on a link that somebody listens to, changes, repeats or sends back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import RemoteProtocolError
from coterie.live.sealing import RECORD_BYTES_MAX, Sealing

DIALLER, ACCEPTOR = b"hello of the dialler", b"hello of the acceptor"


def pair(keys: tuple[bytes, ...] = (b"k",), other: tuple[bytes, ...] | None = None) -> tuple[Sealing, Sealing]:
    dialler, acceptor = Sealing(True), Sealing(False)
    dialler.agree(DIALLER, ACCEPTOR, acceptor.public, keys)
    acceptor.agree(ACCEPTOR, DIALLER, dialler.public, keys if other is None else other)
    return dialler, acceptor


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=8), st.integers(1, 50))
def test_what_is_sealed_opens_in_any_pieces(said: list[bytes], step: int) -> None:
    dialler, acceptor = pair()
    sealed = b"".join(map(dialler.seal, said))
    found = b"".join(acceptor.open(sealed[at : at + step]) for at in range(0, len(sealed), step))
    assert found == b"".join(said)
    for one in said:
        if len(one) > 8:
            assert one not in sealed
    assert dialler.open(acceptor.seal(b"answer")) == b"answer"


def test_large_pieces_are_cut() -> None:
    dialler, acceptor = pair()
    large = bytes(2 * RECORD_BYTES_MAX + 7)
    assert acceptor.open(dialler.seal(large)) == large


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_seen(at: int, bit: int) -> None:
    dialler, acceptor = pair()
    acceptor.open(dialler.seal(b"first"))
    sealed = bytearray(dialler.seal(b"second") + dialler.seal(b"third"))
    sealed[at % len(sealed)] ^= 1 << bit
    try:
        found = acceptor.open(bytes(sealed))
    except RemoteProtocolError:
        return
    assert found in (b"", b"second")  # it waits for the rest of a record that will not open


def test_repeated_reordered_and_left_out_records_are_seen() -> None:
    for disorder in ("repeat", "swap", "leave out"):
        dialler, acceptor = pair()
        one, two = dialler.seal(b"one"), dialler.seal(b"two")
        wire = {"repeat": one + one, "swap": two + one, "leave out": two}[disorder]
        with pytest.raises(RemoteProtocolError):
            acceptor.open(wire)


def test_what_was_said_is_no_use_in_another_conversation_or_direction() -> None:
    dialler, acceptor = pair()
    sealed = dialler.seal(b"captured")
    _, later = pair()
    with pytest.raises(RemoteProtocolError):
        later.open(sealed)
    with pytest.raises(RemoteProtocolError):
        dialler.open(sealed)  # sent back
    acceptor.open(sealed)


def test_another_key_or_another_greeting_opens_nothing() -> None:
    dialler, acceptor = pair((b"k",), (b"other",))
    with pytest.raises(RemoteProtocolError, match="key the same"):
        acceptor.open(dialler.seal(b"x"))
    dialler, acceptor = Sealing(True), Sealing(False)
    dialler.agree(DIALLER, ACCEPTOR, acceptor.public, (b"k",))
    acceptor.agree(ACCEPTOR, DIALLER + b"!", dialler.public, (b"k",))  # changed on the way
    with pytest.raises(RemoteProtocolError):
        acceptor.open(dialler.seal(b"x"))


def test_keys_change_without_a_moment_when_nothing_fits() -> None:
    """old -> old and new accepted -> new used, old accepted -> new."""
    steps = [(b"old",), (b"old", b"new"), (b"new", b"old"), (b"new",)]
    for before, after in pairwise(steps):
        for keys, other in ((before, after), (after, before), (before, before)):
            dialler, acceptor = pair(keys, other)
            assert acceptor.open(dialler.seal(b"x")) == b"x"
            assert dialler.open(acceptor.seal(b"y")) == b"y"
    dialler, acceptor = pair((b"old", b"new"), (b"new", b"old"))
    acceptor.open(dialler.seal(b"x"))
    dialler.open(acceptor.seal(b"y"))


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(32), bytes([1]) + bytes(31)])
def test_keys_that_agree_on_nothing_are_refused(public: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="greeting"):
        Sealing(True).agree(DIALLER, ACCEPTOR, public, (b"k",))
    own = Sealing(True)
    with pytest.raises(RemoteProtocolError, match="greeting"):
        own.agree(DIALLER, ACCEPTOR, own.public, (b"k",))
