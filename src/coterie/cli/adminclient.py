"""Asking the admin interface of a node on behalf of a command."""

from __future__ import annotations

import http.client
from typing import Any

import msgspec

from coterie.errors import RunError


def ask(
    host: str, port: int, path: str, token: str = "", method: str = "GET", body: bytes = b"", timeout_s: float = 5.0
) -> Any:
    """The document at this path; None if nobody answers there."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except OSError:
        return None
    except http.client.HTTPException:
        raise RunError(f"{host}:{port} is not the admin interface of a node: it does not speak HTTP") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise RunError(f"node at {host}:{port} answered {answer.status} to {path}: {content.decode(errors='replace')}")
    if (answer.getheader("Content-Type") or "").startswith("text/"):
        return content.decode()
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        raise RunError(f"{host}:{port} is not the admin interface of a node: {path} is not JSON there") from None
