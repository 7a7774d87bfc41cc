"""A whole node: facts in, orders out. `facts` says how a driver uses it, `parts` what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.broker.adopting import ADOPT_TIMER
from coterie.broker.carried import RETAINED_CHANNEL, TIME_MASK, origin_of
from coterie.broker.clients import PROOF_TIMER
from coterie.broker.commands import (
    Block,
    Drain,
    DropPlan,
    LoadPlan,
    Place,
    Reload,
    Remove,
    Setup,
    Show,
    StartPlan,
    SwitchPlan,
)
from coterie.broker.counts import Counts
from coterie.broker.detours import DETOUR_TIMER, OVERLAP_TIMER, TELL_TIMER
from coterie.broker.draining import DRAIN_TIMER
from coterie.broker.facts import (
    Booted,
    Bytes,
    Choked,
    Closed,
    DialFailed,
    Drained,
    Fact,
    GotSocket,
    Knocked,
    Opened,
    PeerChoked,
    PeerDrained,
    PeerGone,
    PeerSaid,
    PeerUp,
    Persisted,
    Proven,
    StoreFailed,
)
from coterie.broker.frames import CONTROL
from coterie.broker.housekeeping import ALIVE_TIMER, TRIM_TIMER
from coterie.broker.keeping import KEEP_TIMER, RIDE_TIMER
from coterie.broker.lacking import FORGET_TIMER
from coterie.broker.links import BEAT_TIMER, RETRY_TIMER
from coterie.broker.membership import MEMBER_TIMER
from coterie.broker.neighbourhood import DIAL_TIMER, LINKS_TIMER, SHED_TIMER
from coterie.broker.ordering import HELD_TIMER
from coterie.broker.orders import Fail, Note, Order, Persist
from coterie.broker.parts import BrokerParts
from coterie.broker.plane import LOSE_TIMER, PLANE_TIMER
from coterie.broker.planes import RETIRE_TIMER
from coterie.broker.recovery import ASK_TIMER, AUDIT_TIMER, ROUND_TIMER
from coterie.broker.renewing import RENEW_TIMER
from coterie.broker.siblings import WishBoard
from coterie.broker.straight import StraightWay
from coterie.broker.takeover import TAKE_TIMER
from coterie.broker.transfers import TRANSFER_TIMER
from coterie.broker.wards import WARD_TIMER
from coterie.broker.writes import LOG, MESSAGES, Shelf
from coterie.mqtt.reasons import Reason
from coterie.protocol.events import SetTimer, Stopping, TimerFired

TICK_S, MOVE_S = 0.2, 1.0
ANSWER_AGAIN_S = 0.05  # when none of those who are owed retained messages takes any
TICK_TIMER, MOVE_TIMER, ANSWER_TIMER = "tick", "move", "answer"


class Broker(BrokerParts):
    """See `facts`. Only facts change anything."""

    def __init__(self, setup: Setup, shelf: Shelf, board: WishBoard | None = None) -> None:
        super().__init__(setup, shelf, board)
        self._shelf = shelf
        self._batch = self._persisted = 0
        self._is_ticking = self._is_answering = self._is_stopped = False
        self.way = StraightWay(
            self.clients, self.sessions, self.publishing, self.gate, self.identifiers, self.journal, self.tallied,
            self.siblings, self.turn,
        )  # fmt: skip
        self._takers = self._made_takers()
        self._timers = self._made_timers()

    def _made_takers(self) -> dict[type, Callable[[Any], object]]:
        clients, around = self.clients, self.neighbourhood
        return {
            Booted: self._on_booted,
            Opened: clients.on_opened,
            GotSocket: self._on_socket,
            Choked: lambda fact: clients.on_choked(fact.line, True),
            Drained: lambda fact: clients.on_choked(fact.line, False),
            Closed: lambda fact: clients.on_closed(fact.line),
            Proven: lambda fact: clients.on_proven(fact.line, fact.ruling),
            PeerUp: lambda fact: around.on_up(fact.peer),
            PeerSaid: around.on_said,
            PeerGone: lambda fact: around.on_gone(fact.peer, fact.reason),
            Knocked: self.membership.knocked,
            DialFailed: lambda fact: around.on_dial_failed(fact.peer, fact.reason),
            PeerChoked: lambda fact: self.links.on_choked(fact.peer, True),
            PeerDrained: lambda fact: self.links.on_choked(fact.peer, False),
            StoreFailed: lambda fact: self._fail(f"the store cannot be written: {fact.reason}"),
            TimerFired: lambda fact: self._timers[fact.timer[0]](*fact.timer[1:]),
            Stopping: lambda fact: self._on_stopping(),
            LoadPlan: lambda fact: self.planes.load(fact.part),
            StartPlan: lambda fact: self.planes.start(fact.generation),
            SwitchPlan: lambda fact: self.renewing.switch(fact.generation),
            DropPlan: lambda fact: self.planes.drop(),
            Place: self.placing.take,
            Reload: self._reload,
            Block: lambda fact: self.links.block(fact.peers),
            Drain: lambda fact: self.draining.begin(),
            Remove: lambda fact: self.membership.remove(fact.node, self.lists.keepers(fact.node), fact.is_forced),
            Show: self._show,
        }

    def _made_timers(self) -> dict[str, Callable[..., None]]:
        around, planes, recovery, keeping = self.neighbourhood, self.planes, self.recovery, self.keeping
        return ({} if keeping is None else {RIDE_TIMER: keeping.on_ride, KEEP_TIMER: keeping.look}) | {
            TICK_TIMER: self._on_tick,
            MOVE_TIMER: self._on_move,
            ANSWER_TIMER: self._on_answer,
            PROOF_TIMER: self.clients.on_proof_over,
            BEAT_TIMER: self.links.on_beat,
            RETRY_TIMER: lambda peer: self.links.want([peer]),
            LINKS_TIMER: around.keep_links,
            DIAL_TIMER: around.dial_lower,
            SHED_TIMER: around.after_shedding,
            PLANE_TIMER: lambda generation, *name: planes.on_timer(generation, name),
            LOSE_TIMER: planes.on_unreachable,
            RETIRE_TIMER: planes.on_retire,
            HELD_TIMER: self.delivering.on_held,
            TAKE_TIMER: self.takeover.on_time,
            FORGET_TIMER: self.takeover.lacking.forget,
            WARD_TIMER: self.wards.look,
            DETOUR_TIMER: self.detours.on_late,
            OVERLAP_TIMER: self.detours.on_overlap_over,
            TELL_TIMER: self.detours.on_tell,
            ROUND_TIMER: lambda: recovery.on_timer(ROUND_TIMER),
            AUDIT_TIMER: lambda: recovery.on_timer(AUDIT_TIMER),
            ASK_TIMER: lambda: recovery.on_timer(ASK_TIMER),
            ALIVE_TIMER: self._on_alive,
            TRIM_TIMER: self.housekeeping.on_trim,
            MEMBER_TIMER: self.membership.on_time,
            TRANSFER_TIMER: self._on_transfer_late,
            ADOPT_TIMER: self.adopting.look,
            DRAIN_TIMER: self.draining.look,
            RENEW_TIMER: self.renewing.look,
        }

    @property
    def counts(self) -> Counts:
        self.way.settle()
        return self.tallied

    # --- the calls ---

    @property
    def may_pass(self) -> bool:
        """Whether `straight` is worth asking."""
        return self.is_alone or self.siblings is not None

    def straight(self, line: int, data: bytes, now_s: float) -> list[Order] | None:
        """A turn that is this chunk of a client and no more; None, and nothing has happened, if it is not so simple."""
        orders = None if self._is_stopped else self.way.take(line, data, now_s)
        if orders is not None and not self._is_ticking and self._has_deadlines():
            self._is_ticking = True
            orders.append(SetTimer((TICK_TIMER,), TICK_S))
        return orders

    def landed(self, peer: int, frames: list[tuple[int, bytes]], now_s: float) -> list[Order] | None:
        """The same for what a process of this machine said: what one client there did, and no more."""
        crossing = self.crossing
        if crossing is None or self._is_stopped or len(frames) != 1 or frames[0][0] != CONTROL:
            return None
        if self.clients.kept or self.pressure.lines or not self.links.knows(peer):
            return None  # somebody waits, and may not have to wait any longer
        orders = crossing.land(peer, frames[0][1], now_s)
        if orders is not None:
            self.links.heard(peer, (CONTROL,))
            if self.keeping is not None:
                self.keeping.heard(peer)
            self.neighbourhood.heard_count += 1
            if not self._is_ticking and self._has_deadlines():
                self._is_ticking = True
                orders.append(SetTimer((TICK_TIMER,), TICK_S))
        return orders

    def step(self, fact: Fact, now_s: float) -> list[Order]:
        turn = self.turn
        turn.now_s = now_s
        if self._is_stopped:
            return []
        # By far the most facts are messages and acknowledgements, and that something is safe.
        if type(fact) is Bytes:
            clients = self.clients
            if clients.fresh and self.transfers is not None and self.transfers.holds(fact.line, fact.data):
                return turn.take_orders()
            has_more = clients.on_bytes(fact.line, fact.data)
        elif type(fact) is Persisted:
            has_more = self._on_persisted(fact.batch)
        else:
            if self.way.used:
                self.way.settle()
            self._takers[type(fact)](fact)
            self._relieve()
            has_more = True
        if has_more:
            self._look_around()
        if self.links.shed:
            self.neighbourhood.note_shed()
        if not self._is_ticking and self._has_deadlines():
            self._is_ticking = True
            turn.set_timer((TICK_TIMER,), TICK_S)
        return turn.take_orders() if turn.orders else []

    def _look_around(self) -> None:
        """What one part has brought about that another one sees to."""
        sessions = self.sessions
        if self.siblings is not None:
            self.siblings.note_lasting(self.stored.is_used)
        if sessions.wills:
            self.publishing.publish_wills()
        if sessions.index.changes:
            self.following.follow()
        if self.admitting is not None and self.admitting.sending:
            self.clients.send_on()
        if self.membership.members.epoch != self._epoch:
            self._follow_members()
        if self.clients.kept:
            self.clients.let_go(self._persisted)
        if sessions.answers.owing and not self._is_answering:
            self._is_answering = True
            self.turn.set_timer((ANSWER_TIMER,), 0.0)

    @property
    def has_turn(self) -> bool:
        """Whether `end_turn` has anything to do; what is only to be forgotten waits for company."""
        clients, stored, links = self.clients, self.stored, self.links
        return bool(
            self.sessions.dirty
            or clients.touched
            or self.turn.writes
            or stored.has_news
            or links.dirty
            or (self.crossing is not None and self.crossing.has_any)
            or clients.ending
            or links.ending
            or self.sessions.closing
            or self.sessions.retained.journal
            or self.turn.orders
        )

    def end_turn(self, now_s: float) -> list[Order]:
        turn = self.turn
        turn.now_s = now_s
        if self._is_stopped:
            return []
        if self.sessions.retained.journal:
            self.words.end_turn()
        if self.stored.entries or self.stored.later:
            self.stored.end_turn()
        if self.crossing is not None and self.crossing.has_any:
            self.crossing.flush()
        writes, batch, links = turn.writes, self._batch + 1, self.links
        if self.keeping is not None and writes and not self.keeping.is_idle:
            self.keeping.take(writes)
        orders: list[Order] = []
        then: list[Order] = []  # waits for what is written in this turn, or was before
        if self.crossing is not None and links.dirty:  # what others are told leaves before it is acknowledged here
            links.end_turn(orders, then, self._persisted, batch, bool(writes))
        self.clients.end_turn(orders, then, self._persisted, batch, bool(writes))
        if links.dirty or links.ending:
            links.end_turn(orders, then, self._persisted, batch, bool(writes))
        if writes or then:
            if self._batch > self._persisted:
                self.pressure.handed_over(batch, writes)
            self._batch, turn.batch = batch, batch + 1
            turn.writes = []
            orders.append(Persist(batch, writes, then))
        if turn.orders:
            orders += turn.take_orders()
        return orders

    def may_link(self, peer: int) -> bool:
        """For the driver, before it greets a node that connects, and before it connects to one."""
        return self.links.may_link(peer)

    # --- facts that concern all ---

    def _on_booted(self, fact: Booted) -> None:
        saved, turn = fact.saved, self.turn
        self.life = fact.life
        if self.siblings is not None:
            self.siblings.start()
        if self.transfers is not None:
            self.transfers.start(fact.life)
        self.gate.set(self.setup.limits, turn.now_s)
        self.sessions.name_clients(f"{self.setup.name}-{fact.life}-")
        last = self._shelf.between(
            LOG, self.identifiers.first, self.identifiers.first | TIME_MASK, 1, newest_first=True
        )  # fmt: skip
        mine = [
            int(key) for key, _ in saved.rows(MESSAGES) if isinstance(key, int) and origin_of(key) == self.setup.node
        ]
        self.identifiers.start(max([last[0][0] if last else 0, *mine]))
        self.housekeeping.start(saved)
        self.copies.load(saved)
        self.lists.load(saved)
        self.marks.load(saved)
        self.delivering.start(self.marks.heads)
        self.last.load(saved)
        self.interest.load(saved)
        self.words.load(saved)
        self.placing.load(saved)
        self.planes.load_saved(saved)
        self.membership.load(saved)
        self._start_network()
        if self.admitting is not None:
            self.admitting.start(fact.life)
        self.interest.start(fact.life, is_first=not self.housekeeping.alive_us)
        self.detours.start(fact.life, is_first=not self.housekeeping.alive_us)
        for session in self.stored.load(saved, self.sessions.options):
            if session.expires_at_s is None and session.will_due_s is None:  # its client was connected then
                session.detach(turn.now_s, with_will=True)
            self.sessions.restore(session, turn.now_s)
        self.following.restore()
        self.takeover.resume()
        self.recovery.start(self.housekeeping.alive_us, saved)
        turn.set_timer((MOVE_TIMER,), MOVE_S)

    def _start_network(self) -> None:
        self.planes.in_use.enter_use()
        self.planes.in_use.start()
        if not self.is_alone:
            self.links.start()
            self.planes.subscribe(RETAINED_CHANNEL)
            self.planes.resume()
            self.neighbourhood.keep_links()
        if self.keeping is not None:
            self.keeping.start(self.life)
            self.wards.start()
        if not self.is_alone:
            self.membership.start()

    def _follow_members(self) -> None:
        members = self.membership.members
        self._epoch = members.epoch
        self.adopting.set_members(members)
        self.draining.set_members(members)
        self.renewing.set_members()
        if self.siblings is not None:
            self.siblings.set_members()

    def _on_socket(self, fact: GotSocket) -> None:
        if self.transfers is not None:
            self.transfers.on_socket(fact)

    def _on_transfer_late(self) -> None:
        if self.transfers is not None:
            self.transfers.on_time()

    def _on_persisted(self, batch: int) -> bool:
        """Whether anybody may have waited for it."""
        self._persisted = self.links.persisted = self.turn.persisted = max(self._persisted, batch)
        self.pressure.safe(batch)
        if self.pressure.lines:
            self._relieve()
            return True
        return bool(self.clients.kept)

    def _relieve(self) -> None:
        """Whether publishers wait no longer; what others than clients brought is nobody's fault."""
        self.sessions.budget.is_pressed = self.links.is_pressed = False
        if self.pressure.lines:
            for connection in self.pressure.look():
                self.clients.throw_out(connection, Reason.QUOTA_EXCEEDED)

    def _fail(self, reason: str) -> None:
        self._is_stopped = True
        self.turn.orders = [Fail(reason)]

    def _on_stopping(self) -> None:
        self.clients.stop()
        if self.crossing is not None:
            self.crossing.close()
        self.housekeeping.note_alive()
        self.stored.end_turn(is_pressing=True)
        self.planes.stop()
        self.links.close()
        if self.journal is not None and (lines := self.journal.close(self.turn.now_s)):
            self.turn.orders.append(Note(lines))

    # --- time ---

    def _has_deadlines(self) -> bool:
        return bool(
            self.sessions.deadline_s is not None
            or self.moving.is_busy
            or self.pressure.lines
            or self.admitting is not None
            or (self.journal is not None and self.journal.has_lines)
            or self.way.used
        )

    def _on_tick(self) -> None:
        self._is_ticking = False
        self.sessions.on_time(self.turn.now_s)
        self.moving.on_time()
        if self.admitting is not None:
            self.admitting.on_time()
        self.stored.end_turn(is_pressing=True)
        if self.journal is not None and self.journal.has_lines:
            self.turn.orders.append(Note(self.journal.take_lines()))

    def _on_alive(self) -> None:
        if self.crossing is not None:
            self.crossing.ask_all()
        self.housekeeping.on_alive(self.neighbourhood.heard_count + self.counts.events_out)

    def _on_answer(self) -> None:
        """Another part of the retained messages that subscriptions are owed; others have their turn in between."""
        is_taken = self.sessions.answer_on(self.turn.now_s)
        self._is_answering = bool(self.sessions.answers.owing)
        if self._is_answering:
            self.turn.set_timer((ANSWER_TIMER,), 0.0 if is_taken else ANSWER_AGAIN_S)

    def _on_move(self) -> None:
        self.clients.move()
        self.turn.set_timer((MOVE_TIMER,), MOVE_S)

    # --- commands ---

    def _show(self, command: Show) -> None:
        for topic, text in command.figures.items():
            self.publishing.show(topic, text)

    def _reload(self, command: Reload) -> None:
        self.clients.connections_max = command.connections_max
        self.gate.set(command.limits, self.turn.now_s)
        self.sessions.set_options(command.options)
        changed = self.access.set(command.access, command.passwords, command.token_key)
        self.clients.review(changed)
