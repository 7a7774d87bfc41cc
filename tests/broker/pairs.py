"""Two brokers joined by hand, for tests of what nodes keep and hand over for each other."""

from __future__ import annotations

from coterie.broker.facts import PeerSaid, PeerUp
from coterie.broker.frames import FrameReader
from coterie.broker.orders import Dial, Order, Tell
from coterie.broker.settings import NetworkSection, PeerEntry
from coterie.model.plan import Neighbour, Slice
from tests.broker.driving import Driven, setup

PEERS = [PeerEntry(id=node, host="h", port=1 + node) for node in (0, 1)]


class Pair:
    """Two nodes and what they tell each other; nothing passes while `is_cut`."""

    def __init__(self, system: str = "flooding") -> None:
        parts = [
            Slice(version=0, system=system, node=node, neighbours=(Neighbour(1 - node),)) for node in (0, 1)
        ]  # fmt: skip
        self.nodes = [Driven(setup(part.node, network=NetworkSection(peers=PEERS), slice=part)) for part in parts]
        self.is_cut = False
        self._said: list[tuple[int, list[bytes]]] = []
        self._readers = [FrameReader(), FrameReader()]
        for node, driven in enumerate(self.nodes):
            driven.on_order = lambda order, node=node: self._told(node, order)  # type: ignore[misc]
            driven.take(PeerUp(1 - node))
        self.pass_on()

    def _told(self, node: int, order: Order) -> None:
        if isinstance(order, Tell):
            self._said.append((1 - node, order.chunks))
        assert not isinstance(order, Dial) or self.is_cut

    def pass_on(self) -> None:
        while self._said and not self.is_cut:
            node, chunks = self._said.pop(0)
            frames = self._readers[node].feed(b"".join(chunks))
            self.nodes[node].take(PeerSaid(1 - node, frames))

    def wait(self, duration_s: float) -> None:
        for _ in range(int(duration_s * 10)):
            for driven in self.nodes:
                driven.wait(0.1)
            self.pass_on()
