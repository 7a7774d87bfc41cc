"""The admin interface over real sockets: HTTP as it should be, and as it should not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coterie.errors import ConfigError
from coterie.live.admin import BODY_BYTES_MAX, AdminInterface
from coterie.live.guard import Guard

SIGNED = "Host: 127.0.0.1\r\nAuthorization: Bearer secret\r\n"
changed: list[bytes] = []


def interface() -> AdminInterface:
    made = AdminInterface(Guard("secret"))

    def change(query: dict[str, str], body: bytes) -> Any:
        if query.get("fail"):
            raise ConfigError("x", 1, "two")
        changed.append(body)
        return {"taken": len(body)}

    made.add("GET", "/open", lambda query, body: {"all": query}, lambda query, body: {"little": 1})
    made.add("GET", "/text", lambda query, body: "words")
    made.add("POST", "/change", change)
    return made


async def said(*chunks: str | bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """The answers to what is sent, until the connection closes or nothing more comes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(interface().connection, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    for chunk in chunks:
        writer.write(chunk if isinstance(chunk, bytes) else chunk.encode("latin-1"))
        await asyncio.sleep(0)
    answers = []
    try:
        while True:
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 0.5)).decode().split("\r\n")
            pairs = (line.partition(": ") for line in head[1:] if line)
            headers = {name.lower(): value for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            answers.append((int(head[0].split(" ")[1]), headers, body))
    except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
        pass
    writer.close()
    server.close()
    return answers


def statuses(*chunks: str | bytes) -> list[int]:
    return [answer[0] for answer in asyncio.run(said(*chunks))]


def test_documents_text_and_errors() -> None:
    requests = "".join(
        f"{line} HTTP/1.1\r\n{SIGNED}{rest}\r\n"
        for line, rest in (
            ("GET /open?a=1&a=2", ""),
            ("GET /text", ""),
            ("GET /nowhere", ""),
            ("GET /change", ""),
            ("POST /change?fail=1", "Content-Length: 0\r\n"),
        )
    )
    answers = asyncio.run(said(requests))
    assert [answer[0] for answer in answers] == [200, 200, 404, 405, 400]
    assert json.loads(answers[0][2]) == {"all": {"a": "2"}}
    assert answers[1][2] == b"words"
    for _, headers, _ in answers:
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert not changed


def test_any_split_and_any_body() -> None:
    changed.clear()
    request = f"POST /change HTTP/1.1\r\n{SIGNED}Content-Length: 5\r\n\r\nhello".encode()
    chunked = f"POST /change HTTP/1.1\r\n{SIGNED}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
    assert statuses(*[request[at : at + 1] for at in range(len(request))], chunked) == [200, 200]
    assert changed == [b"hello", b"hello"]


def test_without_the_token_only_a_little_is_told() -> None:
    changed.clear()
    host = "HTTP/1.1\r\nHost: localhost\r\n"
    asked = f"GET /open {host}\r\nGET /text {host}\r\nPOST /change {host}Content-Length: 0\r\n\r\n"
    answers = asyncio.run(said(asked))
    assert [answer[0] for answer in answers] == [200, 401, 401]
    assert json.loads(answers[0][2]) == {"little": 1}
    assert not changed


@pytest.mark.parametrize(
    "rest",
    ["Host: evil.example\r\nAuthorization: Bearer secret\r\n", f"{SIGNED}Origin: http://evil.example\r\n",
     f"{SIGNED}Sec-Fetch-Site: cross-site\r\n"],
)  # fmt: skip
def test_pages_of_others_change_nothing(rest: str) -> None:
    changed.clear()
    assert statuses(f"POST /change HTTP/1.1\r\n{rest}Content-Length: 0\r\n\r\n")[0] in (403, 421)
    assert not changed


@pytest.mark.parametrize(
    "request_",
    ["nonsense\r\n\r\n", f"GET /open HTTP/1.1\r\n{SIGNED}Content-Length: \xb2\r\n\r\n", "GET /open HTTP/1.1\r\n\r\n",
     f"GET /open HTTP/1.1\r\n{SIGNED}Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
     f"GET http://[ HTTP/1.1\r\n{SIGNED}\r\n"],
)  # fmt: skip
def test_what_is_not_http_is_told_and_ended(request_: str) -> None:
    found = statuses(request_)
    assert len(found) == 1
    assert 400 <= found[0] < 500


def test_heads_and_bodies_are_bounded() -> None:
    large = f"GET /open HTTP/1.1\r\n{SIGNED}X: {'y' * 200_000}\r\n\r\n"
    assert statuses(large) in ([431], [])
    head = f"POST /change HTTP/1.1\r\n{SIGNED}Content-Length: {BODY_BYTES_MAX + 1}\r\n\r\n"
    assert statuses(head, bytes(BODY_BYTES_MAX + 1)) in ([413], [])  # it may be gone before it is read
