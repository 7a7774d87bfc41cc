"""Two control planes: the plan in use, and beside it the one that is being built or the one that is emptied.

How a network changes plans without losing a message, whatever systems it goes from and to: every node is handed its
part of the new plan (*load*); then all start it (*start*), as a second overlay beside the one in use, and everything
wanted is subscribed in both; when the new structures are complete everywhere, one node is told to publish by the new
plan (*switch*), which spreads by flood; what is still under way in the old overlay arrives there, and some time later
nothing of it is left. An event travels in one overlay only, so nothing comes twice. Until the switch all can be dropped
without a trace. Going back is a change to the older plan.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from coterie.accounting.tally import COPIES
from coterie.errors import ConfigError, InputError
from coterie.model.plan import Topic
from coterie.plans.orders import PlanPart
from coterie.runtime.overlay import Overlay
from coterie.trace import Traffic

DRAIN_S = 10.0  # how long the old overlay still passes on what is under way in it
QUIET_S = 1.5  # a new overlay that sent nothing to build itself for so long is complete
TAGS = 256


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a node remembers across restarts; `base` names the first plan, for a new first plan makes it void."""

    base: str
    in_use: PlanPart
    next: PlanPart | None = None


class Planes:
    """See the module. `make` builds an overlay that is not started yet, `enter` starts one and subscribes in it."""

    def __init__(
        self,
        first: PlanPart,
        path: Path,
        base: str,
        make: Callable[[PlanPart], Overlay],
        enter: Callable[[Overlay, Callable[[], None]], None],
    ) -> None:
        self._path, self._base, self._make, self._enter = path, base, make, enter
        kept = self._read()
        self.part = first if kept is None else kept.in_use
        self.in_use = make(self.part)
        self.next_part: PlanPart | None = None if kept is None else kept.next
        self.next: Overlay | None = None if self.next_part is None else make(self.next_part)
        self.on_switch: Callable[[], None] = lambda: None
        self.on_retired: Callable[[], None] = lambda: None
        self.outdated_by = 0  # a generation in force elsewhere that this node was never given
        self.dropped_count = 0  # messages of plans that are not known here
        self.retired_sent: Counter[Traffic] = Counter()
        self.retired_copies: Counter[str] = Counter()
        self._is_entered = False  # the next one's first cascade is over
        self._old: list[Overlay] = []
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()

    @property
    def generation(self) -> int:
        return self.part.generation

    @property
    def in_force_s(self) -> float:
        return self._loop.time() - self._since_s

    def running(self) -> Iterator[Overlay]:
        yield self.in_use
        if self.next is not None and self.next.is_started:
            yield self.next
        yield from self._old

    # --- facts for all of them ---

    def subscribe(self, topic: Topic) -> None:
        for overlay in self.running():
            overlay.subscribe(topic)

    def unsubscribe(self, topic: Topic) -> None:
        for overlay in self.running():
            overlay.unsubscribe(topic)

    def lose(self, peer: int) -> None:
        for overlay in list(self.running()):
            overlay.lose(peer)

    def receive(self, peer: int, body: bytes) -> None:
        """A message by its tag. A plan that a peer has started already is started here too."""
        tag = body[:1]
        if tag == self.in_use.tag:
            self.in_use.receive(peer, body[1:])
            return
        if self.next is not None and tag == self.next.tag:
            self._begin()
            self.next.receive(peer, body[1:])
            return
        for overlay in self._old:
            if tag == overlay.tag:
                overlay.receive(peer, body[1:])
                return
        self.dropped_count += 1

    def links(self) -> set[int]:
        found: set[int] = set()
        for overlay in self.running():
            found |= set(overlay.state().links)
        return found

    # --- changing over ---

    def load(self, part: PlanPart) -> None:
        if part.generation <= self.generation:
            raise ConfigError("generation", part.generation, f"more than {self.generation}, which is in force")
        overlay = self._make(part)  # what does not fit is told before anything is given up
        self.drop()
        self.next_part, self.next = part, overlay
        self._keep()

    def start(self, generation: int) -> None:
        self._expect(generation)
        self._begin()

    def _begin(self) -> None:
        if self.next is not None and not self.next.is_started:
            self._is_entered = False
            overlay = self.next

            def entered() -> None:
                self._is_entered |= self.next is overlay

            self._enter(overlay, entered)

    @property
    def is_ready(self) -> bool:
        """Whether the next plan's structures are complete as far as this node can tell."""
        overlay = self.next
        if overlay is None or not overlay.is_started or not self._is_entered:
            return False
        return self._loop.time() - overlay.built_s >= QUIET_S

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
        self._since_s = self._loop.time()
        self.outdated_by = 0
        self._keep()
        self._old.append(old)
        self._loop.call_later(DRAIN_S, self._retire, old)
        self.on_switch()
        return True

    def hear(self, generation: int) -> bool:
        """Another node publishes by this generation; True if this one does so from now on, and should pass it on."""
        if generation <= self.generation:
            return False
        if self.next_part is not None and self.next_part.generation == generation:
            return self.switch(generation)
        self.outdated_by = generation
        return False

    def drop(self) -> None:
        """Forget the plan that was loaded."""
        overlay, self.next, self.next_part = self.next, None, None
        if overlay is not None:
            overlay.stop()
            self._book(overlay)
            self._keep()

    def _expect(self, generation: int) -> None:
        if self.next_part is None or self.next_part.generation != generation:
            raise ConfigError("generation", generation, "the one that was loaded last")

    def _retire(self, overlay: Overlay) -> None:
        if overlay in self._old:
            self._old.remove(overlay)
            overlay.stop()
            self._book(overlay)
            self.on_retired()

    def _book(self, overlay: Overlay) -> None:
        self.retired_sent.update(overlay.sent)
        for name in COPIES:
            self.retired_copies[name] += int(getattr(overlay.tally, name))

    def resume(self) -> None:
        """After a restart in the middle of a change the others may be waiting for this node."""
        if self.next is not None:
            self._begin()

    def stop(self) -> None:
        for overlay in list(self.running()):
            overlay.stop()

    # --- figures ---

    def sent_total(self, traffic: Traffic) -> int:
        return self.retired_sent[traffic] + sum(overlay.sent[traffic] for overlay in self.running())

    def copies_total(self, name: str) -> float:
        return float(self.retired_copies[name] + sum(getattr(overlay.tally, name) for overlay in self.running()))

    def document(self) -> dict[str, Any]:
        table: dict[str, Any] = msgspec.to_builtins(self.in_use.slice)
        table |= {"generation": self.generation, "in_force_s": self.in_force_s, "next": None, "old": len(self._old)}
        if self.next_part is not None and self.next is not None:
            table["next"] = {
                "generation": self.next_part.generation,
                "version": self.next_part.slice.version,
                "system": self.next_part.slice.system,
                "is_started": self.next.is_started,
                "is_ready": self.is_ready,
            }
        return table

    # --- on disk ---

    def _read(self) -> Kept | None:
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(str(self._path), f"is no plan: {error}; remove it to start with the first one") from None
        return kept if kept.base == self._base else None

    def _keep(self) -> None:
        beside = self._path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(Kept(base=self._base, in_use=self.part, next=self.next_part)))
        beside.replace(self._path)
