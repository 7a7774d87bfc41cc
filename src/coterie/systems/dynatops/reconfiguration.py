"""Switching a whole network from one plan to the next while both control planes live (section 5.1.2), for any system.

A coordinator leads all participants through steps and starts the next one only when everybody has done the current one.
Events carry the version of the plane they travel in, so while everybody holds both planes it does not matter who uses
which: nothing is lost or doubled, whatever the coordinator decides. A plane is only ever dropped after everybody has
said that they no longer use it. That is why a crash can be answered either way:

- before FINISH a lost participant means ROLLBACK: everybody returns to the old plane, then FORGETs the new one;
- from FINISH on the switch completes without the lost one, which starts again in the new plan anyway;
- a coordinator that has lost its memory asks all participants how far they are, goes forward if anybody uses the new
  plane already and back if not.

The participant's side is `Switch`; what a plane is and what the steps mean for it is the system's business: `Planes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar, Protocol

from coterie.protocol.node import OverlayNode
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic

PATIENCE = 40  # orders repeated before a participant that stays silent stops a switch
GRACE_S = 15.0  # a plane nobody uses is kept for events still under way


class SwitchStep(IntEnum):
    """What everybody is asked to do; forwards in this order, or back from any of the first four."""

    INIT = 1  # RCFG_INIT: have both planes, use the old one
    OVERLAY = 2  # RCFG_OVERLAY: take the new place in the overlay of the new plane
    PUBSUB = 3  # RCFG_PUBSUB 3.1: hand the tree tables over
    REPAIR = 4  # RCFG_PUBSUB 3.2: make the trees of the new plane fit the subscriptions
    FINISH = 5  # RCFG_FINISH: use the new plane
    RETIRE = 6  # drop the old one
    ROLLBACK = 7  # use the old plane
    FORGET = 8  # drop the new one


class Order(SystemMessage, frozen=True):
    """The coordinator asks for a step. Of two orders the one with the higher ballot is the later one.

    `participants` is who takes part, in case the coordinator forgets.
    """

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    step: SwitchStep
    ballot: int
    participants: tuple[int, ...] = ()


class Done(SystemMessage, frozen=True):
    """The step that this ballot asked for is done here (RCFG_OVERLAY_DONE and its like)."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    ballot: int


