"""Whom an HTTP interface answers."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from coterie.live.guard import Guard, host_of, may_open_socket
from coterie.live.tokens import kept_token, read_token


@pytest.mark.parametrize(
    ("place", "host"),
    [("127.0.0.1:80", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("::1", "::1"),
     ("localhost:1", "localhost"), ("evil.example:80", "evil.example"), ("", "")],
)  # fmt: skip
def test_hosts(place: str, host: str) -> None:
    assert host_of(place) == host


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:80"}, None),
        ({"host": "[::1]:80"}, None),
        ({"host": "LocalHost:80"}, None),
        ({"host": "known.example"}, None),
        ({}, 421),
        ({"host": ""}, 421),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "evil.example:127"}, 421),
        ({"host": "h:1", "origin": "http://h:1"}, 421),
        ({"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80"}, None),
        ({"host": "127.0.0.1:80", "origin": "http://127.0.0.1:81"}, 403),
        ({"host": "127.0.0.1:80", "origin": "null"}, 403),
        ({"host": "127.0.0.1:80", "sec-fetch-site": "same-origin"}, None),
        ({"host": "127.0.0.1:80", "sec-fetch-site": "none"}, None),
        ({"host": "127.0.0.1:80", "sec-fetch-site": "same-site"}, 403),
        ({"host": "127.0.0.1:80", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
    ],
)
def test_only_own_pages_and_programs_are_answered(headers: dict[str, str], status: int | None) -> None:
    refusal = Guard("t", ["known.example"]).refusal(headers)
    assert (refusal and refusal[0]) == status


def test_the_token_is_needed_whole() -> None:
    guard = Guard("secret")
    for given, right in (("Bearer secret", True), ("Bearer secre", False), ("secret", False), ("", False),
                         ("bearer secret", False), ("Bearer secret ", False), ("Bearer \xff", False)):  # fmt: skip
        assert guard.is_authorized({"authorization": given}) == right
    assert not Guard("").is_authorized({"authorization": "Bearer "})


def test_a_token_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "admin.token"
    assert read_token(path) == ""
    token, is_new = kept_token(path)
    assert is_new
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_token(path) == (token, False)
    assert read_token(path) == token


@pytest.mark.parametrize(
    ("origin", "place", "allowed"),
    [
        (None, "evil.example:1", True),  # no browser
        ("http://127.0.0.1:9001", "127.0.0.1:9001", True),
        ("https://localhost:9001", "localhost:9001", True),
        ("http://evil.example", "127.0.0.1:9001", False),
        ("http://evil.example:9001", "evil.example:9001", False),  # a name that was made to point here
        ("http://127.0.0.1:8000", "127.0.0.1:9001", False),
        ("null", "127.0.0.1:9001", False),
        ("https://app.example", "mqtt.example", True),
    ],
)
def test_web_sockets_are_opened_by_pages_that_may(origin: str | None, place: str, allowed: bool) -> None:
    assert may_open_socket(origin, place, ("https://app.example/",)) == allowed
    assert may_open_socket(origin, place, ("*",))
