"""Passwords made and checked, in the forms of `broker.passwords`: it takes its time, on purpose."""

from __future__ import annotations

import base64
import hmac
import secrets
from hashlib import pbkdf2_hmac, scrypt, sha512

COST, BLOCK, PARALLEL = 1 << 14, 8, 1


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


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
