"""Somebody between two nodes: what is heard tells nothing; whatever is changed, repeated or sent back is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.commands import Block
from coterie.broker.facts import Fact, PeerGone, PeerSaid, PeerUp
from coterie.broker.frames import MESSAGE, frame
from coterie.broker.settings import LinkSection, PeerEntry
from coterie.live.client import MqttClient, connect_packet
from coterie.live.config import load_config
from coterie.live.node import LiveNode
from coterie.live.peers import PeerSocket, PeerSockets
from coterie.systems import system_named
from tests.interop.fleet import Network, run, until, write_configs

pytestmark = pytest.mark.interop
SECRET = b"nobody else should read this" * 4


class Between:
    """A relay that keeps what passes (of the last connection) and may change what the dialler says."""

    def __init__(self, port: int) -> None:
        self.port, self.kept = 0, [b"", b""]
        self.change: Callable[[bytes], bytes] = lambda data: data
        self._to = port

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.kept = [b"", b""]  # of the last connection; the first may come too early and be made anew
        try:
            reader_there, writer_there = await asyncio.open_connection("127.0.0.1", self._to)
        except ConnectionError:  # nobody is there yet
            writer.transport.abort()
            return
        ways = [self._pass(reader, writer_there, 0), self._pass(reader_there, writer, 1)]
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, writer_there):
            end.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: int) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.kept[side] += data
                writer.write(self.change(data) if side == 0 else data)
        except ConnectionError:
            return

    def stop(self) -> None:
        self._server.close()

    async def __aenter__(self) -> Between:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stop()
        await asyncio.sleep(0.05)  # until what passed through it is closed too


class End:
    """Stands where the driver does, for the sockets of one node."""

    def __init__(self, node: int, keys: tuple[bytes, ...], other: PeerEntry) -> None:
        settings = LinkSection(heartbeat_s=5.0, silence_s=20.0)
        self.broker = self
        self.peer_lines: dict[int, PeerSocket] = {}
        self.is_up = False
        self.lost_count = 0
        self.got: list[bytes] = []
        self.said: list[str] = []
        self.say = self.said.append
        self.sockets = PeerSockets("n", "s", node, keys, [other], settings, self)  # type: ignore[arg-type]

    def may_link(self, peer: int) -> bool:
        return True

    def take(self, fact: Fact) -> None:
        match fact:
            case PeerUp():
                self.is_up = True
            case PeerGone():
                self.is_up = False
                self.lost_count += 1
                self.said.append(fact.reason)
            case PeerSaid():
                self.got += [body for _, body in fact.frames]


class Pair:
    """Two ends with somebody between them; node 0 dials."""

    def __init__(self, keys: tuple[tuple[bytes, ...], tuple[bytes, ...]] = ((b"k",), (b"k",))) -> None:
        self.keys = keys

    async def __aenter__(self) -> Pair:
        self.there = End(1, self.keys[1], PeerEntry(id=0, host="127.0.0.1", port=1))
        self.got, self.said = self.there.got, self.there.said
        self.between = Between(await self.there.sockets.listen())
        await self.between.start()
        self.here = End(0, self.keys[0], PeerEntry(id=1, host="127.0.0.1", port=self.between.port))
        self.here.sockets.dial(1)
        return self

    def is_linked(self) -> bool:
        """Looks, and tries again where it is not."""
        if not self.here.is_up:
            self.here.sockets.dial(1)
        return self.here.is_up and self.there.is_up

    async def say(self, text: bytes) -> None:
        await until(lambda: self.here.is_up or self.here.lost_count > 0)
        self.here.peer_lines[1].write([frame(MESSAGE, text)])
        await asyncio.sleep(0)

    async def __aexit__(self, *error: object) -> None:
        await self.here.sockets.close()
        await self.there.sockets.close()
        self.between.stop()
        await asyncio.sleep(0.01)


def test_who_listens_learns_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with Pair() as pair:
            await pair.say(SECRET)
            await until(lambda: pair.got == [SECRET])
            assert SECRET[:28] not in pair.between.kept[0]

    run(main)


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


class Reorder:
    """Lets the second of two pieces pass first."""

    def __init__(self) -> None:
        self._held = b""

    def __call__(self, data: bytes) -> bytes:
        if not self._held:
            self._held = data
            return b""
        held, self._held = self._held, b""
        return data + held


@pytest.mark.parametrize(
    "change", [flip, lambda data: data + data, lambda data: data[:-5], lambda data: b"\0" * len(data), Reorder()],
    ids=["flipped", "repeated", "cut", "zeroed", "reordered"],
)  # fmt: skip
def test_what_is_changed_on_the_way_ends_the_connection_and_the_link_comes_back(change: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with Pair() as pair:
            await pair.say(b"before")
            await until(lambda: pair.got == [b"before"])
            pair.between.change = change
            await pair.say(b"changed")
            await pair.say(b"and more of it, so that something comes behind")
            await until(lambda: any("does not open" in one for one in pair.said) or pair.got[1:] == [b"changed"])
            pair.between.change = lambda data: data
            await until(lambda: any("does not open" in one for one in pair.said))
            assert set(pair.got) <= {b"before", b"changed"}  # a record that was repeated had arrived once
            await until(lambda: pair.there.lost_count == 1 and not pair.here.is_up)
            await until(pair.is_linked)
            await pair.say(b"after")
            await until(lambda: pair.got[-1] == b"after")

    run(main)


def test_a_captured_conversation_is_no_use(tmp_path: Path) -> None:
    async def main() -> None:
        async with Pair() as pair:
            await pair.say(SECRET)
            await until(lambda: pair.got == [SECRET])
            for captured in (pair.between.kept[0], pair.between.kept[1]):  # replayed, and reflected
                reader, writer = await asyncio.open_connection("127.0.0.1", pair.between._to)
                writer.write(captured)
                await asyncio.wait_for(reader.read(), 10)  # its greeting, then the end
                writer.close()
            await until(lambda: pair.there.sockets.refused == 2)
            assert pair.got == [SECRET]
            assert any("key the same" in one for one in pair.said)
            await pair.say(b"still here")
            await until(lambda: pair.got[-1] == b"still here")

    run(main)


def test_nodes_without_the_key_stay_apart_and_with_two_keys_meet(tmp_path: Path) -> None:
    async def main() -> None:
        async with Pair(((b"a",), (b"b",))) as pair:
            await until(lambda: any("key the same" in one for one in pair.said))
            assert not pair.there.is_up
        async with Pair(((b"a", b"b"), (b"b",))) as pair:
            await until(lambda: any("key the same" in one for one in pair.said))  # b's side does not take a yet
            pair.there.sockets.keys = (b"b", b"a")
            await until(pair.is_linked)
            await pair.say(b"x")
            await until(lambda: pair.got == [b"x"])

    run(main)


def test_keys_are_changed_while_the_network_runs(tmp_path: Path) -> None:
    """Every step is taken node by node, with links made anew in between; messages pass all the time."""

    async def main() -> None:
        async with Network(tmp_path, "flooding", 2) as network:
            got: list[Any] = []
            reader, writer = await network.client(0, "reader", got), await network.client(1, "writer")
            await reader.subscribe("t", qos=1)
            sent = 0
            for keys in ((b"test", b"new"), (b"new", b"test"), (b"new",)):
                for node in network.nodes:
                    node.peers.keys = keys
                    node.driver.take(Block((1 - node.config.node.id,)))
                    node.driver.take(Block())
                    await writer.publish("t", b"%d" % sent, qos=1)
                    sent += 1
                    await until(lambda: len({one.payload for one in got}) == sent)  # noqa: B023
            await reader.stop()
            await writer.stop()

    run(main)


def records_of(conversation: bytes) -> tuple[bytes, list[bytes]]:
    """The greeting (a length, a kind, a body), and the sealed records behind it (a length, a body)."""
    end = 5 + int.from_bytes(conversation[:4], "big")
    greeting, rest, records = conversation[:end], conversation[end:], []
    while len(rest) >= 4 and len(rest) - 4 >= (size := int.from_bytes(rest[:4], "big")):
        records.append(rest[: 4 + size])
        rest = rest[4 + size :]
    return greeting, records


def forgeries(conversation: bytes) -> dict[str, bytes]:
    greeting, records = records_of(conversation)
    middle = len(greeting) + len(b"".join(records)) // 2
    return {
        "replayed": conversation,
        "reordered": greeting + b"".join(reversed(records)),
        "truncated": conversation[: len(greeting) + len(records[0]) - 3] + records[-1],
        "left out": greeting + b"".join(records[1:]),
        "flipped": conversation[:middle] + flip(conversation[middle : middle + 1]) + conversation[middle + 1 :],
    }


def test_a_running_node_refuses_a_captured_conversation_says_so_and_goes_on(tmp_path: Path) -> None:
    """Two nodes with somebody between them, who keeps what is said and tries everything with it."""

    async def main() -> None:
        paths = write_configs(tmp_path, "flooding", 2)
        ports = [load_config(path).links.port for path in paths]
        betweens = [Between(port) for port in ports]  # either may dial
        for port, between, path in zip(ports, betweens, reversed(paths), strict=True):
            await between.start()
            path.write_text(path.read_text().replace(f"port = {port}\n", f"port = {between.port}\n"))
        log: list[str] = []
        nodes = [LiveNode(load_config(path), system_named("flooding"), log.append) for path in paths]
        for node in reversed(nodes):  # the second is there when the first dials it, past whoever listens
            await node.start()
        await until(lambda: nodes[0].broker.links.connected == [1] and nodes[1].broker.links.connected == [0])
        got: list[Any] = []
        async with (
            MqttClient("127.0.0.1", nodes[1].ports["mqtt"], connect_packet("reader"), got.append) as reader,
            MqttClient("127.0.0.1", nodes[0].ports["mqtt"], connect_packet("writer"), got.append) as writer,
        ):
            await reader.subscribe("t", qos=1)
            for number in range(5):
                await writer.publish("t", SECRET + b"%d" % number, qos=1)
            await until(lambda: len(got) == 5)
            there = max((0, 1), key=lambda node: len(betweens[node].kept[0]))  # the one that was dialled
            conversation, peers, port = betweens[there].kept[0], nodes[there].peers, ports[there]
            assert SECRET[:28] not in b"".join(betweens[there].kept)
            assert len(records_of(conversation)[1]) >= 2
            for name, forged in forgeries(conversation).items():
                count, refused = len(log), peers.refused
                answer, line = await asyncio.open_connection("127.0.0.1", port)
                line.write(forged)
                await asyncio.wait_for(answer.read(), 10)  # its greeting, and then it hangs up
                line.close()
                await until(lambda: peers.refused == refused + 1)  # noqa: B023
                assert any("connection with " in one and " failed: " in one for one in log[count:]), name
                await writer.publish("t", name.encode(), qos=1)
                await until(lambda: got[-1].payload == name.encode())  # noqa: B023
            assert [one.payload for one in got[5:]] == [name.encode() for name in forgeries(conversation)]
        for node in nodes:
            await node.stop()
        for between in betweens:
            between.stop()

    run(main)
