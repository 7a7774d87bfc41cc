"""Whom to ask for what was missed: its origin, and while that is away, those who keep copies for it."""

from __future__ import annotations

from coterie.broker.copies import HeldCopies
from coterie.broker.frames import AskDigest, Want
from coterie.broker.keeperlists import KeeperLists
from coterie.broker.links import PeerLinks
from coterie.broker.talk import Talk


class Asking:
    """See the module."""

    def __init__(self, node: int, links: PeerLinks, talk: Talk, copies: HeldCopies, lists: KeeperLists) -> None:
        self._node, self._links, self._talk, self._copies, self._lists = node, links, talk, copies, lists

    @property
    def is_heard(self) -> bool:
        """Whether what is asked leaves at once: else it waits for this node's disk."""
        return self._links.persisted >= self._links.held_batch

    def want(self, origin: int, asked: list[int], teller: int = -1) -> tuple[bool, list[bytes]]:
        """Ask for these events, of which `teller` told; (whether somebody could be asked, those that are kept here)."""
        said, found = Want(tuple(asked)), []
        is_asked = self._talk.tell(origin, said)
        tellers = () if teller in (-1, origin) else (teller,)
        for keeper in dict.fromkeys((*self._stand_ins(origin), *tellers)):
            if keeper != self._node:
                is_asked |= self._talk.tell(keeper, said)
                continue
            bodies = [self._copies.body(identifier) for identifier in asked]
            found = [body for body in bodies if body is not None]
            is_asked = True
        return is_asked, found

    def digest(self, origin: int, ago_us: int) -> None:
        """Ask what it published."""
        self._talk.tell(origin, AskDigest(ago_us))
        for keeper in self._stand_ins(origin):
            if keeper != self._node:
                self._talk.tell(keeper, AskDigest(ago_us, origin))

    def _stand_ins(self, origin: int) -> tuple[int, ...]:
        return () if self._links.is_connected(origin) else self._lists.keepers(origin)
