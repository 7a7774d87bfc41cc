"""The admin token: given in the configuration, or made at the first start and kept for the node's user alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from coterie.errors import InputError

TOKEN_FILE = "admin.token"


def read_token(path: Path) -> str:
    """The token in a file; empty if there is no such file."""
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"is no token that can be read: {error}") from None


def kept_token(path: Path) -> tuple[str, bool]:
    """(the token in a file, whether it was made just now)."""
    token = read_token(path)
    if token:
        return token, False
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
    except OSError as error:
        raise InputError(str(path), f"the admin token cannot be kept there: {error.strerror}") from None
    return token, True
