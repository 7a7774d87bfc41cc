"""What makes a link private: keys agreed on anew for each connection, then sealed records. No I/O.

Like Noise NNpsk0, except that both sides greet at once. Each side's greeting carries a fresh X25519 key. From what the
two agree on, the network's shared key and both greetings, HKDF makes one key for each direction. Everything after the
greetings is in records: a length (4 bytes) and that many bytes of ChaCha20-Poly1305, whose nonce is the record's number
and which vouches for the length too. So a record that was changed, left out, repeated, sent back or put elsewhere does
not open, and old conversations stay closed if the shared key becomes known. A receiver tries each key it accepts on the
first record and stays with the one that opens it: keys can be changed while links are up.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from coterie.errors import RemoteProtocolError

RECORD_BYTES_MAX = 1 << 18
TAG_BYTES = 16
PUBLIC_BYTES = 32
_LENGTH = struct.Struct(">I")
_NONCE = struct.Struct(">4xQ").pack
WRONG_KEY = "the proof is wrong: is the network's key the same on both nodes?"
BROKEN = "a record does not open: it was changed, repeated, reordered or left out on the way"


class Sealing:
    """One end of one connection. `agree` once both greetings are there; then `seal` and `open`."""

    def __init__(self, is_dialler: bool) -> None:
        self._private = X25519PrivateKey.generate()
        self._is_dialler = is_dialler
        self._sender: ChaCha20Poly1305 | None = None
        self._receivers: list[ChaCha20Poly1305] = []  # one, once the first record has been opened
        self._sent = self._opened = 0
        self._buffer = bytearray()

    @property
    def public(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def agree(self, mine: bytes, theirs: bytes, their_public: bytes, keys: Sequence[bytes]) -> None:
        """`mine` and `theirs` are the greetings as they were sent; the first of `keys` is used, all are accepted."""
        if len(their_public) != PUBLIC_BYTES or their_public == self.public:
            raise RemoteProtocolError("the greeting holds no key of its own")
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(their_public))
        except ValueError:
            raise RemoteProtocolError("the greeting holds no usable key") from None
        greetings = (mine, theirs) if self._is_dialler else (theirs, mine)
        salt = sha256(b"".join(_LENGTH.pack(len(one)) + one for one in greetings)).digest()
        out, back = (b"dial", b"take") if self._is_dialler else (b"take", b"dial")
        known = list(keys) or [b""]  # none where certificates prove who is who
        self._sender = _cipher(known[0], shared, salt, out)
        self._receivers = [_cipher(key, shared, salt, back) for key in known]

    def seal(self, plain: bytes) -> bytes:
        """Records that hold these bytes."""
        assert self._sender is not None
        records = []
        for start in range(0, len(plain), RECORD_BYTES_MAX):
            piece = plain[start : start + RECORD_BYTES_MAX]
            head = _LENGTH.pack(len(piece) + TAG_BYTES)
            records += [head, self._sender.encrypt(_NONCE(self._sent), piece, head)]
            self._sent += 1
        return b"".join(records)

    def open(self, data: bytes) -> bytes:
        """The bytes of all records that are whole now; RemoteProtocolError ends the connection."""
        self._buffer += data
        found = []
        pos, size = 0, len(self._buffer)
        while size - pos >= 4:
            (length,) = _LENGTH.unpack_from(self._buffer, pos)
            if not TAG_BYTES < length <= RECORD_BYTES_MAX + TAG_BYTES:
                raise RemoteProtocolError(BROKEN if self._opened else WRONG_KEY)
            if size - pos - 4 < length:
                break
            head, body = bytes(self._buffer[pos : pos + 4]), bytes(self._buffer[pos + 4 : pos + 4 + length])
            if not self._opened:
                self._choose_key(body, head)
            try:
                found.append(self._receivers[0].decrypt(_NONCE(self._opened), body, head))
            except InvalidTag:
                raise RemoteProtocolError(BROKEN) from None
            self._opened += 1
            pos += 4 + length
        del self._buffer[:pos]
        return b"".join(found)

    def open_one(self, data: bytes) -> bytes:
        """The first record, once it is whole, and what follows it as it came."""
        self._buffer += data
        if len(self._buffer) < 4:
            return b""
        end = 4 + _LENGTH.unpack_from(self._buffer)[0]
        if len(self._buffer) < end and end <= 4 + RECORD_BYTES_MAX + TAG_BYTES:
            return b""
        record, rest = bytes(self._buffer[:end]), bytes(self._buffer[end:])
        self._buffer.clear()
        return self.open(record) + rest

    def _choose_key(self, body: bytes, head: bytes) -> None:
        """Stay with the key that opens the first record."""
        for cipher in self._receivers:
            try:
                cipher.decrypt(_NONCE(0), body, head)
            except InvalidTag:
                continue
            self._receivers = [cipher]
            return
        raise RemoteProtocolError(WRONG_KEY)


def _cipher(key: bytes, shared: bytes, salt: bytes, direction: bytes) -> ChaCha20Poly1305:
    kdf = HKDF(SHA256(), 32, salt=salt, info=b"coterie link|" + direction)
    return ChaCha20Poly1305(kdf.derive(sha256(key).digest() + shared))
