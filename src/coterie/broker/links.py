"""The links of a node: made when they are needed, watched, bounded, and made again after a loss.

The driver connects; this decides when. A peer that cannot be reached is reported once per attempt, and attempts follow
a doubling back-off. What a peer does not read waits here, and is bounded: above the limit events are shed and counted.
Frames of a turn leave together when it ends, behind its writes if it has any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coterie.broker.frames import BEAT, BEAT_FRAME, BYE, BYE_FRAME, CONTROL, TRACKED_CONTROL
from coterie.broker.orders import AnswerDoor, Dial, HangUp, LeaveNetwork, Meet, Order, Tell
from coterie.broker.settings import LinkSection
from coterie.broker.turn import Turn

PENDING_BYTES_MAX = 4 << 20
BEAT_TIMER, RETRY_TIMER = "beat", "retry"


@dataclass
class LinkCounts:
    dials: int = 0
    failed_dials: int = 0
    lost: int = 0
    shed: int = 0


class _Target:
    """What is known of one peer. `output` is what it has not been told yet: of this turn, or while it is choked."""

    __slots__ = (
        "delay_s", "failed_s", "heard_s", "held_batch", "is_choked", "is_dialling", "is_leaving", "is_up", "next_try_s",
        "output", "output_bytes", "peer", "sent_s", "used_s", "was_up",
    )  # fmt: skip

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.is_up = self.is_dialling = self.is_choked = self.was_up = False
        self.is_leaving = False  # one side said BYE: the end of the connection is no loss
        self.output: list[bytes] = []
        self.output_bytes = 0
        self.delay_s = self.next_try_s = 0.0
        self.heard_s = self.sent_s = self.used_s = self.failed_s = 0.0
        self.held_batch = 0  # the last batch that something for this peer waits for


class PeerLinks:
    """All links of one node. `shed` names peers that an event could not be handed to, until somebody takes them."""

    def __init__(self, node: int, peers: Iterable[int], settings: LinkSection, turn: Turn) -> None:
        self.settings = settings
        self.counts = LinkCounts()
        self.blocked: frozenset[int] = frozenset()
        self.shed: dict[int, None] = {}
        self.is_pressed = False  # an event was just added to a queue that is half full
        self._turn = turn
        self._targets = {peer: _Target(peer) for peer in peers if peer != node}
        self._parting: dict[int, _Target] = {}  # no members any more, and still connected
        self.dirty: dict[int, _Target] = {}
        self.ending: list[HangUp | AnswerDoor | LeaveNetwork] = []  # behind what is written before
        self._tick_s = self._start_s = 0.0
        self._is_closing = False
        self.held_batch = self.persisted = 0  # the last batch that anything waits for, and the last on disk

    def start(self) -> None:
        self._tick_s = self._start_s = self._turn.now_s
        self._turn.set_timer((BEAT_TIMER,), self.settings.heartbeat_s)

    @property
    def peers(self) -> list[int]:
        return list(self._targets)

    @property
    def connected(self) -> list[int]:
        return [peer for peer, target in self._targets.items() if target.is_up]

    def meet(self, peer: int, host: str, port: int) -> None:
        """It is a member from now on, and there; or it has moved."""
        if peer not in self._targets:
            self._targets[peer] = _Target(peer)
        self._turn.orders.append(Meet(peer, host, port))

    def part(self, peer: int) -> None:
        """It is no member any more; what it was told is its last word."""
        target = self._targets.pop(peer, None)
        if target is not None and target.is_up:
            target.is_leaving = True
            self._parting[peer] = target
            self.ending.append(HangUp(peer, "it is no member any more"))

    def knows(self, peer: int) -> bool:
        return peer in self._targets

    def is_connected(self, peer: int) -> bool:
        target = self._targets.get(peer)
        return target is not None and target.is_up

    def was_heard(self, peer: int, since_s: float) -> bool:
        """Whether it is there for sure: it has said something since then."""
        return self.is_connected(peer) and self._targets[peer].heard_s > since_s

    def was_out_of_reach(self, peer: int, since_s: float) -> bool:
        """Whether there is no link to it, and it was dialled in vain since then."""
        target = self._targets.get(peer)
        return target is not None and not target.is_up and target.failed_s > since_s

    @property
    def heard_until_s(self) -> float:
        """Up to then every peer that is believed to be connected was heard: nothing it said before is missing."""
        return min((target.heard_s for target in self._targets.values() if target.is_up), default=self._turn.now_s)

    def queue_bytes(self) -> int:
        return sum(target.output_bytes for target in self._targets.values())

    def waiting_bytes(self, peer: int) -> int:
        """What has not left for this one yet."""
        target = self._targets.get(peer)
        return 0 if target is None else target.output_bytes

    def held_for(self, peer: int) -> int:
        """The last batch that something for this one waits for."""
        target = self._targets.get(peer)
        return 0 if target is None else target.held_batch

    def is_choked(self, peer: int) -> bool:
        """Whether what it is told waits here."""
        target = self._targets.get(peer)
        return target is None or target.is_choked or not target.is_up

    def is_behind(self, peer: int) -> bool:
        """Whether it does not keep up, and half of what may wait for it does."""
        target = self._targets.get(peer)
        return target is not None and target.is_choked and target.output_bytes * 2 > self.settings.queue_bytes_max

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that whoever sends much should wait too, long before anything is shed."""
        return any(target.is_choked for target in self._targets.values())

    @property
    def is_full(self) -> bool:
        """Whether a peer that is there has more than a quarter of what may wait for it before it."""
        limit = self.settings.queue_bytes_max
        return any(one.is_up and one.is_choked and one.output_bytes * 4 > limit for one in self._targets.values())

    # --- sending ---

    def send(self, peer: int, data: bytes, is_event: bool = False, is_use: bool = True) -> bool:
        """Queue a frame; False if it was given up (shed, or the peer cannot be reached at present).

        What brokers say to all neighbours is no use of a link: else none would ever be idle.
        """
        target = self._targets.get(peer)
        if target is None:
            return False
        if target.is_up:
            if is_event and target.is_choked and not self._has_room(target):
                return False
            if is_use:
                target.used_s = self._turn.now_s
            self.dirty[peer] = target
        elif not self._may_wait(target, len(data)):
            return False
        target.output.append(data)
        target.output_bytes += len(data)
        return True

    def _has_room(self, target: _Target) -> bool:
        """For one more event, though the peer does not keep up."""
        if target.output_bytes > self.settings.queue_bytes_max:
            self._give_up(target)
            return False
        if target.output_bytes * 2 > self.settings.queue_bytes_max:
            self.is_pressed = True
        return True

    def _may_wait(self, target: _Target, size: int) -> bool:
        """Whether something may wait until the peer is there; it is dialled if that makes sense."""
        if not target.is_dialling:
            if self._is_closing:
                return False
            if self._turn.now_s >= target.next_try_s:
                self._dial(target)
            elif not self._is_awaited(target):
                return False
        if target.output_bytes + size > PENDING_BYTES_MAX:
            self._give_up(target)
            return False
        return True

    def _give_up(self, target: _Target) -> None:
        self.counts.shed += 1
        self.shed[target.peer] = None

    def take_shed(self) -> list[int]:
        shed = list(self.shed)
        self.shed.clear()
        return shed

    def end_turn(
        self, free: list[Order], held: list[Order], persisted: int, batch: int, has_writes: bool
    ) -> None:  # fmt: skip
        """Add what may leave now, and what waits for `batch`: with a batch that writes, everything waits for it."""
        for target in self.dirty.values():
            if self._is_open(target):
                target.sent_s = self._turn.now_s
                order = Tell(target.peer, target.output)
                target.output, target.output_bytes = [], 0
                if has_writes or target.held_batch > persisted:
                    target.held_batch = self.held_batch = batch
                    held.append(order)
                else:
                    free.append(order)
        self.dirty.clear()
        for ending in self.ending:
            (held if has_writes or held else free).append(ending)
        self.ending.clear()

    def _is_open(self, target: _Target) -> bool:
        """Whether it has something to be told that it can be told now."""
        if target.is_up and not target.is_choked:
            return bool(target.output)
        if target.is_up and target.output_bytes > 2 * self.settings.queue_bytes_max:
            self._abort(target, "does not read what it is sent")
        return False

    # --- reaching peers ---

    def want(self, peers: Iterable[int], is_urgent: bool = False) -> None:
        """Make links to these peers where there are none; losses show as such. What is urgent does not wait because
        others have tried in vain."""
        if self._is_closing:
            return
        for peer in peers:
            target = self._targets.get(peer)
            if target is None or target.is_up or target.is_dialling:
                continue
            if is_urgent or self._turn.now_s >= target.next_try_s:
                self._dial(target)

    def _dial(self, target: _Target) -> None:
        self.counts.dials += 1
        target.is_dialling = True
        self._turn.orders.append(Dial(target.peer))

    def on_dial_failed(self, peer: int, reason: str) -> bool:
        """True if the peer counts as lost now."""
        target = self._targets[peer]
        target.is_dialling = False
        if target.is_up:  # it dialled us meanwhile
            return False
        self.counts.failed_dials += 1
        target.failed_s = self._turn.now_s
        self._turn.say(f"node {peer} cannot be reached: {reason}")
        settings = self.settings
        target.delay_s = min(max(settings.backoff_s, 2 * target.delay_s), settings.backoff_s_max)
        target.next_try_s = self._turn.now_s + target.delay_s
        if self._is_awaited(target):
            self._turn.set_timer((RETRY_TIMER, peer), target.delay_s)
            return False
        if target.output:
            self.shed[peer] = None
        target.output, target.output_bytes = [], 0
        return not self._is_closing

    def _is_awaited(self, target: _Target) -> bool:
        """Nodes of a network start one after the other: who was never there is given some time."""
        return (
            not target.was_up
            and self._turn.now_s - self._start_s < self.settings.patience_s
            and not self._is_closing
        )  # fmt: skip

    def may_link(self, peer: int) -> bool:
        """For the driver, before it greets anybody."""
        return peer in self._targets and peer not in self.blocked and not self._is_closing

    # --- what the driver tells ---

    def on_up(self, peer: int) -> None:
        target = self._targets[peer]
        target.is_up = target.was_up = True
        target.is_dialling = target.is_choked = target.is_leaving = False
        target.delay_s = target.next_try_s = 0.0
        target.heard_s = target.sent_s = target.used_s = self._turn.now_s
        self.dirty[peer] = target

    def on_gone(self, peer: int, reason: str) -> bool:
        """True if it is a loss."""
        target = self._targets.get(peer) or self._parting.pop(peer, None)
        if target is None or not target.is_up:
            return False
        target.is_up = target.is_choked = False
        target.output, target.output_bytes = [], 0
        self.dirty.pop(peer, None)
        if target.is_leaving or self._is_closing:
            return False
        self.counts.lost += 1
        self._turn.say(f"link to node {peer} lost: {reason}")
        target.next_try_s = self._turn.now_s + self.settings.backoff_s
        return True

    def on_choked(self, peer: int, is_choked: bool) -> None:
        target = self._targets.get(peer)
        if target is None:
            return
        target.is_choked = is_choked
        if target.output:
            self.dirty[peer] = target

    def heard(self, peer: int, kinds: Iterable[int]) -> None:
        """The peer is there; these kinds of frames came from it."""
        target = self._targets[peer]
        target.heard_s = self._turn.now_s
        for kind in kinds:
            if kind == BYE:
                target.is_leaving = True
            elif kind not in (BEAT, CONTROL, TRACKED_CONTROL):
                target.used_s = self._turn.now_s

    # --- time ---

    def on_beat(self) -> None:
        """Beat where nothing was said, give up who is silent."""
        if self._is_closing:
            return
        now_s, settings = self._turn.now_s, self.settings
        was_late = now_s - self._tick_s > settings.heartbeat_s + settings.silence_s / 2
        self._tick_s = now_s
        for target in self._targets.values():
            if not target.is_up:
                continue
            if now_s - target.heard_s > settings.silence_s and not was_late:
                self._abort(target, f"nothing heard for {settings.silence_s:g} s")
            elif now_s - target.sent_s >= settings.heartbeat_s * 0.9:
                self.send(target.peer, BEAT_FRAME, is_use=False)
        self._turn.set_timer((BEAT_TIMER,), settings.heartbeat_s)

    def _abort(self, target: _Target, reason: str) -> None:
        self._turn.orders.append(HangUp(target.peer, reason, abrupt=True))

    def release_idle(self, wanted: set[int], idle_s: float | None = None) -> None:
        """Close links that nobody wants and nothing uses; the peer is told that this is no failure."""
        idle_s = self.settings.idle_s if idle_s is None else idle_s
        for peer, target in self._targets.items():
            is_idle = target.is_up and not target.is_leaving and self._turn.now_s - target.used_s > idle_s
            if is_idle and peer not in wanted:
                target.is_leaving = True
                self.send(peer, BYE_FRAME, is_use=False)
                self.ending.append(HangUp(peer, "nobody uses it"))

    def block(self, peers: Iterable[int]) -> None:
        """Fault injection: cut these peers off, as a partition would; an empty list heals."""
        self.blocked = frozenset(peers)
        for peer in sorted(self.blocked):
            target = self._targets.get(peer)
            if target is not None and target.is_up:
                self._abort(target, "blocked")

    def close(self) -> None:
        """The node stops in good order; what is said now is the last word."""
        self._is_closing = True
        for peer, target in self._targets.items():
            if target.is_up:
                self.ending.append(HangUp(peer, "the node stops"))
