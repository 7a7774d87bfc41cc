"""Logins by the hundred, wrong ones and certificates at a running node, and every limit with its reason code."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest

from coterie.errors import RunError
from coterie.live import figures
from coterie.live.client import MqttClient
from coterie.live.node import LiveNode
from coterie.live.passwords import hash_password
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.reasons import Reason
from coterie.mqtt.stream import Decoder
from coterie.systems import system_named
from tests.broker.test_access import cheap
from tests.interop.fleet import free_ports, lone_config, run
from tests.interop.test_clients import certificates

pytestmark = pytest.mark.interop


@asynccontextmanager
async def node_with(folder: Path, **sections: dict[str, Any]) -> AsyncIterator[LiveNode]:
    node = LiveNode(lone_config(folder, **sections), system_named("flooding"))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


async def answer_to(
    node: LiveNode, packet: p.Connect, *more: p.Packet, local: str = "127.0.0.1", wait_s: float = 0.4
) -> list[Any]:
    """What a node says until it closes the connection or falls silent; from any address of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.ports["mqtt"], local_addr=(local, 0))
    decoder, found = Decoder(packet.version), []
    writer.write(b"".join(encode_packet(one, packet.version) for one in (packet, *more)))
    try:
        while data := await asyncio.wait_for(reader.read(65_536), wait_s if found else 20.0):
            decoder.feed(data)
            while (said := decoder.next_packet()) is not None:
                found.append(said)
    except (TimeoutError, ConnectionError):
        pass
    writer.transport.abort()
    return found


def user(name: str, **rules: Any) -> dict[str, Any]:
    return {"name": name, "password": cheap(name), **rules}


def login(name: str, password: str, client: str = "c", version: int = 5) -> p.Connect:
    return p.Connect(client, version, username=name, password=password.encode())


def test_a_fleet_comes_back_at_once(tmp_path: Path) -> None:
    """A password takes tens of milliseconds: one check for each connection would take many times the time-out."""
    users = [{"name": f"u{number}", "password": hash_password("right")} for number in range(3)]

    async def main() -> None:
        limits = {"connect_timeout_s": 1.0}
        async with node_with(tmp_path, access={"users": users}, mqtt={"port": 0, "limits": limits}) as node:
            asked = [login(f"u{number % 3}", "right", f"c{number}") for number in range(300)]
            found = await asyncio.gather(*(answer_to(node, one) for one in asked))
            assert Counter(one[0].reason for one in found if one) == {0: 300}
            assert node.logins.checked_count == 3
            assert (await answer_to(node, login("u0", "right")))[0].reason == 0
            assert node.logins.checked_count == 3

    run(main)


def test_who_guesses_is_shut_out_and_the_others_are_not(tmp_path: Path) -> None:
    async def main() -> None:
        limits = {"failures_per_s_address": 0.01, "failures_burst_address": 5.0}
        async with node_with(tmp_path, access={"users": [user("ann")]}, limits=limits) as node:
            guesses = [await answer_to(node, login(name, f"guess{number}"), local="127.0.0.2")
                       for number, name in enumerate(["ann", "nobody", "ann", "nobody", "ann", "ann"])]  # fmt: skip
            reasons = [one[0].reason for one in guesses]
            assert reasons == [Reason.BAD_USER_NAME_OR_PASSWORD] * 5 + [Reason.CONNECTION_RATE_EXCEEDED]
            shut_out = await answer_to(node, login("ann", "ann"), local="127.0.0.2")
            assert shut_out[0].reason == Reason.CONNECTION_RATE_EXCEEDED  # not even a right one tells anything
            assert (await answer_to(node, login("ann", "ann")))[0].reason == 0
            totals = figures.totals(node)
            assert (totals["logins_failed_total"], totals["connects_limited_total"]) == (5, 2)

    run(main)


def test_a_full_line_says_that_the_server_is_busy(tmp_path: Path) -> None:
    slow = {"name": "ann", "password": hash_password("ann")}

    async def main() -> None:
        logins = {"workers": 1, "queue_max": 1}
        async with node_with(tmp_path, access={"users": [slow], "logins": logins}) as node:
            asked = [login(f"u{number}", "wrong", f"c{number}") for number in range(8)]
            reasons = Counter(one[0].reason for one in await asyncio.gather(*(answer_to(node, one) for one in asked)))
            assert set(reasons) == {Reason.SERVER_BUSY, Reason.BAD_USER_NAME_OR_PASSWORD}
            assert figures.totals(node)["logins_busy_total"] == reasons[Reason.SERVER_BUSY]

    run(main)


