"""What 0.1 let pass, one attempt each, through the ports of running programs: a node, and mosquitto where it applies.

`COTERIE_OLD=CHECKOUT pytest tests/interop/test_findings.py` tries the same on the nodes of another version; on 0.1 all
of it that is tried on coterie fails. Ways around the permissions are in `test_permissions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import RunError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.passwords import hash_password
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import Reason
from coterie.mqtt.stream import Decoder
from tests.interop.fleet import Processes, run, until, write_configs
from tests.interop.rivals import Program
from tests.interop.test_links import SECRET, Between
from tests.interop.test_permissions import BROKERS, client

pytestmark = pytest.mark.interop
BOB: dict[str, dict[str, Any]] = {"bob": {"publish": ["public/#"], "subscribe": ["public/#"]}}
HANDSHAKE = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\nConnection: Upgrade\r\n"
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


async def said_by(port: int, data: bytes) -> bytes:
    """The first that comes back, or nothing if the connection ends before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(4096), 20)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def login(port: int, user: str, password: str, name: str) -> int:
    """The reason of CONNACK; -1 if the connection ends without one."""
    packet = p.Connect(name, 5, username=user, password=password.encode())
    decoder = Decoder(5)
    decoder.feed(await said_by(port, encode_packet(packet, 5)))
    said = decoder.next_packet()
    return int(said.reason) if isinstance(said, p.ConnAck) else -1


