"""A node that joined, and from when on it takes clients."""

from __future__ import annotations

import msgspec

from coterie.broker.facts import PeerSaid, PeerUp
from coterie.broker.frames import CONTROL, encode_control
from coterie.broker.leaf import leaf_slice
from coterie.broker.members import MemberEntry, Members, pack_members
from coterie.broker.membership import KNOWN_S, MEMBERS
from coterie.broker.said import KnowsMembers, ListOfMembers, Said
from coterie.broker.writes import META
from tests.broker.driving import Driven, setup
from tests.broker.shelf import MemoryShelf

FOUNDERS = [MemberEntry(node, f"n{node}", "h", 1 + node) for node in range(2)]
NEW = MemberEntry(2, "n2", "h", 3, token="its token")
JOINED = Members(1, (*FOUNDERS, NEW))
LATER = Members(2, (FOUNDERS[0], msgspec.structs.replace(FOUNDERS[1], state="leaving"), NEW))


def says(node: Driven, said: Said) -> None:
    """Node 0 does, whom it has a link to."""
    node.take(PeerSaid(0, [(CONTROL, encode_control(said))]))


def newcomer() -> Driven:
    """Node 1 is away; with node 0 and itself that is a majority."""
    shelf = MemoryShelf()
    shelf.tables[META][MEMBERS] = pack_members(JOINED)
    node = Driven(setup(2, slice=leaf_slice(2), may_grow=True), shelf)
    node.take(PeerUp(0))
    return node


def test_a_newcomer_takes_clients_when_most_know_it() -> None:
    node = newcomer()
    node.wait(KNOWN_S + 1)
    assert not node.broker.membership.is_settled
    says(node, KnowsMembers(1))
    assert node.broker.membership.is_settled


def test_who_tells_a_list_knows_it() -> None:
    """It is answered, and says no more about it: the newcomer waited for ever for its word."""
    node = newcomer()
    node.wait(KNOWN_S + 1)
    says(node, ListOfMembers(pack_members(LATER)))
    assert node.broker.membership.is_settled


def test_who_tells_an_older_list_does_not_know_the_newcomer() -> None:
    node = newcomer()
    node.wait(KNOWN_S + 1)
    says(node, ListOfMembers(pack_members(Members(0, tuple(FOUNDERS)))))
    assert not node.broker.membership.is_settled
