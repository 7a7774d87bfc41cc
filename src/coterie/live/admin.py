"""The admin interface: HTTP/1.1 (h11) with JSON documents and Prometheus text, for those who have the token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec

from coterie.errors import CoterieError
from coterie.live.guard import PAGE_RULES, SECURITY, Guard

BODY_BYTES_MAX = 8 << 20
HEAD_BYTES_MAX = 16_384
CONNECTIONS_MAX = 200
IDLE_S = 60.0
Answer = tuple[int, str, bytes]
Handler = Callable[[dict[str, str], bytes], Any]
JSON = "application/json"


class NotNow:
    """An answer that says no for the moment: 503."""

    def __init__(self, document: Any) -> None:
        self.document = document


class AdminInterface:
    """Routes by method and path; a handler gets the query and the body and returns a document or text.

    GET changes nothing: what changes something is POST. A document may have an `open` form for those without the token.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.connections = 0
        self._routes: dict[tuple[str, str], Handler] = {}
        self._open: dict[str, Handler] = {}

    def add(self, method: str, path: str, handler: Handler, open_handler: Handler | None = None) -> None:
        self._routes[method, path] = handler
        if open_handler is not None:
            self._open[path] = open_handler

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        refusal = self.guard.refusal(headers)
        if refusal is not None:
            return self.error(*refusal)
        parts = urlsplit(target)
        handler = self._routes.get((method, parts.path))
        if handler is None:
            known = any(path == parts.path for _, path in self._routes)
            return self.error(405 if known else 404, "there is no such document; see docs/NETWORK.md")
        if not self.guard.is_authorized(headers):
            handler = self._open.get(parts.path)
            if handler is None:
                return self.error(401, "send the header 'Authorization: Bearer TOKEN'; the token is in the data folder")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            found = handler(query, body)
        except (CoterieError, msgspec.MsgspecError, ValueError, KeyError) as error:
            return self.error(400, str(error))
        if isinstance(found, NotNow):
            return 503, JSON, msgspec.json.encode(found.document)
        if isinstance(found, str):
            return 200, "text/plain; version=0.0.4; charset=utf-8", found.encode()
        return 200, JSON, msgspec.json.encode(found)

    @staticmethod
    def error(status: int, reason: str) -> Answer:
        return status, JSON, msgspec.json.encode({"error": reason})

    def connection(self) -> AdminConnection:
        return AdminConnection(self)


class AdminConnection(asyncio.Protocol):
    """One HTTP connection, kept open between requests for a while."""

    def __init__(self, interface: AdminInterface) -> None:
        self._interface = interface
        self._http = h11.Connection(h11.SERVER, HEAD_BYTES_MAX)
        self._request: h11.Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._interface.connections += 1
        if self._interface.connections > CONNECTIONS_MAX:
            self._transport.abort()
        self._wait()

    def connection_lost(self, error: Exception | None) -> None:
        self._interface.connections -= 1
        if self._deadline is not None:
            self._deadline.cancel()

    def _wait(self) -> None:
        """Who says nothing, or dribbles a request, does not keep the connection."""
        assert self._transport is not None
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(IDLE_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        try:
            self._http.receive_data(data)
            while not self._transport.is_closing():
                match event := self._http.next_event():
                    case h11.Request():
                        self._request, self._body, self._body_bytes = event, [], 0
                        if dict(event.headers).get(b"expect", b"").lower() == b"100-continue":
                            self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    case h11.Data():
                        self._body.append(bytes(event.data))
                        self._body_bytes += len(event.data)
                        if self._body_bytes > BODY_BYTES_MAX:
                            self._fail(413, f"at most {BODY_BYTES_MAX} bytes are taken")
                    case h11.EndOfMessage():
                        self._answer()
                    case h11.NEED_DATA | h11.PAUSED:
                        return
                    case _:
                        self._transport.close()
        except h11.RemoteProtocolError as error:
            self._fail(error.error_status_hint, "expected an HTTP/1.1 request")

    def _answer(self) -> None:
        assert self._request is not None
        request, self._request = self._request, None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        method, target = request.method.decode("latin-1"), request.target.decode("latin-1")
        try:
            answer = self._interface.answer(method, target, headers, b"".join(self._body))
        except ValueError:  # a target that is no URL
            answer = self._interface.error(400, "the address is malformed")
        self._write(answer)
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state is h11.MUST_CLOSE:
            assert self._transport is not None
            self._transport.close()
            return
        self._http.start_next_cycle()
        self._wait()

    def _write(self, answer: Answer) -> None:
        status, kind, body = answer
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *SECURITY]
        self._send(h11.Response(status_code=status, headers=[*headers, ("Content-Security-Policy", PAGE_RULES)]))
        self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())

    def _fail(self, status: int, reason: str) -> None:
        assert self._transport is not None
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._write(self._interface.error(status, reason))
        self._transport.close()

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