def test_publishing_too_fast_ends_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        limits = {"publishes_per_s_client": 1.0, "publishes_burst_client": 10.0}
        async with node_with(tmp_path, limits=limits) as node:
            for qos in (0, 1):
                many = [p.Publish("a", b"x", qos, packet_id=number + 1 if qos else 0) for number in range(20)]
                found = await answer_to(node, p.Connect("c", 5), *many)
                assert found[-1] == p.Disconnect(Reason.MESSAGE_RATE_TOO_HIGH)
            few = await answer_to(node, p.Connect("d", 5), *many[:5])
            assert [type(one) for one in few] == [p.ConnAck, *[p.PubAck] * 5]
            assert figures.totals(node)["publishes_limited_total"] == 2

    run(main)


def test_what_there_is_no_room_for_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        limits = {"retained_topics_max": 3, "retained_topics_client_max": 2, "subscription_total_max": 2,
                  "stored_bytes_max": 1000, "subscription_count_max": 5}  # fmt: skip
        async with node_with(tmp_path, mqtt={"port": 0, "limits": limits}) as node:
            for name, expected in (("c", [0, 0, 0x97]), ("d", [0, 0x97, 0x97])):
                kept = [p.Publish(f"{name}/{n}", b"x", 1, retain=True, packet_id=n + 1) for n in range(3)]
                found = await answer_to(node, p.Connect(name, 5), *kept)
                assert [one.reason for one in found[1:]] == expected
            old = await answer_to(node, p.Connect("e", 4), p.Publish("e", b"x", 1, retain=True, packet_id=1))
            assert [type(one) for one in old] == [p.ConnAck]  # closed: it cannot be told otherwise
            lasting = p.Connect("f", 4, False)
            wishes = p.Subscribe(1, tuple(p.Subscription(f"s/{number}", 1) for number in range(4)))
            found = await answer_to(node, lasting, wishes)
            assert found[1].reasons == (1, 1, 0x80, 0x80)
            large = [p.Publish("s/1", b"x" * 500, 1, packet_id=number + 1) for number in range(3)]
            found = await answer_to(node, p.Connect("g", 5), *large)
            assert [one.reason for one in found[1:]] == [0x00, 0x00, 0x97]
            totals = figures.totals(node)
            assert [totals[f"{name}_refused_total"] for name in ("retained", "subscriptions", "stored")] == [4, 2, 1]
            assert "coterie_stored_refused_total" in figures.prometheus(node)

    run(main)


def test_a_connection_lasts_as_long_as_its_token(tmp_path: Path) -> None:
    access = {"anonymous": "never", "jwt": {"algorithms": ["HS256"], "key": "k" * 32}}

    async def main() -> None:
        async with node_with(tmp_path, access=access) as node:
            token = jwt.encode({"sub": "dev", "exp": time.time() + 2}, "k" * 32, "HS256")
            found = await answer_to(node, login("dev", token), wait_s=10.0)
            assert [type(one) for one in found] == [p.ConnAck, p.Disconnect]
            assert found[1].reason == Reason.NOT_AUTHORIZED
            assert (await answer_to(node, login("dev", token)))[0].reason == Reason.BAD_USER_NAME_OR_PASSWORD

    run(main)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_names_the_user(tmp_path: Path) -> None:
    """The certificate of the tests is for `localhost`, which is then the user's name."""
    certificates(tmp_path)
    (tls_port,) = free_ports(1)
    mqtt = {"port": 0, "tls_port": tls_port, "certificate": "localhost.pem", "certificate_key": "localhost.key",
            "client_authority": "ca.pem"}  # fmt: skip
    access = {"certificate_users": True, "anonymous": "never", "others": {"publish": ["dev/%u"]}}

    async def main() -> None:
        async with node_with(tmp_path, mqtt=mqtt, access=access) as node:
            context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
            context.load_cert_chain(tmp_path / "localhost.pem", tmp_path / "localhost.key")
            reader, writer = await asyncio.open_connection("localhost", tls_port, ssl=context)
            writer.write(encode_packet(p.Connect("c", 5), 5))
            while "c" not in node.broker.sessions.of:
                assert await reader.read(1)
            assert node.broker.sessions.of["c"].owner == "localhost"
            writer.close()
            with pytest.raises(RunError, match="not authorized"):
                await MqttClient("127.0.0.1", node.ports["mqtt"], p.Connect("d", 5), lambda _: None).start()

    run(main)
