"""Other people's clients against a network of two nodes: one publishes here, the other listens there."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coterie.live.config import load_config
from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.interop.fleet import Network, free_ports, lone_config, run, until

pytestmark = pytest.mark.interop


def test_paho_aiomqtt_and_gmqtt(tmp_path: Path) -> None:
    import paho.mqtt.client as paho

    async def main() -> None:
        async with Network(tmp_path, "scribe", 2) as network:
            got: dict[str, list[Any]] = {"paho31": [], "paho3": [], "paho5": [], "aiomqtt": [], "gmqtt": []}
            loop = asyncio.get_running_loop()
            pahos = []
            for name, version in (("paho31", paho.MQTTv31), ("paho3", paho.MQTTv311), ("paho5", paho.MQTTv5)):
                client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=version)
                ready = asyncio.Event()
                client.on_message = lambda _c, _u, m, name=name: got[name].append((m.topic, m.payload, m.qos))
                client.on_subscribe = lambda *_args, ready=ready: loop.call_soon_threadsafe(ready.set)
                await asyncio.to_thread(client.connect, "127.0.0.1", network.port(0))
                client.loop_start()
                client.subscribe("room/+", 2)
                await asyncio.wait_for(ready.wait(), 10)
                pahos.append(client)
            async with aiomqtt_reader(network.port(1), got["aiomqtt"]), gmqtt_reader(network.port(1), got["gmqtt"]):
                infos = [pahos[n // 3].publish("room/x", b"%d" % n, n % 3) for n in range(9)]
                for info in infos:
                    await asyncio.to_thread(info.wait_for_publish, 10)
                await until(lambda: all(len(one) == 9 for one in got.values()))
            expected = {("room/x", b"%d" % n, n % 3) for n in range(9)}
            assert all(set(one) == expected for one in got.values())
            for client in pahos:
                client.disconnect()
                await asyncio.to_thread(client.loop_stop)

    run(main)


def test_a_version_that_nobody_speaks_is_refused_politely(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "mesh", 1) as network:
            for name, level, code in ((b"\0\6MQIsdp", 4, 1), (b"\0\4MQTT", 3, 1), (b"\0\4MQTT", 6, 0x84)):
                reader, writer = await asyncio.open_connection("127.0.0.1", network.port(0))
                packet = name + bytes((level, 2, 0, 60)) + b"\0\1x"
                writer.write(bytes((0x10, len(packet))) + packet)
                answer = await asyncio.wait_for(reader.readexactly(4), 10)
                writer.close()
                assert (answer[0], answer[3]) == (0x20, code)

    run(main)


class aiomqtt_reader:  # noqa: N801
    def __init__(self, port: int, sink: list[Any]) -> None:
        import aiomqtt

        self._client = aiomqtt.Client("127.0.0.1", port, identifier="aiomqtt")
        self._sink = sink

    async def __aenter__(self) -> None:
        await self._client.__aenter__()
        await self._client.subscribe("room/#", qos=2)
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._client.messages:
            self._sink.append((str(message.topic), message.payload, message.qos))

    async def __aexit__(self, *error: Any) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.__aexit__(*error)


class gmqtt_reader:  # noqa: N801
    def __init__(self, port: int, sink: list[Any]) -> None:
        import gmqtt

        self._port = port
        self._client = gmqtt.Client("gmqtt")
        self._ready = asyncio.Event()
        self._client.on_message = lambda _c, topic, payload, qos, _p: sink.append((topic, bytes(payload), qos)) or 0
        self._client.on_subscribe = lambda *_args: self._ready.set()

    async def __aenter__(self) -> None:
        await self._client.connect("127.0.0.1", self._port)
        self._client.subscribe("room/x", qos=2)
        await asyncio.wait_for(self._ready.wait(), 10)

    async def __aexit__(self, *error: Any) -> None:
        await self._client.disconnect()


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="mosquitto-clients is not installed")
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto_clients(version: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "flooding", 2) as network:
            common = ["-h", "127.0.0.1", "-V", version, "-t", "m/x", "-q", "1"]
            listening = await asyncio.create_subprocess_exec(
                "mosquitto_sub", *common, "-p", str(network.port(0)), "-C", "2", "-W", "20", stdout=subprocess.PIPE
            )
            await until(lambda: network.nodes[0].broker.sessions.index.count == 1)
            for text in ("one", "two"):
                talking = await asyncio.create_subprocess_exec(
                    "mosquitto_pub", *common, "-p", str(network.port(1)), "-m", text
                )
                assert await talking.wait() == 0
            out, _ = await listening.communicate()
            assert out == b"one\ntwo\n"

    run(main)


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificates(folder: Path) -> dict[str, str]:
    """An authority and certificates for localhost, node-0 and node-1, made by openssl."""
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days",
            "2", "-subj", "/CN=test authority")  # fmt: skip
    for name in ("localhost", "node-0", "node-1"):
        certify(folder, name)
    return {name: str(folder / f"{name}.pem") for name in ("ca", "localhost", "node-0", "node-1")}


def certify(folder: Path, name: str) -> None:
    """A new key and certificate, in place of what is there."""
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
            f"/CN={name}")  # fmt: skip
    (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{name}\n")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-out", f"{name}.pem", "-extfile", f"{name}.ext")  # fmt: skip


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_tls_and_websocket_for_clients(tmp_path: Path) -> None:
    import paho.mqtt.client as paho

    certificates(tmp_path)
    tls_port, websocket_port = free_ports(2)
    config = lone_config(tmp_path, mqtt={
        "tls_port": tls_port, "websocket_port": websocket_port,
        "certificate": "localhost.pem", "certificate_key": "localhost.key",
    })  # fmt: skip

    async def main() -> None:
        node = LiveNode(config, system_named("flooding"))
        await node.start()
        got: list[bytes] = []
        clients = []
        for name, transport, port in (("tls", "tcp", tls_port), ("ws", "websockets", websocket_port)):
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, transport=transport)
            if name == "tls":
                client.tls_set_context(ssl.create_default_context(cafile=str(tmp_path / "ca.pem")))
            client.on_message = lambda _c, _u, m: got.append(m.payload)
            client.on_connect = lambda client, *_rest: client.subscribe("both", 1)
            await asyncio.to_thread(client.connect, "localhost", port)
            client.loop_start()
            clients.append(client)
        await until(lambda: node.broker.sessions.index.count == 2)
        clients[0].publish("both", b"over tls", 1)
        clients[1].publish("both", b"x" * 200_000, 1)
        await until(lambda: len(got) == 4)
        for client in clients:
            client.disconnect()
            await asyncio.to_thread(client.loop_stop)
        await node.stop()

    run(main)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_links_with_mutual_tls(tmp_path: Path) -> None:
    certificates(tmp_path)
    links = {
        "certificate": str(tmp_path / "node-0.pem"),
        "certificate_key": str(tmp_path / "node-0.key"),
        "authority": str(tmp_path / "ca.pem"),
    }

    async def main() -> None:
        network = Network(tmp_path, "flooding", 2, network={"key": ""}, links=links)
        second = network.paths[1]
        wrong = second.read_text()
        second.write_text(wrong.replace("node-0.pem", "node-1.pem").replace("node-0.key", "node-1.key"))
        async with network:
            got: list[Any] = []
            reader = await network.client(0, "reader", got)
            await reader.subscribe("t", qos=1)
            writer = await network.client(1, "writer")
            await writer.publish("t", b"safe", qos=1)
            await until(lambda: len(got) == 1)
            await reader.stop()
            await writer.stop()
            # The same node with a certificate that names another one is not let in.
            await network.nodes.pop().stop()
            second.write_text(wrong)
            liar = LiveNode(load_config(second), system_named("flooding"))
            await liar.start()
            network.nodes.append(liar)
            refused = network.nodes[0].peers.refused
            await until(lambda: network.nodes[0].peers.refused > refused)
            assert network.nodes[0].broker.links.connected == []

    run(main)
