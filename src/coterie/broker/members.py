"""The list of members: who belongs to the network, by an epoch that rises with every change (decision 20)."""

from __future__ import annotations

from typing import Literal

import msgspec

from coterie.broker.commands import Setup
from coterie.errors import ConfigError
from coterie.protocol.wire import read_as

NUMBER_MAX = 4095  # identifiers of events hold the node in 12 bits
STRIDE = 512  # between the numbers of processes of one machine
TEXT_MAX = 255  # characters of a name, a host or a token: the list is told on every new link


def is_beside(node: int, other: int) -> bool:
    """Whether they are processes of one machine."""
    return node % STRIDE == other % STRIDE


class MemberEntry(msgspec.Struct, frozen=True, array_like=True):
    """One entry. `token` tells a node that has this number from others that would like it; founders have none."""

    id: int
    name: str = ""
    host: str = ""
    port: int = 0
    server: str = ""
    zone: str = ""
    token: str = ""
    state: Literal["in", "leaving", "removed"] = "in"

    def impossible(self) -> str:
        """Why nobody who asks to be a member can be this one; empty if it can."""
        if not 0 <= self.id <= NUMBER_MAX:
            return f"node.id {self.id} is not within 0 and {NUMBER_MAX}"
        if not self.host or not 0 < self.port < 65_536:
            return f"{self.host}:{self.port} is no address that others can dial; set links.host and links.port"
        if any(len(one) > TEXT_MAX for one in (self.name, self.host, self.server, self.zone, self.token)):
            return f"a name, host, server, zone or token of more than {TEXT_MAX} characters"
        return ""


class ListChange(msgspec.Struct, frozen=True):
    """What shall become of the list. `door` is who waits for the answer, if it came by one."""

    kind: Literal["join", "leave", "remove"]
    nodes: tuple[int, ...]
    member: MemberEntry | None = None
    is_forced: bool = False
    door: int = -1


class Members(msgspec.Struct, frozen=True, array_like=True):
    """See the module. `entries` are sorted by number; those that were removed stay."""

    epoch: int
    entries: tuple[MemberEntry, ...]

    def get(self, node: int) -> MemberEntry | None:
        return next((one for one in self.entries if one.id == node), None)

    @property
    def present(self) -> list[int]:
        return [one.id for one in self.entries if one.state != "removed"]

    def has(self, node: int) -> bool:
        found = self.get(node)
        return found is not None and found.state != "removed"

    def was_removed(self, node: int) -> bool:
        found = self.get(node)
        return found is not None and found.state == "removed"

    def next_number(self) -> int:
        return max((one.id for one in self.entries), default=-1) + 1

    def objection(self, change: ListChange) -> str:
        """Why this cannot be, whatever others say; empty if it can."""
        if change.kind != "join":
            unknown = [node for node in change.nodes if self.get(node) is None]
            return f"there is no node {unknown[0]}" if unknown else ""
        member = change.member
        assert member is not None
        found = self.get(member.id)
        if found is None:
            return member.impossible()
        if found.state == "removed":
            told = f"node {member.id} was removed, and no number is used twice"
            return f"{told}; set node.id = {self.next_number()} and use an empty data folder"
        if found.token != member.token:
            told = f"node {member.id} is a member already, with another data folder"
            return f"{told}; set node.id = {self.next_number()}, or `coterie remove {member.id}` if that one is dead"
        return ""

    def has_done(self, change: ListChange) -> bool:
        if change.kind == "join":
            assert change.member is not None
            found = self.get(change.member.id)
            return found is not None and msgspec.structs.replace(found, state="in") == change.member
        states = ("removed",) if change.kind == "remove" else ("leaving", "removed")
        return all(one.state in states for one in self.entries if one.id in change.nodes)

    def after(self, change: ListChange) -> Members:
        """The next list."""
        entries = {one.id: one for one in self.entries}
        if change.kind == "join":
            assert change.member is not None
            known = entries.get(change.member.id)
            state = "in" if known is None else known.state
            entries[change.member.id] = msgspec.structs.replace(change.member, state=state)
        else:
            state = "removed" if change.kind == "remove" else "leaving"
            for node in change.nodes:
                if entries[node].state != "removed":
                    entries[node] = msgspec.structs.replace(entries[node], state=state)
        return Members(self.epoch + 1, tuple(entries[node] for node in sorted(entries)))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Members).decode
_decode_member = msgspec.msgpack.Decoder(MemberEntry).decode


def pack_members(members: Members | MemberEntry) -> bytes:
    return _encode(members)


def unpack_members(data: bytes) -> Members:
    return read_as(_decode, data, "list of members")


def unpack_member(data: bytes) -> MemberEntry:
    return read_as(_decode_member, data, "member")


def founding(setup: Setup) -> Members:
    """Epoch 0: what the configuration says."""
    found = {
        peer.id: MemberEntry(peer.id, peer.name or f"node-{peer.id}", peer.host, peer.port, peer.server, peer.zone)
        for peer in setup.network.peers
    }
    own = found.get(setup.node) or MemberEntry(
        setup.node, "", setup.links.host, setup.links.port, "", setup.network.zone
    )
    found[setup.node] = msgspec.structs.replace(own, name=setup.name)
    return Members(0, tuple(found[node] for node in sorted(found)))


def check_removal(
    members: Members, node: int, keepers: tuple[int, ...], connected: list[int], is_forced: bool, own: int
) -> None:
    """What an operator is told who wants to remove a node; ConfigError if it cannot be."""
    if node == own:
        raise ConfigError("node", node, "another node than the one that is asked", do=f"`coterie drain {node}`")
    found = members.get(node)
    if found is None or found.state == "removed":
        there = ", ".join(map(str, members.present))
        raise ConfigError("node", node, f"a member: {there}" + ("" if found is None else " (it was removed before)"))
    if node in connected and not is_forced:
        told = "a node that is dead: this one is connected"
        raise ConfigError("node", node, told, do=f"`coterie drain {node}`; or --force, if it must go as it is")
    if keepers and not is_forced and not {own, *connected}.intersection(keepers):
        told = (
            f"one whose sessions somebody in reach can take over: copies are with node {', '.join(map(str, keepers))}"
        )
        raise ConfigError("node", node, told, do="bring one of these back; or --force, if they are lost")
