"""Asking the admin interface of a node on behalf of a command."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from coterie.errors import RunError
from coterie.runtime.tokens import TOKEN_FILE, read_token

DATA = Path("coterie-data")
Token = Annotated[str, typer.Option(envvar="COTERIE_TOKEN", help="The admin token; else the one in --data.")]
DataFolder = Annotated[Path, typer.Option(help="The folder of `coterie up`; the admin token is there.")]


def token_of(token: str, data: Path) -> str:
    """The token that was given, or the one that `coterie up` keeps in its folder."""
    return token or read_token(data / TOKEN_FILE)


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
    if answer.status == 401:
        raise RunError(
            f"{host}:{port} wants its admin token: give --token (or COTERIE_TOKEN), or --data of `coterie up`"
        )
    if answer.status != 200:
        raise RunError(f"node at {host}:{port} answered {answer.status} to {path}: {content.decode(errors='replace')}")
    if (answer.getheader("Content-Type") or "").startswith("text/"):
        return content.decode()
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        raise RunError(f"{host}:{port} is not the admin interface of a node: {path} is not JSON there") from None
