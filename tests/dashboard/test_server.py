"""The web page over real HTTP, and in a real browser where there is one."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from coterie.dashboard.server import LatestPicture, serve
from coterie.dashboard.view import picture
from tests.dashboard.test_view import says


@contextmanager
def served(look) -> Iterator[int]:
    server = serve(LatestPicture(look, 0.0), "127.0.0.1", 0, TOKEN)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


TOKEN = "the token of the page"
SIGNED = {"Authorization": f"Bearer {TOKEN}"}


def get(port: int, path: str, headers: dict[str, str] = {}) -> tuple[int, bytes]:  # noqa: B006
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def network() -> dict:
    now = [says(0, peers=[1], memberships=["news"]), says(1, peers=[0], parents=[["news", 0]], memberships=["news"])]
    return picture(now, [*now], 1.0, {"overall": (120.0, 118.5)})


def test_page_and_picture_are_all_there_is():
    with served(network) as port:
        status, body = get(port, "/")
        assert status == 200
        assert b"<title>Coterie</title>" in body
        assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")  # nothing comes from elsewhere
        assert json.loads(get(port, "/picture", SIGNED)[1])["system"] == "x"
        assert get(port, "/secret", SIGNED)[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**SIGNED, "Host": "evil.example"}, 421),
        ({**SIGNED, "Origin": "http://evil.example"}, 403),
        ({**SIGNED, "Origin": "null"}, 403),
        ({**SIGNED, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**SIGNED, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({**SIGNED, "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_the_picture_is_for_the_page_and_whoever_has_the_token(headers, status):
    with served(network) as port:
        found, body = get(port, "/picture", headers)
        assert found == status
        assert (b"news" in body) == (status == 200)
        rebound = get(port, "/", {"Host": "evil.example", "Sec-Fetch-Mode": "navigate"})
        assert rebound[0] == 421
        assert get(port, "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


def test_many_browsers_cost_one_look_per_interval():
    looked, now_s = [], [0.0]
    one = LatestPicture(lambda: looked.append(1) or {}, 1.0, lambda: now_s[0])
    for _ in range(5):
        one.latest()
    now_s[0] = 1.0
    one.latest()
    assert len(looked) == 2


@pytest.mark.interop
def test_a_browser_shows_nodes_channels_and_bill(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine; `make peers` installs it on Debian")
    with served(network) as port:
        shown = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
             "--virtual-time-budget=3000", "--dump-dom", f"http://127.0.0.1:{port}/#token={quote(TOKEN)}&news"],
            capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip
    assert "2 of 2" in shown
    assert "x, plan 1, 1 link, 1 channel" in shown
    assert 'class="edge"' in shown
    assert "tree and members of news" in shown
    assert "118.5" in shown or "119" in shown
    assert "no news: " not in shown.replace("no news: ${", "")