@pytest.mark.parametrize("kind", BROKERS)
def test_a_will_that_may_not_be_said_is_not_said_after_a_crash(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Program(kind, tmp_path, BOB, is_open=True) as program:
            will = p.Will("secret/will", b"lie", 1, True)
            bob = client(program.mqtt, "bob", "device", [], lasting=True, will=will)
            with contextlib.suppress(RunError):  # not to be let in is as good
                await bob.start()
            await asyncio.sleep(1.5)  # whatever is written down is, by now
            program.kill()
            await bob.stop()
            await program.start()
            got: list[Any] = []
            async with MqttClient("127.0.0.1", program.mqtt, connect_packet("looker"), got.append) as looker:
                await looker.subscribe("#", qos=1)
                await asyncio.sleep(1.5)
                await looker.publish("public/end", b"", qos=1)
                await until(lambda: "public/end" in [one.topic for one in got])
            assert "secret/will" not in [one.topic for one in got]

    run(main)


@pytest.mark.parametrize("kind", BROKERS)
def test_a_fleet_with_passwords_comes_back(kind: str, tmp_path: Path) -> None:
    users: dict[str, dict[str, Any]] = {f"u{number}": {"publish": ["#"], "subscribe": ["#"]} for number in range(4)}

    async def main() -> None:
        async with Program(kind, tmp_path, users, password=hash_password) as program:
            names = [f"u{number % 4}" for number in range(400)]
            asked = [login(program.mqtt, name, name, f"c{number}") for number, name in enumerate(names)]
            assert Counter(await asyncio.gather(*asked)) == {0: 400}

    run(main)


def test_guesses_at_names_leave_the_loop_to_others(tmp_path: Path) -> None:
    """An unknown name cost a check on the loop: between two of them nobody else had more than a word."""
    guesses = 20

    async def main() -> None:
        async with Program("coterie", tmp_path, BOB, password=hash_password) as program:
            reader, writer = await asyncio.open_connection("127.0.0.1", program.mqtt)
            connect = p.Connect("calm", 5, username="bob", password=b"bob")
            writer.write(encode_packet(connect, 5))
            await reader.read(4096)
            asked = [login(program.mqtt, f"nobody{number}", "guess", f"c{number}") for number in range(guesses)]
            answers = asyncio.gather(*asked)
            pings = 0
            while not answers.done():
                writer.write(b"\xc0\x00")
                assert await reader.readexactly(2) == b"\xd0\x00"
                pings += 1
            assert set(answers.result()) == {Reason.BAD_USER_NAME_OR_PASSWORD}
            writer.close()
            assert pings > 10 * guesses

    run(main)


@pytest.mark.parametrize("kind", BROKERS)
def test_who_guesses_without_end_is_stopped(kind: str, tmp_path: Path) -> None:
    """mosquitto lets everybody guess for ever."""

    async def main() -> None:
        async with Program(kind, tmp_path, BOB) as program:
            reasons: list[int] = []
            for turn in range(12):  # twelve who guess at once, each again and again
                asked = [login(program.mqtt, "bob", f"guess{turn}-{number}", f"c{number}") for number in range(12)]
                reasons += await asyncio.gather(*asked)
            assert (Reason.CONNECTION_RATE_EXCEEDED in reasons) is (kind == "coterie")

    run(main)


def test_a_foreign_page_posts_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with Program("coterie", tmp_path, BOB) as program:
            for host, origin in (("evil.example", "http://evil.example"), (f"127.0.0.1:{program.admin}", "null")):
                head = f"Host: {host}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n\r\n"
                answer = await said_by(program.admin, f"POST /block?peers=1 HTTP/1.1\r\n{head}".encode())
                assert answer.split()[1] in (b"401", b"403", b"421"), answer

    run(main)


@pytest.mark.parametrize("kind", BROKERS)
def test_a_foreign_page_opens_no_web_socket(kind: str, tmp_path: Path) -> None:
    """mosquitto takes any origin."""

    async def main() -> None:
        async with Program(kind, tmp_path, BOB, is_open=True) as program:
            answer = await said_by(program.websocket, HANDSHAKE.format(port=program.websocket).encode())
            assert (answer.split()[1] == b"101") is (kind == "mosquitto"), answer

    run(main)


def test_a_length_that_is_no_number_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with Program("coterie", tmp_path, BOB) as program:
            request = "POST /block HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: \u00b2\r\n\r\n"
            answer = await said_by(program.admin, request.encode("latin-1"))
            assert answer.startswith(b"HTTP/1.1 400"), answer
            assert "Traceback" not in program.log

    run(main)


@pytest.mark.parametrize("kind", BROKERS)
def test_a_hangup_ends_nothing(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Program(kind, tmp_path, BOB) as program:
            assert await login(program.mqtt, "bob", "bob", "b") == 0
            os.kill(program.pid, signal.SIGHUP)
            await asyncio.sleep(0.5)
            assert await login(program.mqtt, "bob", "bob", "b") == 0

    run(main)


@pytest.mark.parametrize("kind", BROKERS)
def test_statistics_are_read_by_rule_only(kind: str, tmp_path: Path) -> None:
    """mosquitto grants the subscription and delivers nothing."""

    async def main() -> None:
        async with Program(kind, tmp_path, BOB) as program:
            got: list[Any] = []
            async with client(program.mqtt, "bob", "b", got) as bob:
                granted = await bob.subscribe("$SYS/#")
                assert kind == "mosquitto" or granted == (Reason.NOT_AUTHORIZED,)
                await bob.subscribe("public/#", qos=1)
                await bob.publish("public/x", b"", qos=1)
                await until(lambda: bool(got) and got[-1].topic == "public/x")
            assert [one.topic for one in got] == ["public/x"]

    run(main)


def test_what_is_stored_is_bounded(tmp_path: Path) -> None:
    """0.1 has no such limit, and says so when it is given one."""

    async def main() -> None:
        async with Program("coterie", tmp_path, {}, is_open=True, limits={"stored_bytes_max": 1000}) as program:
            lasting = p.Connect("away", 5, False, properties=Properties(session_expiry_s=300))
            async with MqttClient("127.0.0.1", program.mqtt, lasting) as away:
                await away.subscribe("t", qos=1)
            async with MqttClient("127.0.0.1", program.mqtt, connect_packet("writer")) as writer:
                reasons = [await writer.publish("t", bytes(500), qos=1) for _ in range(3)]
            assert reasons == [0, 0, Reason.QUOTA_EXCEEDED]

    run(main)


def test_a_wildcard_over_many_retained_messages_holds_nobody_up(tmp_path: Path) -> None:
    """They came in one turn, in which nobody else had an answer."""
    kept = [encode_packet(p.Publish(f"r/{number:05}", b"x", 0, retain=True), 4) for number in range(20_000)]
    size = sum(map(len, kept))

    def dialled(port: int, name: str) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", port), 60)
        line.sendall(encode_packet(p.Connect(name, 4), 4))
        line.recv(4)
        return line

    def pings(port: int) -> int:
        """How many were answered from SUBSCRIBE until the last message was there."""
        with dialled(port, "writer") as writer, dialled(port, "pinger") as pinger, dialled(port, "reader") as reader:
            writer.sendall(b"".join(kept) + encode_packet(p.Publish("end", b"", 1, packet_id=1), 4))
            writer.recv(4)
            pinger.sendall(b"\xc0\x00")
            reader.sendall(encode_packet(p.Subscribe(1, (p.Subscription("r/#", 0),)), 4))
            left, count = size + 5, 0
            while left > 0:
                for line in select.select([pinger, reader], [], [], 60)[0]:
                    data = line.recv(1 << 16)
                    if line is reader:
                        assert data
                        left -= len(data)
                    else:
                        count += 1
                        pinger.sendall(b"\xc0\x00")
        return count

    async def main() -> None:
        async with Program("coterie", tmp_path, {}, is_open=True) as program:
            assert await asyncio.to_thread(pings, program.mqtt) > 20  # in a hundred parts

    run(main)


def test_who_listens_between_two_nodes_learns_nothing(tmp_path: Path) -> None:
    paths = write_configs(tmp_path, "flooding", 2)
    processes = Processes(paths)
    betweens = [Between(one.links.port) for one in processes.configs]  # either may dial

    async def heard() -> bytes:
        """Whatever passed on the link, of which one message was a part."""
        for node in (0, 1):
            processes.start(node)
        await processes.healthy([0, 1])
        got: list[Any] = []
        here, there = (one.mqtt.port for one in processes.configs)
        async with (
            MqttClient("127.0.0.1", there, connect_packet("reader"), got.append) as reader,
            MqttClient("127.0.0.1", here, connect_packet("writer")) as writer,
        ):
            await reader.subscribe("t", qos=1)
            await writer.publish("t", SECRET, qos=1)
            await until(lambda: len(got) == 1)
        return b"".join(b"".join(between.kept) for between in betweens)

    async def main() -> bytes:
        for config, between, path in zip(processes.configs, betweens, reversed(paths), strict=True):
            await between.start()
            path.write_text(path.read_text().replace(f"port = {config.links.port}\n", f"port = {between.port}\n"))
        try:
            return await heard()
        finally:
            await asyncio.to_thread(processes.stop)
            for between in betweens:
                between.stop()
            await asyncio.sleep(0.05)  # until what passed through them is closed too

    text = run(main)
    assert len(text) > len(SECRET)
    assert SECRET[:28] not in text
