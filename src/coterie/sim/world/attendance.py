"""Who belongs to the network of a world: nodes that come later, leave, or are dead and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.broker.commands import Command, Drain, Remove
from coterie.broker.facts import Knocked
from coterie.broker.frames import CONTROL, FrameReader, decode_control, encode_control
from coterie.broker.members import MemberEntry, pack_members, unpack_members
from coterie.broker.membership import MEMBERS
from coterie.broker.said import AnswerJoin, AskJoin
from coterie.broker.writes import META
from coterie.sim.world.outages import Outages
from coterie.sim.world.record import Chronicle
from coterie.sim.world.scenario import Scenario
from coterie.sim.world.site import Site

AGAIN_US = 2_000_000
LAST_WORDS_US = 500_000
KNOWN_US = 2_000_000  # until everybody has heard of a newcomer and handed it what it is to keep
TRIES_MAX = 60


class Grounds(Protocol):
    """What a roster needs of the world."""

    now_us: int
    record: Chronicle
    scenario: Scenario
    sites: list[Site]
    gone: set[int]
    outages: Outages

    def at(self, time_us: int, action: Callable[[], None]) -> None: ...
    def command(self, node: int, command: Command) -> None: ...
    def fell(self, node: int, with_power: bool) -> None: ...
    def is_between(self, node: int, peer: int) -> bool: ...


class Attendance:
    """See the module. `unborn` have not joined yet, `leaving` were told to leave, `left` have; `removed` were dead."""

    def __init__(self, world: Grounds, nodes: int, late: int) -> None:
        self.unborn = set(range(nodes - late, nodes))
        self.leaving: set[int] = set()
        self.left: set[int] = set()
        self.removed: set[int] = set()
        self._world = world
        self._asking: dict[int, int] = {}  # newcomer -> tries
        self._came_us: dict[int, int] = {}  # newcomer -> when it became a member

    @property
    def present(self) -> list[int]:
        """Who can be a member, dead or not."""
        return [site.node for site in self._world.sites if site.node not in self.unborn | self.left]

    def members(self, node: int) -> list[int]:
        """The same, but for those that were removed, as far as that node knows."""
        return [one for one in self.present if not self.knows_removed(node, one)]

    def is_served(self, node: int) -> bool:
        """Whether clients should be there."""
        return node not in self.unborn | self.left | self.leaving

    def is_new(self, node: int, when_us: int) -> bool:
        """Whether others need not have known it then as one that can keep something for them: it may have fallen
        before they did."""
        down_us = self._world.outages.since_us(f"node {node}")
        seen_us = when_us if down_us < 0 else min(when_us, down_us)
        return seen_us < self._came_us.get(node, -KNOWN_US) + KNOWN_US

    def near(self, node: int) -> int:
        """Where a client goes that wants to that node: a load balancer does the same."""
        nodes = [site.node for site in self._world.sites]
        order = [(node + step) % len(nodes) for step in range(len(nodes))]
        return next((one for one in order if self.is_served(one)), node)

    # --- joining ---

    def enlist(self, node: int, via: int) -> None:
        if node not in self.unborn:
            return
        world, tries = self._world, self._asking.get(node, 0)
        self._asking[node] = tries + 1
        order = [one for one in self.present if one not in world.gone]
        asked = order[((order.index(via) if via in order else 0) + tries) % len(order)] if order else -1
        if tries < TRIES_MAX:
            world.at(world.now_us + AGAIN_US, lambda: self.enlist(node, via))
        if asked >= 0 and not world.is_between(node, asked):
            member = MemberEntry(node, f"node-{node}", "node", node + 1, f"node:{node}", "", f"token {node}")
            frames = [(CONTROL, encode_control(AskJoin(pack_members(member))))]
            world.sites[asked].step(Knocked(node, node, frames))

    def answer(self, node: int, door: int, data: bytes) -> None:
        """A member's word to a newcomer: with the list on its disk it starts."""
        world = self._world
        said = decode_control(FrameReader().feed(data)[0][1])
        if door not in self.unborn or not isinstance(said, AnswerJoin):
            return
        if said.reason:
            world.record.violate("joins", f"node {door} was refused by node {node}: {said.reason}")
            return
        unpack_members(said.members)
        self.unborn.discard(door)
        self._came_us[door] = world.now_us
        site = world.sites[door]
        site.disk.make_safe(site.disk.hand_over([(META, MEMBERS, said.members)]), world.now_us)
        site.start()

    # --- leaving ---

    def retire(self, node: int) -> None:
        """Told again after a crash, for nobody may have heard it the first time."""
        if self.is_served(node) or node in self.leaving:
            self.leaving.add(node)
            self._world.command(node, Drain())

    def has_left(self, node: int) -> None:
        world = self._world
        if node not in self.left:
            self.left.add(node)
            self.leaving.discard(node)
            world.at(world.now_us + LAST_WORDS_US, lambda: world.fell(node, False))

    def dismiss(self, node: int, tries: int = 0) -> None:
        """The operator tries until it is done."""
        world = self._world
        if node not in world.gone or tries >= TRIES_MAX:
            return
        order = [one for one in self.present if one not in world.gone]
        if order:
            asked = order[tries % len(order)]
            if self.knows_removed(asked, node):
                self.removed.add(node)
                return
            world.command(asked, Remove(node))
        world.at(world.now_us + AGAIN_US, lambda: self.dismiss(node, tries + 1))

    def knows_removed(self, asked: int, node: int) -> bool:
        members = getattr(getattr(self._world.sites[asked].broker, "membership", None), "members", None)
        return members is not None and members.was_removed(node)

    @property
    def silent(self) -> set[int]:
        """Who never answers again and has not been removed; or has left, and all who knew are gone."""
        there = [one for one in self.present if one not in self._world.gone]
        untold = {node for node in self.left if not any(self.knows_removed(one, node) for one in there)}
        return (self._world.gone - self.removed - self.left) | untold

    # --- in the end ---

    def heal(self) -> None:
        for node in sorted(self.leaving):
            self.retire(node)

    def missing(self) -> list[tuple[str, str]]:
        """Who wanted to come and is not there, and who had to go and is; unless there was no majority for it."""
        dead = self._world.gone - self.left
        if 2 * len(dead) >= len(self.present):
            return []
        late = [("joins", f"node {node} never became a member") for node in sorted(self.unborn & self._asking.keys())]
        staying = [node for node in sorted(self.leaving - dead) if self._can_leave(node, dead - self.removed)]
        return late + [("leaves", f"node {node} never left") for node in staying]

    def judge(self) -> None:
        for rule, text in self.missing():
            self._world.record.violate(rule, text)

    def _can_leave(self, node: int, dead: set[int]) -> bool:
        """Whether others can take over what it has while these are dead and nobody has removed them.

        A session goes to where it is known that no silent node has a newer one, and a log to as many as are to have it.
        """
        spare = self._world.scenario.copies - 1
        others = [one for one in self.present if one != node and one not in dead | self.removed | self.leaving]
        return bool(others) and (not dead or (len(dead) <= spare <= len(others)))
