"""SUBACK is true: where a channel's structure takes its time, everybody is told to send a copy straight here.

A system may say that a channel is *pending* (`protocol.events.Pending`). If it is not effective within `DETOUR_S`, the
node tells all nodes (a flood, as part of a cascade) which channels have a detour to it; whoever publishes on one sends
the node a copy of its own, until it is told otherwise. So what was published after SUBACK reaches the subscriber by
tree or by detour, whatever the system does meanwhile, and a coordinator that never comes back leaves a mesh, not a
hole. What comes both ways is taken once.

A system whose nodes cannot say when a subscription has taken effect (`System.settles_s`) is given that much time, and a
detour from the beginning. What this node publishes meanwhile on such a channel goes to all nodes: it may not be
connected yet with those who want it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.broker.cascades import Cascades
from coterie.broker.frames import OpenDetours
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn

DETOUR_S = 0.25
OVERLAP_S = 0.5  # how long a detour is kept beside a structure that has just become effective
GUARD_S = 10.0  # how much longer copies may still come both ways
DETOUR_TIMER, OVERLAP_TIMER, TELL_TIMER = "detour", "overlap", "detours"


class _Wait:
    """A SUBACK that waits for some channels."""

    def __init__(self, channels: Iterable[str], done: Callable[[], None]) -> None:
        self.channels = dict.fromkeys(channels)
        self.done = done


class Detours:
    """See the module: those to this node, and those of the others."""

    def __init__(self, node: int, talk: Talk, cascades: Cascades, turn: Turn) -> None:
        self.opened_count = 0
        self.is_leaf = False  # a leaf gets what a host passes on, by whatever way it came there
        self._node, self._talk, self._cascades, self._turn = node, talk, cascades, turn
        self._pending: dict[str, None] = {}
        self._open: dict[str, bool] = {}  # channel -> whether everybody knows
        self._outside: dict[str, None] = {}  # pending, and this node may not be connected with others who want them
        self._news: dict[str, None] | None = None  # what is to be told next
        self._waits: list[_Wait] = []
        self._guarded_until_s = 0.0
        self._version = 0
        self._has_announced = False
        self._others: dict[int, OpenDetours] = {}
        self._to: dict[str, tuple[int, ...]] = {}  # channel -> nodes that want a copy

    def start(self, life: int, is_first: bool) -> None:
        """Others may still hold the detours of the last life: a new word is greater than any old one."""
        self._version = life << 20
        self._has_announced = not is_first

    # --- to this node ---

    @property
    def is_guarding(self) -> bool:
        """Whether an event may come twice."""
        return self.is_leaf or bool(self._pending or self._open) or self._turn.now_s < self._guarded_until_s

    def pend(self, channel: str, is_outside: bool = False) -> None:
        if channel not in self._pending:
            self._pending[channel] = None
            if is_outside:
                self._outside[channel] = None
            self._turn.set_timer((DETOUR_TIMER, channel), 0.0 if is_outside else DETOUR_S)

    def settle(self, channel: str) -> None:
        """The structure is complete, or nobody wants the channel any more."""
        self._outside.pop(channel, None)
        if self._pending.pop(channel, 0) is None:
            self._turn.cancel_timer((DETOUR_TIMER, channel))
            self._guarded_until_s = self._turn.now_s + GUARD_S
        if channel in self._open:
            self._turn.set_timer((OVERLAP_TIMER, channel), OVERLAP_S)
        self._served(channel)

    def on_late(self, channel: str) -> None:
        """It takes too long: a detour until it is there."""
        if channel in self._pending and channel not in self._open:
            self.opened_count += 1
            self._open[channel] = False
            self._tell_soon()[channel] = None

    def _tell_soon(self) -> dict[str, None]:
        """Many are late, or over, at the same moment: they are told together."""
        if self._news is None:
            self._news = {}
            self._turn.set_timer((TELL_TIMER,), 0.0)
        return self._news

    def on_tell(self) -> None:
        news, self._news = self._news or {}, None
        self._announce(lambda: self._known(news))

    def _known(self, channels: Iterable[str]) -> None:
        for channel in channels:
            if channel in self._open:
                self._open[channel] = True
            self._served(channel)

    def on_overlap_over(self, channel: str) -> None:
        if channel in self._open and channel not in self._pending:
            del self._open[channel]
            self._guarded_until_s = self._turn.now_s + GUARD_S
            self._tell_soon()

    def when_served(self, channels: Iterable[str], done: Callable[[], None]) -> None:
        """Call `done` when all these reach this node from everywhere, one way or the other; perhaps at once."""
        missing = [one for one in channels if one in self._pending and not self._open.get(one, False)]
        if missing:
            self._waits.append(_Wait(missing, done))
        else:
            done()

    def _served(self, channel: str) -> None:
        ready = []
        for wait in self._waits:
            wait.channels.pop(channel, None)
            if not wait.channels:
                ready.append(wait)
        if ready:
            self._waits = [wait for wait in self._waits if wait.channels]
            for wait in ready:
                wait.done()

    def _announce(self, done: Callable[[], None]) -> None:
        self._version += 1
        self._has_announced = True
        outer = self._cascades.current
        cascade = self._cascades.begin(done, self._turn.now_s)
        self._talk.flood(self._mine())
        self._cascades.end(cascade)
        self._cascades.current = outer

    def _mine(self) -> OpenDetours:
        return OpenDetours(self._node, self._version, tuple(self._open))

    # --- to others ---

    @property
    def has_any(self) -> bool:
        """Whether anybody wants copies of anything."""
        return bool(self._to or self._outside)

    def is_outside(self, channels: Iterable[str]) -> bool:
        """Whether what is published here on one of these may not reach all who want it."""
        return bool(self._outside) and any(one in self._outside for one in channels)

    def to(self, channel: str) -> tuple[int, ...]:
        """The nodes that want a copy of what is published on a channel."""
        return self._to.get(channel, ())

    def hear(self, source: int, said: OpenDetours) -> None:
        before = self._others.get(said.node)
        if said.node == self._node or (before is not None and before.version >= said.version):
            return
        self._others[said.node] = said
        self._count_others()
        self._talk.flood(said, but=source)

    def forget(self, node: int) -> None:
        """It is no member any more."""
        if self._others.pop(node, None) is not None:
            self._count_others()

    def _count_others(self) -> None:
        found: dict[str, list[int]] = {}
        for node in sorted(self._others):
            for channel in self._others[node].channels:
                found.setdefault(channel, []).append(node)
        self._to = {channel: tuple(nodes) for channel, nodes in found.items()}

    def tell_all(self, peer: int) -> None:
        """To a new neighbour: all that is known."""
        for said in self._others.values():
            if said.node != peer:
                self._talk.tell(peer, said)
        if self._has_announced:  # until it has heard, it may go by what was said last: a restart forgets, others do not
            self._guarded_until_s = self._turn.now_s + GUARD_S
            self._talk.tell(peer, self._mine())
