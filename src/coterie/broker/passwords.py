"""Passwords as they are kept: our scrypt form, and the two forms of mosquitto's password files."""

from __future__ import annotations

import base64
import binascii

ALLOWED = "what `coterie node --hash-password` or mosquitto_passwd makes"


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
