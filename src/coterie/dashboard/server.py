"""Serves the web page and the picture behind it to browsers on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

import msgspec

Look = Callable[[], dict[str, Any]]


class Picture:
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


def serve(picture: Picture, host: str, port: int) -> ThreadingHTTPServer:
    """A server that is ready to run; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/":
                self._answer(200, "text/html; charset=utf-8", page())
            elif self.path == "/picture":
                self._answer(200, "application/json", picture.latest())
            else:
                self._answer(404, "text/plain; charset=utf-8", b"there is only / and /picture\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody wants a line per second and browser."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server
