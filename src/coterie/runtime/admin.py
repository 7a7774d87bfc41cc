"""The admin interface: small HTTP/1.1 with JSON documents and Prometheus text, for those who have the token."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec

from coterie.errors import CoterieError

REQUEST_BYTES_MAX = 8 << 20
Answer = tuple[int, str, bytes]
Handler = Callable[[dict[str, str], bytes], Any]

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}


class AdminInterface:
    """Routes by method and path; a handler gets the query and the body and returns a document or text."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._routes: dict[tuple[str, str], Handler] = {}
        self._open: set[str] = set()

    def add(self, method: str, path: str, handler: Handler, needs_token: bool = True) -> None:
        self._routes[method, path] = handler
        if not needs_token:
            self._open.add(path)

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        handler = self._routes.get((method, parts.path))
        if handler is None:
            known = any(path == parts.path for _, path in self._routes)
            return self._error(405 if known else 404, "there is no such document; see docs/NETWORK.md")
        if parts.path not in self._open and not self._is_authorized(headers):
            return self._error(401, "send the header 'Authorization: Bearer TOKEN' with admin.token")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            found = handler(query, body)
        except (CoterieError, msgspec.MsgspecError, ValueError, KeyError) as error:
            return self._error(400, str(error))
        if isinstance(found, str):
            return 200, "text/plain; version=0.0.4; charset=utf-8", found.encode()
        return 200, "application/json", msgspec.json.encode(found)

    def _is_authorized(self, headers: dict[str, str]) -> bool:
        if not self._token:
            return True
        given = headers.get("authorization", "").removeprefix("Bearer ").encode()
        return hmac.compare_digest(given, self._token)

    def _error(self, status: int, reason: str) -> Answer:
        return status, "application/json", msgspec.json.encode({"error": reason})

    def connection(self) -> AdminConnection:
        return AdminConnection(self)


class AdminConnection(asyncio.Protocol):
    """One HTTP connection, kept open between requests."""

    def __init__(self, interface: AdminInterface) -> None:
        self._interface = interface
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        while True:
            head, blank, rest = self._buffer.partition(b"\r\n\r\n")
            if not blank or len(self._buffer) > REQUEST_BYTES_MAX:
                if len(self._buffer) > REQUEST_BYTES_MAX or (not blank and len(self._buffer) > 16_384):
                    self._transport.abort()
                return
            lines = head.decode("latin-1").split("\r\n")
            words = lines[0].split(" ")
            pairs = (line.partition(":") for line in lines[1:])
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            length = headers.get("content-length", "0")
            if len(words) != 3 or not length.isdigit() or "transfer-encoding" in headers:
                self._write((400, "text/plain", b"bad request\n"), False)
                return
            if len(rest) < int(length):
                return
            body, self._buffer = rest[: int(length)], rest[int(length) :]
            keep = headers.get("connection", "").lower() != "close" and words[2] == "HTTP/1.1"
            self._write(self._interface.answer(words[0], words[1], headers, body), keep)
            if not keep:
                return

    def _write(self, answer: Answer, keep: bool) -> None:
        assert self._transport is not None
        status, kind, body = answer
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        if not keep:
            self._transport.close()
