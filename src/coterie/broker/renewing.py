"""The plan that a network makes for itself is made anew when members have come or gone.

Without anybody's plan a network works by what its system makes for nodes of which nothing is known yet. Once the list
of members has been calm for `network.renew_s`, its first member makes that again for those who are in, hands each its
part over the links, and changes the network over as `coterie apply` does (see `planes`): all *load*, all *start*, and
when the new structures are complete everywhere, *switch*. It asks again until everybody has answered; whatever comes in
between (the list changes, somebody applies a plan, a node is away for too long), what was begun is dropped and nothing
has changed. A plan that somebody applied stays: the next one is theirs to make.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from coterie.broker.commands import Setup
from coterie.broker.frames import PlanInForce
from coterie.broker.links import PeerLinks
from coterie.broker.members import MemberEntry, Members
from coterie.broker.membership import Membership
from coterie.broker.planes import ControlPlanes
from coterie.broker.recovery import Recovery
from coterie.broker.said import AboutRenewal, OfferPlan, PlanStands
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.errors import ConfigError
from coterie.model.plan import COORDINATOR, renumbered, slices
from coterie.model.workload import nobody_yet
from coterie.plans.orders import PlanPart
from coterie.protocol.wire import read_as

RENEW_TIMER = "renew"
LOOK_S = 1.0
DOUBLED_MAX = 8
BUILD_S = 60.0  # what is not complete by then is dropped, and tried again later
# An operator who applies a plan meanwhile counts on by one: what is under way of the two is never taken for the other.
AHEAD = 2

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlanPart).decode


def first_of(members: Members) -> int:
    """Who renews: a founder before one that joined, for it has a place in the plan."""
    there = [one for one in members.entries if one.state == "in"]
    return min(there, key=lambda one: (bool(one.token), one.id)).id if there else -1


class Renewing:
    """See the module. `phase` is what everybody is asked for at present, and empty while nothing of it happens."""

    def __init__(
        self, setup: Setup, membership: Membership, planes: ControlPlanes, recovery: Recovery, links: PeerLinks,
        talk: Talk, turn: Turn,
    ) -> None:  # fmt: skip
        self.phase: Literal["", "load", "start"] = ""
        self._setup, self._node, self._membership, self._planes = setup, setup.node, membership, planes
        self._recovery, self._links, self._talk, self._turn = recovery, links, talk, turn
        self._generation = 0
        self._parts: dict[int, bytes] = {}
        self._done: set[int] = set()
        self._calm_s = self._begun_s = 0.0
        self._refused = 0  # times in a row: each is waited for twice as long as the last
        self._is_looking = False

    def switch(self, generation: int) -> None:
        """Publish by the plan that is ready, and tell everybody to do so.

        Logs are compared as after any disturbance: a structure that was not complete after all loses nothing.
        """
        if self._planes.switch(generation):
            self._talk.flood(PlanInForce(generation))
            self._recovery.disturb(self._turn.now_us)

    # --- the first member ---

    def set_members(self) -> None:
        """The list is another one from now on."""
        self._calm_s, self._refused = self._turn.now_s, 0
        self._give_up()
        self._look_later()

    @property
    def _nodes(self) -> tuple[int, ...]:
        """For whom a plan would be made now; nobody while somebody is leaving."""
        entries = [one for one in self._membership.members.entries if one.state != "removed"]
        return tuple(one.id for one in entries) if all(one.state == "in" for one in entries) else ()

    @property
    def is_wanted(self) -> bool:
        """Whether it is up to this node, and there is anything to do."""
        made_for, nodes = self._planes.part.made_for, self._nodes
        is_first = first_of(self._membership.members) == self._node
        return bool(self._setup.network.renew_s and is_first and made_for and nodes and made_for != nodes)

    def _look_later(self) -> None:
        if not self._is_looking and self.is_wanted:
            self._is_looking = True
            self._turn.set_timer((RENEW_TIMER,), LOOK_S)

    def look(self) -> None:
        self._is_looking = False
        if self.phase:
            self._go_on()
        elif self.is_wanted and not self._is_somebodys(self._planes.next_part):
            self._begin()
        self._look_later()

    @staticmethod
    def _is_somebodys(part: PlanPart | None) -> bool:
        """Whether an operator has loaded it."""
        return part is not None and not part.made_for

    def _others(self) -> list[int]:
        return [node for node in self._nodes if node != self._node]

    def _begin(self) -> None:
        others, planes = self._others(), self._planes
        if missing := [node for node in others if not self._links.is_connected(node)]:
            self._links.want(missing)
            return
        if self._turn.now_s - self._calm_s < self._setup.network.renew_s * 2 ** min(self._refused, DOUBLED_MAX):
            return
        known = (self._generation, planes.generation, planes.outdated_by, getattr(planes.next_part, "generation", 0))
        self._generation = AHEAD + max(known)
        parts = self._made()
        self._parts = {part.slice.node: _encode(part) for part in parts}
        planes.load(next(part for part in parts if part.slice.node == self._node))
        self.phase, self._done, self._begun_s = "load", set(), self._turn.now_s
        self._turn.say(f"a plan is made for the {len(parts)} nodes that are members now")
        self._ask()

    def _made(self) -> list[PlanPart]:
        network, nodes = self._setup.network, self._nodes
        entries: list[MemberEntry] = [one for one in self._membership.members.entries if one.id in nodes]
        system = self._setup.system_named(network.system)
        there = nobody_yet(len(nodes), [one.zone for one in entries])
        settings = network.settings
        if COORDINATOR in system.parameters.__struct_fields__:  # plans count those who are in
            asked = getattr(system.configure(settings), COORDINATOR)
            settings = settings | {COORDINATOR: nodes.index(asked) if asked in nodes else 0}
        design = system.plan(there, system.configure(settings), network.seed)
        return [
            PlanPart(
                generation=self._generation, slice=renumbered(part, nodes), settings=network.settings, made_for=nodes
            )
            for part in slices(design)
        ]

    def _ask(self) -> None:
        for node in self._others():
            if node not in self._done and self.phase:
                part = self._parts[node] if self.phase == "load" else b""
                self._talk.tell(node, OfferPlan(self._generation, self.phase, part))

    def _go_on(self) -> None:
        planes, others = self._planes, self._others()
        if getattr(planes.next_part, "generation", 0) != self._generation:  # an operator has loaded another one
            self.phase = ""
        elif self._turn.now_s - self._begun_s > BUILD_S:
            missing = ", ".join(str(node) for node in others if node not in self._done)
            self._turn.say(f"the plan for {len(others) + 1} nodes is not complete after {BUILD_S:g} s: node {missing}")
            self._give_up()
        elif not self._done.issuperset(others):
            self._links.want([node for node in others if not self._links.is_connected(node)])
            self._ask()
        elif self.phase == "load":
            self.phase, self._done = "start", set()
            planes.start(self._generation)
            self._ask()
        elif planes.is_ready:
            self.phase = ""
            self.switch(self._generation)

    def _give_up(self) -> None:
        if not self.phase:
            return
        self.phase, self._calm_s = "", self._turn.now_s
        for node in self._parts:
            if node != self._node:
                self._talk.tell(node, OfferPlan(self._generation, "drop", b""))
        self._drop(self._generation)

    # --- everybody ---

    def _drop(self, generation: int) -> None:
        if self._planes.next_part is not None and self._planes.next_part.generation == generation:
            self._planes.drop()

    def hear(self, peer: int, said: AboutRenewal) -> None:
        match said:
            case OfferPlan():
                self._take(peer, said)
            case PlanStands():
                if (said.generation, said.phase) != (self._generation, self.phase):
                    return
                if said.reason:
                    self._turn.say(f"node {peer} does not take the plan for the members there are: {said.reason}")
                    self._refused += 1
                    self._give_up()
                elif said.is_done:
                    self._done.add(peer)

    def _take(self, peer: int, said: OfferPlan) -> None:
        """Asked for the same again, it answers the same."""
        planes, generation = self._planes, said.generation
        reason, is_done = "", True
        try:
            if said.phase == "drop":
                self._drop(generation)
                return
            is_here = planes.next_part is not None and planes.next_part.generation == generation
            if said.phase == "load" and not is_here and planes.generation != generation:
                if self._is_somebodys(planes.next_part):
                    raise ConfigError("plan", generation, "none beside the one that an operator applies")
                planes.load(read_as(_decode, said.part, "part of a plan"))
            elif said.phase == "start" and planes.generation != generation:
                planes.start(generation)
                is_done = planes.is_ready
        except ConfigError as error:
            reason, is_done = str(error), False
        self._talk.tell(peer, PlanStands(generation, said.phase, is_done, reason))
