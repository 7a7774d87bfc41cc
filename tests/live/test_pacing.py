"""`mqtt.latency_budget_ms` at a live node: clients that speak often are read by the clock, and nothing else changes."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import msgspec

from coterie.live.config import config_of
from coterie.live.node import LiveNode
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, Connect, Disconnect, Publish, Subscribe, Subscription
from coterie.mqtt.stream import Decoder
from coterie.systems import system_named


async def client(port: int, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    writer.write(encode_packet(Connect(name, MQTT_3), MQTT_3))
    await reader.readexactly(4)
    return reader, writer


def test_clients_that_speak_often_are_paced_and_everything_arrives_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        table = {"node": {"data": str(tmp_path)}, "mqtt": {"port": 0, "latency_budget_ms": 2}, "admin": {"port": 0}}
        node = LiveNode(config_of(msgspec.to_builtins(table), str(tmp_path)), system_named("flooding"))
        ports = await node.start()
        hear, subscriber = await client(ports["mqtt"], "subscriber")
        subscriber.write(encode_packet(Subscribe(1, (Subscription("a", 1),)), MQTT_3))
        await hear.readexactly(5)
        answers, publisher = await client(ports["mqtt"], "publisher")
        assert node.pacer is not None
        was_paced = 0
        for number in range(1, 301):
            publisher.write(encode_packet(Publish("a", b"%d" % number, 1, packet_id=number), MQTT_3))
            await asyncio.sleep(0)  # the node reads in the next round of the same loop: as often as can be
            was_paced = max(was_paced, node.pacer.count)
        assert was_paced
        decoder, found = Decoder(MQTT_3), []
        while len(found) < 300:
            decoder.feed(await asyncio.wait_for(hear.read(1 << 16), 10))
            while (packet := decoder.next_packet()) is not None:
                assert isinstance(packet, Publish)
                found.append(int(packet.payload))
        assert found == list(range(1, 301))
        assert len(await asyncio.wait_for(answers.readexactly(4 * 300), 10)) == 1200
        publisher.write(encode_packet(Disconnect(), MQTT_3))  # an end is found though nobody waits for it
        assert await asyncio.wait_for(answers.read(), 10) == b""
        assert node.pacer.count == 0
        for one in (subscriber, publisher):
            one.close()
        await node.stop()

    asyncio.run(run())
