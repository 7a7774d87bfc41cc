"""A few brokers joined by hand, for tests of what nodes keep and hand over for each other."""

from __future__ import annotations

from coterie.broker.facts import PeerSaid, PeerUp
from coterie.broker.frames import FrameReader
from coterie.broker.orders import Dial, Order, Tell
from coterie.broker.settings import DurabilitySection, NetworkSection, PeerEntry
from coterie.model.plan import Neighbour, Slice
from coterie.sim.world.board import SimBoard
from tests.broker.driving import Driven, setup


class Group:
    """Nodes that are all linked, and what they tell each other; nothing passes to and from those that are `cut` off.

    With `is_machine` they are processes of one machine, whose board is `board`. With `is_straight` what they say is
    offered the straight way first, and `landed` counts what took it.
    """

    def __init__(self, count: int = 2, system: str = "flooding", copies: int = 2, is_machine: bool = False) -> None:
        self.board = [0] * count
        machine = tuple(range(count)) if is_machine else ()
        nodes = range(count)
        network = NetworkSection(peers=[PeerEntry(id=node, host="h", port=1 + node) for node in nodes])
        durability = DurabilitySection(copies=copies)
        self.nodes = [
            Driven(setup(node, network=network, durability=durability, machine=machine, slice=Slice(
                version=0, system=system, node=node, neighbours=tuple(Neighbour(one) for one in nodes if one != node)
            )), board=SimBoard(self.board, node))
            for node in nodes
        ]  # fmt: skip
        self.is_straight, self.landed = False, 0
        self.cut: set[int] = set()
        self.said: list[tuple[int, int, list[bytes]]] = []
        self._readers = {(one, other): FrameReader() for one in nodes for other in nodes}
        for node, driven in enumerate(self.nodes):
            driven.on_order = lambda order, node=node: self._told(node, order)  # type: ignore[misc]
            for peer in nodes:
                if peer != node:
                    driven.take(PeerUp(peer))
        self.pass_on()

    def _told(self, node: int, order: Order) -> None:
        if isinstance(order, Tell):
            self.said.append((node, order.peer, order.chunks))
        assert not isinstance(order, Dial) or self.cut

    def pass_on(self) -> None:
        while self.pass_one():
            pass

    def pass_one(self) -> bool:
        """The oldest thing that may pass; False if there is none."""
        passing = next((one for one in self.said if not self.cut & {*one[:2]}), None)
        if passing is None:
            return False
        self.said.remove(passing)
        source, node, chunks = passing
        frames = self._readers[source, node].feed(b"".join(chunks))
        if self.is_straight and self.nodes[node].lands(source, frames):
            self.landed += 1
        else:
            self.nodes[node].take(PeerSaid(source, frames))
        return True

    def wait(self, duration_s: float) -> None:
        for _ in range(int(duration_s * 10)):
            for driven in self.nodes:
                driven.wait(0.1)
            self.pass_on()
