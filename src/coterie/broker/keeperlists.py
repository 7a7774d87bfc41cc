"""Who keeps copies for whom: every node says it of itself, everybody remembers, it and its keepers also on their disks.

A keeper that was replaced so learns that it does not speak for that node any more, and forgets its copy.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from coterie.broker.copies import HeldCopies
from coterie.broker.frames import KeptBy
from coterie.broker.members import is_beside
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import META, Saved

LIST = "kept by "
_pack = msgspec.msgpack.Encoder().encode


class KeeperLists:
    """See the module."""

    def __init__(self, node: int, copies: HeldCopies, talk: Talk, turn: Turn) -> None:
        self.of: dict[int, KeptBy] = {}
        self._node, self._copies, self._talk, self._turn = node, copies, talk, turn

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(META):
            if isinstance(key, str) and key.startswith(LIST):
                node, version, keepers = msgspec.msgpack.decode(value, type=tuple[int, int, tuple[int, ...]])
                self.of[node] = KeptBy(node, version, keepers)

    def keepers(self, node: int) -> tuple[int, ...]:
        said = self.of.get(node)
        return () if said is None else said.keepers

    def next_version(self, life: int) -> int:
        known = self.of.get(self._node)
        return max(life << 20, 0 if known is None else known.version) + 1

    def announce(self, said: KeptBy) -> None:
        self.of[self._node] = said
        self._keep(said)
        self._talk.flood(said)

    def hear(self, source: int, said: KeptBy) -> None:
        known = self.of.get(said.node)
        if said.node == self._node or (known is not None and known.version >= said.version):
            if source == said.node and known == said and self._node not in said.keepers:
                self._copies.drop(said.node)  # it came here while that node was away
            return
        was_keeper = known is not None and self._node in known.keepers
        self.of[said.node] = said
        self._talk.flood(said, but=source)
        if self._node in said.keepers:
            self._keep(said)
        elif known is None and source != said.node:
            pass  # who helped while that node was away, and was started since, may hear of what was before
        elif said.node in self._copies.of or was_keeper:
            self._turn.write(META, f"{LIST}{said.node}", None)
            self._copies.drop(said.node)

    def _keep(self, said: KeptBy) -> None:
        self._turn.write(META, f"{LIST}{said.node}", _pack((said.node, said.version, said.keepers)))

    def tell_all(self, peer: int) -> None:
        """To a new neighbour: all that is known."""
        for said in self.of.values():
            if said.node != peer:
                self._talk.tell(peer, said)


def rendezvous(node: int, zones: dict[int, str]) -> list[int]:
    """The other nodes in the order in which they keep for this one: other machines and zones first, then by a hash."""
    is_zoned = len(set(zones.values())) > 1

    def rank(peer: int) -> tuple[bool, bool, bytes]:
        is_near = is_zoned and zones[peer] == zones.get(node, "")
        return is_beside(peer, node), is_near, blake2b(f"{node} {peer}".encode(), digest_size=8).digest()

    return sorted((peer for peer in zones if peer != node), key=rank)