class UnknownVersion(SystemMessage, frozen=True, tag="Refused"):
    """I know nothing of this version: I was not there from the beginning, or have lost my memory."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int


class Ask(SystemMessage, frozen=True):
    """How far are you with this version?"""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int


class ToldVersion(SystemMessage, frozen=True, tag="Tell"):
    """This far: do I have its plane, and do I use it?"""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    has_plane: bool
    is_used: bool


class SwitchReport(SystemMessage, frozen=True, tag="Report"):
    """I take part, use version `version`, and (if not -1) am in the middle of a switch to `pending`."""

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP
    version: int
    pending: int = -1
    participants: tuple[int, ...] = ()


RECONFIGURATION_MESSAGES: tuple[type[SystemMessage], ...] = (
    Order,
    Done,
    UnknownVersion,
    Ask,
    ToldVersion,
    SwitchReport,
)


class SwitchSteps(Protocol):
    """What a system does at each step. `begin` answers False if it cannot yet; work that takes time ends in `done`."""

    def begin(self, version: int) -> bool: ...

    def work(self, version: int, step: SwitchStep) -> bool:
        """True if the step is done at once."""

    def use(self, version: int) -> None: ...

    def drop(self, version: int) -> None: ...


class SwitchLeader:
    """Leads one switch at a time. `node` lends its verbs; nothing else of it is touched."""

    def __init__(self, node: OverlayNode, retry_s: float) -> None:
        self._node = node
        self._retry_s = retry_s
        self.version = -1
        self.step: SwitchStep | None = None  # None: idle, or asking
        self.participants: dict[int, None] = {}
        self.outcome: str = ""  # "completed" or "rolled back", of the last switch
        self._waiting: dict[int, None] = {}
        self._attempts = 0
        self._ballot = 0
        self._told: dict[int, ToldVersion] = {}
        self._is_asking = False

    @property
    def is_idle(self) -> bool:
        return self.step is None and not self._is_asking

    def begin(self, version: int, participants: Iterable[int]) -> None:
        if self.is_idle:
            self.version = version
            self.participants = dict.fromkeys(participants)
            self._order(SwitchStep.INIT)

    def resume(self, version: int, participants: Iterable[int]) -> None:
        """Somebody is in the middle of a switch we know nothing of: find out how far everybody is."""
        if not self.is_idle:
            return
        self.version = version
        self.participants = dict.fromkeys(participants)
        self._waiting = self.participants.copy()
        self._told = {}
        self._is_asking = True
        self._attempts = 0
        self._send()

    def on_done(self, source: int, message: Done) -> None:
        if message.version == self.version and message.ballot == self._ballot:
            self._waiting.pop(source, None)
            self._go_on()

    def on_refused(self, source: int, message: UnknownVersion) -> None:
        if message.version == self.version:
            self.on_lost(source)

    def on_told(self, source: int, message: ToldVersion) -> None:
        if self._is_asking and message.version == self.version:
            self._told[source] = message
            self._waiting.pop(source, None)
            self._go_on()

    def on_lost(self, peer: int) -> None:
        """A participant is gone, or has forgotten everything."""
        if self.is_idle or peer not in self.participants:
            return
        del self.participants[peer]
        self._waiting.pop(peer, None)
        if self.step is not None and self.step <= SwitchStep.REPAIR:
            self._order(SwitchStep.ROLLBACK)
        else:
            self._go_on()

    def on_timer(self) -> None:
        if self.is_idle:
            return
        self._attempts += 1
        if self._attempts <= PATIENCE:
            self._send()
        elif self.step is not None and self.step <= SwitchStep.REPAIR:
            self._order(SwitchStep.ROLLBACK)
        else:
            self._attempts = 0  # nobody may drop a plane that somebody might still use: go on asking
            self._send()

    def _order(self, step: SwitchStep) -> None:
        self.step = step
        self._ballot = max(self._ballot + 1, round(self._node.now_s * 1e6))  # rises through restarts too
        self._attempts = 0
        self._waiting = self.participants.copy()
        self._send()
        self._go_on()

    def _send(self) -> None:
        everybody = tuple(self.participants)
        message: SystemMessage = Ask(self.version)
        if self.step is not None:
            message = Order(self.version, self.step, self._ballot, everybody if self.step is SwitchStep.INIT else ())
        here = self._node.address
        self._node.send_all((peer for peer in self._waiting if peer != here), message)
        self._node.set_timer("reconfiguration", self._retry_s)
        if here in self._waiting:
            self._node.on_receive(here, message)

    def _go_on(self) -> None:
        if self._waiting:
            return
        if self._is_asking:
            self._is_asking = False
            # Whoever uses the new plane may have dropped the old one already; nobody can have dropped both.
            is_forward = any(tell.is_used for tell in self._told.values())
            self._order(SwitchStep.FINISH if is_forward else SwitchStep.ROLLBACK)
        elif self.step is SwitchStep.RETIRE or self.step is SwitchStep.FORGET:
            self.outcome = "completed" if self.step is SwitchStep.RETIRE else "rolled back"
            self.step = None
            self._node.cancel_timer("reconfiguration")
        elif self.step is not None:
            self._order(SwitchStep.FORGET if self.step is SwitchStep.ROLLBACK else SwitchStep(self.step + 1))


class Switch:
    """A participant's part: which plane it uses, which one is being prepared, and how far the switch has come here."""

    def __init__(self, planes: SwitchSteps, version: int) -> None:
        self._planes = planes
        self.version = version  # the one in use
        self.old = version  # the one in use before the switch under way
        self.pending = -1  # the one that is being prepared, or used while the old one is still there
        self.step: SwitchStep | None = None
        self.participants: tuple[int, ...] = ()
        self.revoked = -1  # the last version that was rolled back
        self._ballot = -1
        self._is_done = False
        self._wanted: Order | None = None  # INIT has come, but the plan has not

    def on_order(self, order: Order) -> SystemMessage | None:
        """The answer, or None while the work goes on (then `done` gives it) or if the order is out of date."""
        if order.ballot < self._ballot:
            return None
        if order.ballot > self._ballot:
            self._ballot = order.ballot
            answer = self._obey(order)
            if answer is not None:
                return answer
        return Done(order.version, order.ballot) if self._is_done else None

    def done(self, version: int, step: SwitchStep) -> SystemMessage | None:
        """The system has finished the work of a step; the message for the coordinator, if it still waits for it."""
        if version != self.pending or step is not self.step or self._is_done:
            return None
        self._is_done = True
        return Done(version, self._ballot)

    def planned(self) -> SystemMessage | None:
        """A plan has come; perhaps it is the one that an order has been waiting for."""
        order = self._wanted
        if order is None or order.ballot != self._ballot:
            return None
        return self._obey(order) or (Done(order.version, order.ballot) if self._is_done else None)

    def tell(self, version: int) -> ToldVersion:
        return ToldVersion(version, version in (self.pending, self.version), self.version == version)

    def _obey(self, order: Order) -> SystemMessage | None:
        """Do what a new order says; a refusal if that is impossible."""
        version, step = order.version, order.step
        self._is_done = False
        if step is SwitchStep.INIT:
            return self._init(order)
        if version != self.pending:
            return self._after_the_fact(version, step)
        self.step = step
        self._is_done = self._perform(version, step)
        return None

    def _init(self, order: Order) -> SystemMessage | None:
        version = order.version
        self._wanted = None
        if version in (self.pending, self.version):
            self._is_done = True
        elif version < self.version or version <= self.revoked or self.pending >= 0:
            return UnknownVersion(version)
        elif self._planes.begin(version):
            self.old, self.pending, self.participants = self.version, version, order.participants
            self.step, self._is_done = SwitchStep.INIT, True
        else:
            self._wanted = order
        return None

    def _after_the_fact(self, version: int, step: SwitchStep) -> SystemMessage | None:
        """What is over already is simply confirmed; what never began here is refused."""
        if step in (SwitchStep.ROLLBACK, SwitchStep.FORGET) and version != self.version:
            self.revoked = max(self.revoked, version)
        elif version != self.version or step < SwitchStep.FINISH:
            return UnknownVersion(version)
        self._is_done = True
        return None

    def _perform(self, version: int, step: SwitchStep) -> bool:
        if step <= SwitchStep.REPAIR:
            return self._planes.work(version, step)
        if step is SwitchStep.FINISH or step is SwitchStep.ROLLBACK:
            self._use(version if step is SwitchStep.FINISH else self.old)
        else:
            self._use(version if step is SwitchStep.RETIRE else self.old)
            self._planes.drop(self.old if step is SwitchStep.RETIRE else version)
            if step is SwitchStep.FORGET:
                self.revoked = version
            self.pending, self.step, self.participants = -1, None, ()
        return True

    def _use(self, version: int) -> None:
        if self.version != version:
            self.version = version
            self._planes.use(version)
