"""Garbage, floods, clients that do not read and peers that lie: the node lives and serves the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coterie.broker.frames import CONTROL, HELLO, LINK_VERSION, MESSAGE, PROOF, Hello, encode_hello, frame
from coterie.live.node import LiveNode, _bounded
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.systems import system_named
from tests.interop.fleet import Network, lone_config, run, until

pytestmark = pytest.mark.interop


async def spill(port: int, data: bytes) -> None:
    """Send bytes to a port and go away; how the other side takes it is its affair."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        await writer.drain()
        writer.transport.abort()
    except ConnectionError:
        pass


def mutated(random: Random, good: list[bytes]) -> bytes:
    """Valid packets in a row with a few bytes changed, cut or doubled."""
    data = bytearray(b"".join(random.choices(good, k=random.randint(1, 4))))
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(data)) if data else 0
        match random.randrange(3):
            case 0 if data:
                data[at] = random.randrange(256)
            case 1:
                data[at:at] = random.randbytes(random.randint(1, 8))
            case _:
                del data[at : at + random.randint(1, 8)]
    return bytes(data)


def test_malformed_input_on_both_ports(tmp_path: Path) -> None:
    """Each connection carries several mutations, so some thousands of malformed inputs arrive on each port."""
    random = Random(5)
    mqtt = [
        encode_packet(p.Connect("c"), p.MQTT_5),
        encode_packet(p.Connect("c", p.MQTT_3), p.MQTT_3),
        encode_packet(p.Publish("a/b", b"x" * 50, 1, packet_id=3), p.MQTT_5),
        encode_packet(p.Subscribe(1, (p.Subscription("a/#", 1),)), p.MQTT_5),
    ]
    hello = encode_hello(Hello(LINK_VERSION, "coterie", "flooding", 1, b"n" * 32))
    peer = [frame(HELLO, hello), frame(PROOF, b"p" * 32), frame(MESSAGE, b"\x01\x93"), frame(CONTROL, b"\x01\x90")]

    async def main() -> None:
        async with Network(tmp_path, "flooding", 2) as network:
            got: list[Any] = []
            reader = await network.client(0, "reader", got)
            await reader.subscribe("calm", qos=1)
            writer = await network.client(1, "writer")
            link_port = network.nodes[0].config.links.port
            for number in range(15):
                batch = [spill(network.port(0), mqtt[0] + mutated(random, mqtt)) for _ in range(20)]
                batch += [spill(link_port, mutated(random, peer)) for _ in range(20)]
                await asyncio.gather(*batch)
                await writer.publish("calm", b"%d" % number, qos=1)
            await until(lambda: len(got) == 15)
            assert network.nodes[0].peers.refused > 100
            await until(lambda: len(network.nodes[0].broker.clients.lines) == 1)
            await reader.stop()
            await writer.stop()

    run(main)


def test_a_peer_without_the_key_gets_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "flooding", 2) as network:
            reader, writer = await asyncio.open_connection("127.0.0.1", network.nodes[0].config.links.port)
            writer.write(frame(HELLO, encode_hello(Hello(LINK_VERSION, "coterie", "flooding", 1, b"n" * 32))))
            writer.write(frame(PROOF, b"\0" * 32))
            data = await reader.read()  # its own greeting and proof, then the end
            assert data
            assert reader.at_eof()
            writer.close()
            assert network.nodes[0].broker.links.connected == [1]

    run(main)


def test_a_stranger_writes_no_lines_into_the_log(tmp_path: Path) -> None:
    """What it calls its network is told, in one line, without what moves a terminal's cursor."""
    said: list[str] = []

    async def main() -> None:
        async with Network(tmp_path, "flooding", 2) as network:
            network.nodes[0]._tell = _bounded(said.append)
            hello = Hello(LINK_VERSION, "x\n2026-01-01T00:00:00 all is well\x1b[2J", "flooding", 1, b"n" * 32)
            await spill(network.nodes[0].config.links.port, frame(HELLO, encode_hello(hello)))
            await until(lambda: any("all is well" in one for one in said))
        assert all(one.isprintable() for one in said)

    run(main)


def test_a_client_that_never_reads_costs_only_itself(tmp_path: Path) -> None:
    config = lone_config(tmp_path, mqtt={"write_buffer_bytes_max": 65_536, "limits": {"queue_count_max": 100}})

    async def main() -> None:
        node = LiveNode(config, system_named("flooding"))
        await node.start()
        port = node.ports["mqtt"]
        _, stuck = await asyncio.open_connection("127.0.0.1", port)
        stuck.write(encode_packet(p.Connect("stuck"), p.MQTT_5))
        stuck.write(encode_packet(p.Subscribe(1, (p.Subscription("big/#", 1),)), p.MQTT_5))
        stuck.transport.pause_reading()  # type: ignore[attr-defined]
        from coterie.live.client import MqttClient, connect_packet

        got: list[Any] = []
        reader = MqttClient("127.0.0.1", port, connect_packet("reader"), got.append)
        await reader.start()
        await reader.subscribe("big/#", qos=1)
        await until(lambda: node.broker.sessions.index.count == 2)
        for number in range(1500):
            await reader.publish("big/x", bytes(10_000), qos=number % 2)
        await until(lambda: len(got) == 1500)
        session = node.broker.sessions.of["stuck"]
        assert session.shed_count > 100
        assert session.queue_count <= 100
        stuck.transport.abort()
        await reader.stop()
        await node.stop()

    run(main)


def test_slow_connects_are_ended_and_connections_bounded(tmp_path: Path) -> None:
    config = lone_config(tmp_path, mqtt={"connections_max": 5, "limits": {"connect_timeout_s": 0.3}})

    async def main() -> None:
        node = LiveNode(config, system_named("flooding"))
        await node.start()
        pairs = [await asyncio.open_connection("127.0.0.1", node.ports["mqtt"]) for _ in range(8)]
        for _, writer in pairs:
            writer.write(b"\x10\x20\x00")  # the start of a CONNECT, and then nothing
        ends = await asyncio.gather(*(reader.read() for reader, _ in pairs), return_exceptions=True)
        assert len(ends) == 8
        await until(lambda: not node.broker.clients.lines)
        assert node.broker.counts.connections_refused >= 3
        for _, writer in pairs:
            writer.close()
        await node.stop()

    run(main)
