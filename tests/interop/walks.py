"""Which functions have a message in their hands on its way through live nodes: the walks of docs/ARCHITECTURE.md.

Clients are bare sockets, so that nothing of ours runs on their side. A function counts if the payload is in what it is
given, in what it calls by a name, in what it returns, or in an attribute of its object that it uses, however wrapped;
a function that all of the messages of one run passed. `python -m tests.interop.walks` prints them.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import coterie
from tests.interop.fleet import Network, run

ROOT = f"{Path(coterie.__file__).parent}/"
MESSAGES, DEPTH = 3, 3


class WalkKind(NamedTuple):
    """How many nodes, at which QoS, and kept by how many (0: as the version has it)."""

    nodes: int
    qos: int
    copies: int = 0


WALKS = {
    "from node to node": WalkKind(2, 1, 1),
    "kept by another node": WalkKind(2, 1, 2),
    "within one node": WalkKind(1, 0),
}


class Hop(NamedTuple):
    file: str
    function: str


def holds(value: Any, mark: bytes, depth: int = DEPTH) -> bool:
    """Whether the mark is in it, as bytes, behind at most so many layers of lists and records."""
    if isinstance(value, bytes | bytearray | memoryview):
        return mark in bytes(value)
    if depth == 0:
        return False
    if isinstance(value, list | tuple):
        return any(holds(one, mark, depth - 1) for one in value)
    if isinstance(value, dict):
        return any(holds(one, mark, depth - 1) for one in value.values())
    fields = getattr(type(value), "__struct_fields__", None) or getattr(type(value), "__dataclass_fields__", ())
    return any(holds(getattr(value, name, None), mark, depth - 1) for name in fields)


class Watcher:
    """A profile function that notes hops, in the order in which the message first came by."""

    def __init__(self, mark: bytes) -> None:
        self.hops: dict[Hop, None] = {}
        self._mark = mark

    def __call__(self, frame: FrameType, what: str, value: Any) -> None:
        code = frame.f_code
        is_inner = (
            code.co_name.startswith("<") and code.co_name != "<lambda>"
        )  # a comprehension is a part of its function
        if what not in ("call", "return") or is_inner or not code.co_filename.startswith(ROOT):
            return
        hop = Hop(code.co_filename[len(ROOT) :], code.co_qualname)
        if hop not in self.hops and self._has(frame, value):
            self.hops[hop] = None

    def _has(self, frame: FrameType, value: Any) -> bool:
        names = dict(frame.f_locals)
        own = names.pop("self", None)
        used = [getattr(own, name, None) for name in frame.f_code.co_names if name in _attributes(own)]
        return any(holds(one, self._mark) for one in (*names.values(), value)) or any(
            holds(one, self._mark, 2) for one in used
        )


def _attributes(own: Any) -> Any:
    return getattr(own, "__dict__", None) or getattr(type(own), "__slots__", ())


def connect(name: bytes) -> bytes:
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name
    return bytes((0x10, len(body))) + body


class Pair:
    """A publisher at the first node and a subscriber at the last one, at this QoS."""

    def __init__(self, network: Network, qos: int) -> None:
        self._network, self._qos, self._number = network, qos, 0

    async def start(self) -> None:
        last = len(self._network.nodes) - 1
        self._in, self._answers = await asyncio.open_connection("127.0.0.1", self._network.port(last))
        self._answers.write(connect(b"subscriber"))
        await self._in.readexactly(4)
        self._answers.write(b"\x82\x06\x00\x01\x00\x01t" + bytes((self._qos,)))
        await self._in.readexactly(5)
        self._said, self._out = await asyncio.open_connection("127.0.0.1", self._network.port(0))
        self._out.write(connect(b"publisher"))
        await self._said.readexactly(4)
        await asyncio.sleep(0.3)  # links and interest have settled

    async def send(self, payload: bytes) -> None:
        self._number += 1
        identifier = self._number.to_bytes(2, "big") if self._qos else b""
        body = b"\x00\x01t" + identifier + payload
        self._out.write(bytes((0x30 | self._qos << 1, len(body))) + body)
        got = await self._in.readexactly(2 + len(body))
        if self._qos:
            await self._said.readexactly(4)
            self._answers.write(b"\x40\x02" + got[5:7])
        await asyncio.sleep(0.05)

    def stop(self) -> None:
        self._answers.close()
        self._out.close()


async def hops_of(kind: WalkKind, folder: Path) -> list[Hop]:
    extra = {"durability": {"copies": kind.copies}} if kind.copies else {}
    found: list[dict[Hop, None]] = []
    async with Network(folder, "flooding", kind.nodes, **extra) as network:
        pair = Pair(network, kind.qos)
        await pair.start()
        for number in range(2 * MESSAGES):
            mark = f"message-number-{number:02d}".encode()
            watcher = Watcher(mark)
            sys.setprofile(watcher if number >= MESSAGES else None)  # the first ones find everything as it will be
            try:
                await pair.send(mark)
            finally:
                sys.setprofile(None)
            found.append(watcher.hops)
        pair.stop()
    return [hop for hop in found[MESSAGES] if all(hop in hops for hops in found[MESSAGES:])]


def walk(name: str) -> list[Hop]:
    with tempfile.TemporaryDirectory() as folder:
        hops: list[Hop] = run(lambda: hops_of(WALKS[name], Path(folder)))
        return hops


def in_short(hops: list[Hop]) -> str:
    return f"{len(hops)} functions in {len({hop.file for hop in hops})} files"


if __name__ == "__main__":
    for name in WALKS:
        hops = walk(name)
        print(f"{name}: {in_short(hops)}", *(f"  {hop.file} {hop.function}" for hop in hops), sep="\n")  # noqa: T201
