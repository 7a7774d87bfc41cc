"""Two control planes: the plan in use, and beside it the one that is being built or the one that is emptied.

How a network changes plans without losing a message, whatever systems it goes from and to: every node is handed its
part of the new plan (*load*); then all start it (*start*), as a second plane beside the one in use, and everything
wanted is subscribed in both; when the new structures are complete everywhere, one node is told to publish by the new
plan (*switch*), which spreads by flood; what is still under way in the old plane arrives there, and some time later
nothing of it is left. An event travels in one plane only, so nothing comes twice. Until the switch all can be dropped
without a trace. Going back is a change to the older plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import msgspec

from coterie.accounting.tally import COPIES
from coterie.broker.cascades import Cascades
from coterie.broker.commands import Setup
from coterie.broker.counts import Counts
from coterie.broker.detours import Detours
from coterie.broker.leaf import LEAF, LeafPlane
from coterie.broker.leafbook import LeafBook, PassingOn
from coterie.broker.links import PeerLinks
from coterie.broker.plane import LocalReceiver, Plane
from coterie.broker.turn import Turn
from coterie.broker.writes import PLAN, Saved
from coterie.errors import ConfigError
from coterie.model.plan import COORDINATOR, Topic
from coterie.plans.orders import PlanPart
from coterie.trace import Traffic

DRAIN_S = 10.0  # how long the old plane still passes on what is under way in it
QUIET_S = 1.5  # a new plane that sent nothing to build itself for so long is complete
RETIRE_TIMER = "retire"
KEPT = "kept"


class KeptPlans(msgspec.Struct, frozen=True, kw_only=True):
    """What a node remembers across restarts; `base` names the first plan, for a new first plan makes it void."""

    base: str
    in_use: PlanPart
    next: PlanPart | None = None


def _founders(setup: Setup) -> tuple[int, ...]:
    return tuple(sorted({setup.node, *(peer.id for peer in setup.network.peers)}))


class ControlPlanes:
    """See the module. `in_use` is the one by which this node publishes."""

    def __init__(
        self, setup: Setup, links: PeerLinks, cascades: Cascades, detours: Detours, receiver: LocalReceiver,
        leaves: LeafBook, counts: Counts, turn: Turn,
    ) -> None:  # fmt: skip
        self._counts, self._leaves = counts, leaves
        self._setup, self._links, self._cascades, self._detours = setup, links, cascades, detours
        self._receiver, self._turn = receiver, turn
        self.part = PlanPart(generation=0, slice=setup.slice, settings=setup.network.settings)
        self._base = sha256(msgspec.json.encode(self.part)).hexdigest()
        if setup.network.renew_s and setup.slice.system != LEAF.name:
            self.part = msgspec.structs.replace(self.part, made_for=_founders(setup))
        self.in_use = self._make(self.part)
        self.next_part: PlanPart | None = None
        self.next: Plane | None = None
        self.before = Counts()  # as counts stood when the plan in use came into force
        self.outdated_by = 0  # a generation in force elsewhere that this node was never given
        self.dropped_count = 0  # messages of plans that are not known here
        self.retired_sent: Counter[Traffic] = Counter()
        self.retired_copies: Counter[str] = Counter()
        self._is_entered = False  # the next one's first cascade is over
        self._old: list[Plane] = []
        self._since_s = 0.0

    def load_saved(self, saved: Saved) -> None:
        """Before anything is started: go on with the plan that was in force, unless the first plan is a new one."""
        self._since_s = self._turn.now_s
        for _, value in saved.rows(PLAN):
            kept = msgspec.msgpack.decode(value, type=KeptPlans)
            if kept.base == self._base:
                self.part, self.next_part = kept.in_use, kept.next
                self.in_use = self._make(self.part)
                self.next = None if self.next_part is None else self._make(self.next_part)
                if self.next_part is not None and isinstance(self.in_use, LeafPlane):
                    self.in_use.planned(self.next_part.generation)

    def _make(self, part: PlanPart) -> Plane:
        slice_, network = part.slice, self._setup.network
        if slice_.node != self._setup.node:
            raise ConfigError("plan", f"node {slice_.node}", f"the part of node {self._setup.node}")
        receiver = PassingOn(part.generation, self._receiver, self._leaves)
        if slice_.system == LEAF.name:
            self._detours.is_leaf = True
            return LeafPlane(
                slice_, part.generation, self._links, self._cascades, self._detours, receiver, self._turn
            )  # fmt: skip
        system = self._setup.system_named(slice_.system)
        # What the operator has set for this network (heartbeats, say) holds for every system that has such a setting.
        names = system.parameters.__struct_fields__
        chosen = part.settings | {key: value for key, value in network.settings.items() if key in names}
        if (
            COORDINATOR in slice_.settings
            and COORDINATOR in names
            and (part.made_for or COORDINATOR not in network.settings)
        ):
            chosen[COORDINATOR] = slice_.settings[COORDINATOR]  # one of those that this plan is for
        return Plane(
            system, system.configure(chosen), slice_, network.seed, part.generation, self._links, self._cascades,
            self._detours, receiver, self._turn,
        )  # fmt: skip

    @property
    def generation(self) -> int:
        return self.part.generation

    @property
    def in_force_s(self) -> float:
        return self._turn.now_s - self._since_s

    def running(self) -> Iterator[Plane]:
        yield self.in_use
        if self.next is not None and self.next.is_started:
            yield self.next
        yield from self._old

    # --- facts for all of them ---

    def subscribe(self, topic: Topic) -> None:
        self._leaves.local[topic] = None
        self.hold(topic)

    def unsubscribe(self, topic: Topic) -> None:
        self._leaves.local.pop(topic, None)
        if topic not in self._leaves.leaves_of:
            self.release(topic)

    def hold(self, topic: Topic) -> None:
        """Somebody wants it, here or at a leaf."""
        for plane in self.running():
            plane.subscribe(topic)

    def release(self, topic: Topic) -> None:
        """Nobody does any more."""
        for plane in self.running():
            plane.unsubscribe(topic)

    def lose(self, peer: int) -> None:
        for plane in list(self.running()):
            plane.lose(peer)

    def tagged(self, tag: bytes) -> Plane | None:
        """Whose message begins with this; it is counted if nobody's does.

        A plan that a peer has started already is started here too.
        """
        if tag == self.in_use.tag:
            return self.in_use
        if self.next is not None and tag == self.next.tag:
            self._begin()
            return self.next
        for plane in self._old:
            if tag == plane.tag:
                return plane
        self.dropped_count += 1
        return None

    def links(self) -> set[int]:
        found: set[int] = set()
        for plane in self.running():
            found |= set(plane.state().links)
        return found.intersection(self._links.peers) if found else found  # a plan may name who is no member any more

    # --- changing over ---

    def load(self, part: PlanPart) -> None:
        if part.generation <= self.generation:
            raise ConfigError("generation", part.generation, f"more than {self.generation}, which is in force")
        plane = self._make(part)  # what does not fit is told before anything is given up
        self.drop()
        self.next_part, self.next = part, plane
        if isinstance(self.in_use, LeafPlane):
            self.in_use.planned(part.generation)
        self._keep()

    def start(self, generation: int) -> None:
        self._expect(generation)
        self._begin()

    def _begin(self) -> None:
        """Start the next plan beside the one in use; everything wanted is wanted there too."""
        plane = self.next
        if plane is None or plane.is_started:
            return
        self._is_entered = False

        def entered() -> None:
            self._is_entered |= self.next is plane

        outer = self._cascades.current  # a peer's message may have brought us here; it waits for its own effects only
        cascade = self._cascades.begin(entered, self._turn.now_s)
        plane.start()
        for topic in list(self.in_use.wanting):
            plane.subscribe(topic)
        self._cascades.end(cascade)
        self._cascades.current = outer
        self._links.want(sorted(self.links()))

    @property
    def is_ready(self) -> bool:
        """Whether the next plan's structures are complete as far as this node can tell."""
        plane = self.next
        if plane is None or not plane.is_started or not self._is_entered:
            return False
        return not plane.pending and self._turn.now_s - plane.built_s >= QUIET_S

    def switch(self, generation: int) -> bool:
        """Publish by the next plan from now on; False if it is in force already."""
        if generation == self.generation:
            return False
        self._expect(generation)
        assert self.next is not None
        assert self.next_part is not None
        self._begin()
        old = self.in_use
        self.part, self.in_use, self.next_part, self.next = self.next_part, self.next, None, None
        old.is_in_use = False
        for topic in old.pending:
            self._detours.settle(str(topic))
        self.in_use.enter_use()
        self._since_s = self._turn.now_s
        self.outdated_by = 0
        self._keep()
        self._old.append(old)
        self._turn.set_timer((RETIRE_TIMER, old.generation), DRAIN_S)
        self.before = replace(self._counts)
        count = len(self.part.made_for)
        which = f"the network's own plan for {count} nodes" if count else f"plan {self.in_use.slice.version}"
        self._turn.say(f"{which} is in force")
        return True

    def hear(self, generation: int) -> bool:
        """Another node publishes by this generation; True if this one does so from now on, and should pass it on."""
        if generation <= self.generation:
            return False
        if self.next_part is not None and self.next_part.generation == generation:
            return self.switch(generation)
        if isinstance(self.in_use, LeafPlane):  # it does not name this node either
            self.part = msgspec.structs.replace(self.part, generation=generation)
            self._keep()
            return True
        self.outdated_by = generation
        return False

    def drop(self) -> None:
        """Forget the plan that was loaded."""
        plane, self.next, self.next_part = self.next, None, None
        if plane is not None:
            plane.stop()
            self._book(plane)
            self._keep()

    def _expect(self, generation: int) -> None:
        if self.next_part is None or self.next_part.generation != generation:
            raise ConfigError("generation", generation, "the one that was loaded last")

    def on_retire(self, generation: int) -> None:
        for plane in [one for one in self._old if one.generation == generation]:
            self._old.remove(plane)
            plane.stop()
            self._book(plane)
        # Links that only the plan before needed are not kept.
        self._links.release_idle(self.links(), DRAIN_S / 2)

    def on_timer(self, generation: int, name: tuple[str | int, ...]) -> None:
        for plane in list(self.running()):
            if plane.generation == generation:
                plane.on_timer(name)

    def on_unreachable(self, generation: int, peer: int) -> None:
        for plane in list(self.running()):
            if plane.generation == generation:
                plane.lose(peer)

    def _book(self, plane: Plane) -> None:
        self.retired_sent.update(plane.sent)
        for name in COPIES:
            self.retired_copies[name] += int(getattr(plane.tally, name))

    def resume(self) -> None:
        """After a restart in the middle of a change the others may be waiting for this node."""
        if self.next is not None:
            self._begin()

    def stop(self) -> None:
        for plane in list(self.running()):
            plane.stop()

    # --- figures ---

    def sent_total(self, traffic: Traffic) -> int:
        return self.retired_sent[traffic] + sum(plane.sent[traffic] for plane in self.running())

    def copies_total(self, name: str) -> float:
        return float(self.retired_copies[name] + sum(getattr(plane.tally, name) for plane in self.running()))

    def document(self) -> dict[str, Any]:
        table: dict[str, Any] = msgspec.to_builtins(self.in_use.slice)
        table |= {
            "generation": self.generation,
            "in_force_s": self.in_force_s,
            "next": None,
            "is_applied": self.generation > 0 and not self.part.made_for,
            "old": len(self._old),
        }
        if self.next_part is not None and self.next is not None:
            table["next"] = {
                "generation": self.next_part.generation,
                "version": self.next_part.slice.version,
                "system": self.next_part.slice.system,
                "is_started": self.next.is_started,
                "is_ready": self.is_ready,
            }
        return table

    def _keep(self) -> None:
        kept = KeptPlans(base=self._base, in_use=self.part, next=self.next_part)
        self._turn.write(PLAN, KEPT, msgspec.msgpack.encode(kept))
