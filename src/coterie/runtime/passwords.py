"""Passwords as they are kept: our scrypt form, and the two forms of mosquitto's password files."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from hashlib import pbkdf2_hmac, scrypt, sha512

COST, BLOCK, PARALLEL = 1 << 14, 8, 1
ALLOWED = "what `coterie node --hash-password` or mosquitto_passwd makes"


def hash_password(password: str) -> str:
    """What the configuration holds instead of a password."""
    salt = secrets.token_bytes(16)
    digest = scrypt(password.encode(), salt=salt, n=COST, r=BLOCK, p=PARALLEL, dklen=32)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${_text(salt)}${_text(digest)}"


def check_password(password: bytes, stored: str) -> bool:
    """Takes a few tens of milliseconds, on purpose: call it off the loop."""
    kind, *fields = stored.lstrip("$").split("$")
    salt, expected = (base64.b64decode(one) for one in fields[-2:])
    if kind == "scrypt":
        cost, block, parallel = map(int, fields[:3])
        found = scrypt(password, salt=salt, n=cost, r=block, p=parallel, dklen=len(expected))
    elif kind == "7":
        found = pbkdf2_hmac("sha512", password, salt, int(fields[0]), len(expected))
    else:
        found = sha512(password + salt).digest()
    return hmac.compare_digest(found, expected)


def is_stored(text: str) -> bool:
    """Whether it is one of the forms; `check_password` takes no other."""
    kind, *fields = text.removeprefix("$").split("$")
    count = {"scrypt": 5, "7": 3, "6": 2}.get(kind)
    if count != len(fields) or text.startswith("$") != (kind != "scrypt"):
        return False
    try:
        sound = all(base64.b64decode(one, validate=True) for one in fields[-2:])
    except binascii.Error:
        return False
    return sound and all(one.isascii() and one.isdigit() and 0 < int(one) < 1 << 31 for one in fields[:-2])


def read_password_file(text: str) -> dict[str, str]:
    """`user:hash` lines; ValueError names the line that is none."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, stored = line.strip().rpartition(":")
        if not colon or not user or not is_stored(stored):
            raise ValueError(f"line {number} is not user:hash; expected {ALLOWED}")
        found[user] = stored
    return found


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
