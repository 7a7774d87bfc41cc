"""Serves the web page to browsers on this machine, and the picture behind it to those that have the token.

The token comes to the page behind the `#` of its address, which browsers do not send, and goes back in a header, which
pages of others cannot set. The page itself holds nothing.
"""

from __future__ import annotations

import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from coterie.live.guard import PAGE_RULES, SECURITY, Guard

Look = Callable[[], dict[str, Any]]
Find = Callable[[str], list[dict[str, Any]]]


class LatestPicture:
    """The latest picture; however many browsers ask, the network is looked at once per interval."""

    def __init__(self, look: Look, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._look, self._interval_s, self._clock = look, interval_s, clock
        self._lock = threading.Lock()
        self._taken_s = float("-inf")
        self._document = b"{}"

    def latest(self) -> bytes:
        with self._lock:
            if self._clock() - self._taken_s >= self._interval_s:
                self._document = msgspec.json.encode(self._look())
                self._taken_s = self._clock()
            return self._document


def page() -> bytes:
    return files("coterie.dashboard").joinpath("page.html").read_bytes()


def page_rules(text: bytes) -> str:
    """A page may run the script and the style that are in it and ask where it came from; nothing else."""
    found = {}
    for kind in ("script", "style"):
        parts = re.findall(f"<{kind}>(.*?)</{kind}>".encode(), text, re.DOTALL)
        found[kind] = " ".join(f"'sha256-{b64encode(sha256(part).digest()).decode()}'" for part in parts)
    return f"{PAGE_RULES}; connect-src 'self'; img-src data:; script-src {found['script']}; style-src {found['style']}"


def no_search(text: str) -> list[dict[str, Any]]:
    return []


def serve(picture: LatestPicture, host: str, port: int, token: str, find: Find = no_search) -> ThreadingHTTPServer:
    """A server that is ready to run; port 0 takes a free one."""
    guard, text = Guard(token), page()
    rules = page_rules(text)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            refusal = guard.refusal(headers, is_page=self.path == "/")
            if refusal is not None:
                self._answer(refusal[0], "text/plain; charset=utf-8", refusal[1].encode() + b"\n")
            elif self.path == "/":
                self._answer(200, "text/html; charset=utf-8", text)
            elif not guard.is_authorized(headers):
                self._answer(401, "text/plain; charset=utf-8", b"open the address that `coterie dashboard` printed\n")
            elif self.path == "/picture":
                self._answer(200, "application/json", picture.latest())
            elif self.path.startswith("/find?"):
                asked = parse_qs(urlsplit(self.path).query).get("name", [""])[-1]
                self._answer(200, "application/json", msgspec.json.encode(find(asked)))
            else:
                self._answer(404, "text/plain; charset=utf-8", b"there is only /, /picture and /find?name=\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in (*SECURITY, ("Content-Security-Policy", rules)):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody wants a line per second and browser."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server
