"""Which functions have a message in their hands on its way through live nodes: the walks of docs/ARCHITECTURE.md.

Clients are bare sockets, so that nothing of ours runs on their side. A function counts if it has the payload in its
hands, however wrapped (`watching.Watcher`), of all messages of one run. `python -m tests.interop.walks` prints them.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import coterie
from tests.interop.fleet import Network, run
from tests.interop.watching import Hop, Watcher, in_short

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
            mark, hops = f"message-number-{number:02d}", dict[Hop, None]()
            watcher = Watcher(ROOT, mark, DEPTH, hops.setdefault)
            sys.setprofile(watcher if number >= MESSAGES else None)  # the first ones find everything as it will be
            try:
                await pair.send(mark.encode())
            finally:
                sys.setprofile(None)
            found.append(hops)
        pair.stop()
    return [hop for hop in found[MESSAGES] if all(hop in hops for hops in found[MESSAGES:])]


def walk(name: str) -> list[Hop]:
    with tempfile.TemporaryDirectory() as folder:
        hops: list[Hop] = run(lambda: hops_of(WALKS[name], Path(folder)))
        return hops


if __name__ == "__main__":
    for name in WALKS:
        hops = walk(name)
        print(f"{name}: {in_short(hops)}", *(f"  {hop.file} {hop.function}" for hop in hops), sep="\n")  # noqa: T201
