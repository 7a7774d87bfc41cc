"""A real browser on a foreign page, on another port and under a name that was made to point here: it gets nothing."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from coterie.dashboard.server import LatestPicture, serve
from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.interop.fleet import free_ports, lone_config, run

pytestmark = pytest.mark.interop
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# What a page can try: every kind of request that needs nobody's leave, those that do, and a WebSocket.
ATTEMPTS = """async ([base, ws, token]) => {
  const found = {};
  const tries = {
    read: () => fetch(base + "/totals").then(r => r.text()),
    signed: () => fetch(base + "/totals", {headers: {Authorization: "Bearer " + token}}).then(r => r.text()),
    picture: () => fetch(base + "/picture", {headers: {Authorization: "Bearer " + token}}).then(r => r.text()),
    health: () => fetch(base + "/health").then(r => r.text()),
    blind: () => fetch(base + "/block?peers=1", {method: "POST", mode: "no-cors"}).then(r => r.type),
    posted: () => fetch(base + "/block?peers=1", {method: "POST", headers: {Authorization: "Bearer " + token}})
      .then(r => r.text()),
  };
  for (const [name, attempt] of Object.entries(tries)) {
    try { found[name] = await attempt(); } catch (error) { found[name] = "refused"; }
  }
  found.socket = await new Promise(done => {
    const socket = new WebSocket(ws, ["mqtt"]);
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
  });
  return found;
}"""


@contextmanager
def foreign_page() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>somebody else</title>")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


async def tried(page: Any, place: str, *targets: str) -> dict[str, str]:
    await page.goto(place)
    found: dict[str, str] = await page.evaluate(ATTEMPTS, list(targets))
    return found


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine; `make peers` installs it on Debian")
def test_a_foreign_page_neither_reads_nor_changes_anything(tmp_path: Path) -> None:
    """Even if it has the token, which it has not: the browser says where it comes from."""
    from playwright.async_api import async_playwright

    (ws_port,) = free_ports(1)
    config = lone_config(tmp_path, mqtt={"port": 0, "websocket_port": ws_port}, admin={"token": "secret"})
    console = serve(LatestPicture(lambda: {"secret": "picture"}, 0.0), "127.0.0.1", 0, "secret")
    threading.Thread(target=console.serve_forever, daemon=True).start()

    async def main() -> None:
        node = LiveNode(config, system_named("flooding"))
        await node.start()
        blocked: list[Any] = []
        node.broker.links.block = blocked.append  # type: ignore[method-assign,assignment]
        try:
            async with async_playwright() as play:
                arguments = ["--host-resolver-rules=MAP evil.example 127.0.0.1", "--no-sandbox"]
                browser = await play.chromium.launch(executable_path=BROWSER, args=arguments)
                page = await (await browser.new_context()).new_page()
                with foreign_page() as port:
                    ports = {"admin": node.ports["admin"], "console": console.server_address[1]}
                    for origin in (f"http://evil.example:{port}/", f"http://127.0.0.1:{port}/"):
                        for target in ports.values():
                            socket = f"ws://127.0.0.1:{ws_port}/"
                            found = await tried(page, origin, f"http://127.0.0.1:{target}", socket, "secret")
                            assert found.pop("blind") in ("opaque", "refused")
                            assert set(found.values()) == {"refused"}, (origin, found)
                # The same name points at us now: the browser takes us for that page's own server.
                for target in ports.values():
                    rebound = f"http://evil.example:{target}"
                    await page.goto(rebound + "/")
                    assert "host name is not known here" in await page.content()
                    found = await page.evaluate(ATTEMPTS, [rebound, f"ws://evil.example:{ws_port}/", "secret"])
                    assert found.pop("socket") == "refused"
                    assert found.pop("blind") in ("basic", "default", "refused")
                    for said in found.values():
                        assert "host name is not known here" in said or said == "refused" or "501" in said, found
                # The page that is ours works.
                own = f"http://127.0.0.1:{ports['console']}/#token=secret"
                async with page.expect_response("**/picture") as answer:
                    await page.goto(own)
                assert await (await answer.value).json() == {"secret": "picture"}
                assert "token" not in page.url
                await browser.close()
            assert blocked == []
            assert node.broker.sessions.of == {}
        finally:
            await node.stop()

    try:
        run(main)
    finally:
        console.shutdown()
        console.server_close()
        asyncio.set_event_loop(None)
