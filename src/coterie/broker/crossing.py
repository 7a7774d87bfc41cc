"""What crosses from one process of a machine to another: the messages of a turn as runs, one frame for each sibling.

At QoS 0 a run is the bytes as they came. At QoS 1, to clients whose sessions end with their connections, nothing is
written: it shares the fate of the sessions it is for, as on a node that is alone. It leaves for the siblings before
PUBACK leaves for the publisher, and what was told to a process of the same machine arrives though the teller dies, once
the system has it. It takes it at once as long as little is on the way (`ROOM_BYTES`); with more PUBACK waits until the
sibling says that it has it. What a sibling has not confirmed when its link breaks is written into the log after all,
behind which PUBACK waits as ever, and found there as whatever is missed is found. Both name the publication before them
on their topic, so order and gaps are seen to by `ordering`, whichever way a message came.
"""

from __future__ import annotations

from collections import deque

from coterie.broker.arrivals import ComingSessions
from coterie.broker.carried import TIME_MASK, Carried, Identifiers, encode_carried
from coterie.broker.counts import Counts
from coterie.broker.delivering import Delivering, RecentEvents
from coterie.broker.frames import Detoured, control_frame, decode_control, encode_control
from coterie.broker.lastpublished import LastPublished
from coterie.broker.links import PeerLinks
from coterie.broker.marks import Marks
from coterie.broker.orders import Order, Write
from coterie.broker.said import BareRun, OwedRun, SiblingRuns, SiblingTook
from coterie.broker.turn import Turn
from coterie.broker.writes import LOG, MESSAGES
from coterie.errors import RemoteProtocolError
from coterie.mqtt.fanout import fan_out, fan_out_run
from coterie.mqtt.packets import Publish
from coterie.mqtt.properties import NO_PROPERTIES
from coterie.mqtt.publish import Message, PublishRun
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions

FRAME_BYTES = 1 << 20  # about so much goes into one
ROOM_BYTES = 64 << 10  # what a socket's buffer has room for, with a good deal to spare
ASK_BYTES = 16 << 10  # with more than so much not confirmed, a sibling is asked for its word
ASKING = control_frame(SiblingRuns(0, []))
# How a frame begins that is one bare run and no more: all that stands before its topic.
ONE_BARE = encode_control(SiblingRuns(0, [BareRun("", b"", 0, 0, 0, 0)])).partition(b"\xa0")[0]
LANDINGS_MAX = 1024
Run = BareRun | OwedRun
Places = tuple[int, ...]


class Crossings:
    """See the module. `serial` is that of the last frame in which somebody was owed something."""

    def __init__(
        self, node: int, others: Places, sessions: Sessions, delivering: Delivering, arrivals: ComingSessions,
        recent: RecentEvents, marks: Marks, last: LastPublished, identifiers: Identifiers, links: PeerLinks,
        counts: Counts, turn: Turn,
    ) -> None:  # fmt: skip
        self._node, self._others, self._sessions, self._delivering = node, others, sessions, delivering
        self._arrivals, self._recent, self._marks, self._last = arrivals, recent, marks, last
        self._identifiers, self._links, self._counts, self._turn = identifiers, links, counts, turn
        self.serial = 0
        self.up: set[int] = set()
        self._runs: list[tuple[Places, Run]] = []  # of this turn
        self._size = 0
        self._is_owed = False  # whether one of them is an `OwedRun`
        self._open: dict[int, deque[tuple[int, list[OwedRun], int]]] = {one: deque() for one in others}
        self._doubtful: dict[int, deque[int]] = {one: deque() for one in others}  # serials that wait for its word
        self._sent = dict.fromkeys(others, 0)  # bytes so far
        self._there = dict.fromkeys(others, 0)  # and how many of them it has, as far as it said
        self._logging: deque[tuple[int, int]] = deque()  # a serial, and the batch with what was not confirmed of it on
        self._took: dict[int, int] = {}  # whom to tell
        self._heard: dict[int, int] = {}  # the last serial of each
        # By topic, as of a version of the index: who wants it here, if they are nothing special.
        self._landings: dict[str, tuple[int, tuple[Session, ...] | None]] = {}

    # --- out ---

    @property
    def has_any(self) -> bool:
        """Whether something is to be told when the turn ends."""
        return bool(self._runs or self._took)

    @property
    def safe(self) -> int:
        """Up to which serial everything is where it should be."""
        if not self._logging and not any(self._doubtful.values()):  # mostly
            return self.serial
        while self._logging and self._logging[0][1] <= self._turn.persisted:
            self._logging.popleft()
        first = [one[0] for one in self._doubtful.values() if one] + [one for one, _ in self._logging]
        return min(first) - 1 if first else self.serial

    def can_reach(self, nodes: Places) -> bool:
        return self.up.issuperset(nodes)

    def add_bare(self, nodes: Places, run: PublishRun) -> None:
        first = self._identifiers.take(self._turn.now_us, run.count)
        self._runs.append((nodes, BareRun(run.topic, run.frames, run.count, run.payload_bytes, run.version, first)))
        self._grow(len(run.frames))

    def add_owed(self, nodes: Places, publisher: str, message: Message) -> int:
        """Returns the serial that its acknowledgement has to wait for."""
        topic, identifier, self._is_owed = message.topic, message.id, True
        runs = self._runs
        if runs:
            to, run = runs[-1]
            if type(run) is OwedRun and to is nodes and run.topic == topic and run.publisher == publisher:
                run.ids.append(identifier)
                run.payloads.append(message.payload)
                self._last.of[topic] = identifier
                return self._grow(len(message.payload))
        before = self._last.of.get(topic, 0)
        self._last.of[topic] = identifier
        runs.append((nodes, OwedRun(topic, publisher, before, [identifier], [message.payload])))
        return self._grow(len(message.payload))

    def _grow(self, size: int) -> int:
        serial = self.serial + 1
        self._size += size + 32
        if self._size > FRAME_BYTES:
            self.flush()
        return serial

    def send(self, nodes: Places, body: bytes) -> None:
        """A message that the log has, or that nobody is owed, by itself; behind what was said before it."""
        if self._runs:
            self.flush()
        self._tell(nodes, control_frame(Detoured(body)))

    def _tell(self, nodes: Places, data: bytes) -> None:
        """What nobody is owed anything of."""
        for node in nodes:
            self._sent[node] += len(data)
            if not self._links.send(node, data, is_event=True):
                self._links.shed[node] = None

    def flush(self) -> None:
        """Tell each sibling what it wants of what was said since the last time, and what is here of theirs."""
        runs, self._runs, self._size = self._runs, [], 0
        is_owed, self._is_owed = self._is_owed, False
        self.serial += is_owed
        if len(runs) == 1 and not is_owed:  # a chunk of one client, mostly
            nodes, run = runs[0]
            self._tell(nodes, control_frame(SiblingRuns(0, [run])))
        elif runs:
            made: dict[Places, bytes] = {}
            for node in self._others:
                which = tuple(number for number, (nodes, _) in enumerate(runs) if node in nodes)
                if which:
                    self._send(node, which, runs, is_owed, made)
        if self._took:
            took, self._took = self._took, {}
            for node, serial in took.items():
                self._links.send(node, control_frame(SiblingTook(serial)))

    def _send(
        self, node: int, which: Places, runs: list[tuple[Places, Run]], is_owed: bool, made: dict[Places, bytes]
    ) -> None:
        mine = [runs[number][1] for number in which]
        owed = [run for run in mine if type(run) is OwedRun] if is_owed else []
        if owed and node not in self.up:
            self._log_all(self.serial, owed)
            self._links.shed[node] = None
            return
        data = made.get(which)
        if data is None:
            data = made[which] = control_frame(SiblingRuns(self.serial if owed else 0, mine))
        self._sent[node] += len(data)
        if not self._links.send(node, data, is_event=not owed):
            self._links.shed[node] = None
        if owed:
            self._open[node].append((self.serial, owed, self._sent[node]))
            self._ask(node)

    def _ask(self, node: int) -> None:
        """Whether what was just sent is there for sure; or wait for its word."""
        under_way = self._sent[node] - self._there[node]
        if self._links.is_choked(node) or under_way > ROOM_BYTES:
            self._doubtful[node].append(self.serial)
        elif under_way <= ASK_BYTES:
            return
        self._links.send(node, ASKING)
        if self._links.is_behind(node):
            self._links.is_pressed = True

    def ask_all(self) -> None:
        """Now and then: what was confirmed need not be remembered."""
        for node, waiting in self._open.items():
            if waiting:
                self._links.send(node, ASKING)

    # --- whether they have it ---

    def took(self, peer: int, said: SiblingTook) -> None:
        if peer not in self._open:
            return
        waiting, doubtful = self._open[peer], self._doubtful[peer]
        while waiting and waiting[0][0] <= said.serial:
            self._there[peer] = waiting.popleft()[2]
        while doubtful and doubtful[0] <= said.serial:
            doubtful.popleft()

    def reached(self, peer: int) -> None:
        if peer in self._open:
            self.up.add(peer)
            self._there[peer] = self._sent[peer]
            self._heard.pop(peer, None)

    def lost(self, peer: int) -> int:
        """What it did not confirm goes into the log; returns when the oldest of that was published, 0 for nothing."""
        self.up.discard(peer)
        waiting = self._open.get(peer)
        if not waiting:
            return 0
        oldest, first = waiting[0][1][0].ids[0] & TIME_MASK, waiting[0][0]
        self._log_all(first, [run for _, runs, _ in waiting for run in runs])
        waiting.clear()
        self._doubtful[peer].clear()
        return oldest

    def _log_all(self, serial: int, runs: list[OwedRun]) -> None:
        self._logging.append((serial, self._turn.batch))
        for run in runs:
            self._log(run)

    def _log(self, run: OwedRun) -> None:
        writes, before, name = self._turn.writes, run.before, run.topic.encode()
        for identifier, payload in zip(run.ids, run.payloads, strict=True):
            message = Message(run.topic, payload, 1, False, NO_PROPERTIES, None, run.publisher, identifier, before)
            writes.append((LOG, identifier, name))
            writes.append((MESSAGES, identifier, encode_carried(identifier, message, 1)))
            before = identifier
        self._last.keep(run.topic)

    def close(self) -> None:
        """The node stops: what is not confirmed by now is not waited for."""
        self.flush()
        for peer in self._others:
            self.lost(peer)

    # --- in ---

    def hear(self, peer: int, said: SiblingRuns) -> None:
        for run in said.runs:
            if type(run) is BareRun:
                self._take_bare(peer, run)
            elif type(run) is OwedRun and run.ids and len(run.ids) == len(run.payloads):
                self._take_owed(peer, run)
        if said.serial:
            self._heard[peer] = said.serial
        elif not said.runs and peer in self._heard:
            self._took[peer] = self._heard[peer]

    def land(self, peer: int, body: bytes, now_s: float) -> list[Order] | None:
        """The orders of a turn that is one bare run for clients who are there and need nothing kept; None, and nothing
        has happened, if it has to go the long way (`straight`)."""
        if not body.startswith(ONE_BARE):
            return None
        try:
            said = decode_control(body)
        except RemoteProtocolError:
            return None
        run = said.runs[0] if type(said) is SiblingRuns else None
        if type(run) is not BareRun:
            return None
        topic, delivering = run.topic, self._delivering
        landing = self._landings.get(topic)
        if landing is None or landing[0] != self._sessions.index.version:
            landing = self._new_landing(topic)
        receivers = landing[1]
        if receivers is None or delivering.ordering.holds(peer, topic):
            return None
        found: list[Order] = []
        frames, version, persisted = run.frames, run.version, self._turn.persisted
        for session in receivers:  # as `StraightWay.take` has it, written out: it is the hottest loop of a node
            receiver = session.connection
            if (
                session.plain_version != version
                or receiver is None
                or session.output
                or receiver.held_serial
                or receiver.held_batch > persisted
            ):
                return None
            found.append(Write(receiver.line, [frames]))
        self._turn.now_s = now_s
        if delivering.is_late(peer, topic, run.first + run.count - 1):
            self._counts.late_dropped += run.count
            return []
        self._count(run.first, run.count, run.count * len(receivers))
        self._counts.bytes_out += len(frames) * len(receivers)
        return found

    def _new_landing(self, topic: str) -> tuple[int, tuple[Session, ...] | None]:
        index = self._sessions.index
        match = index.matches(topic)
        is_simple = not match.groups and all(one.is_plain for one in match.receivers)
        receivers = tuple(one.receiver for one in match.receivers) if is_simple else None
        if len(self._landings) >= LANDINGS_MAX:
            self._landings.clear()
        landing = self._landings[topic] = index.version, receivers
        return landing

    def _take_bare(self, origin: int, run: BareRun) -> None:
        match = self._sessions.index.matches(run.topic)
        publishes = PublishRun(run.topic, run.frames, run.count, run.payload_bytes, run.version)
        if match.groups or self._delivering.ordering.holds(origin, run.topic):
            for number, one in enumerate(publishes.publishes()):
                self._delivering.take_direct(_carried(run.first + number, one))
            return
        if self._delivering.is_late(origin, run.topic, run.first + run.count - 1):
            self._counts.late_dropped += run.count
            return
        delivered = fan_out_run(publishes, match, None, self._sessions.dirty, self._turn.now_s)
        self._count(run.first, run.count, delivered)

    def _take_owed(self, origin: int, run: OwedRun) -> None:
        marks, topic, ids = self._marks, run.topic, run.ids
        match = self._sessions.index.matches(topic)
        ordering = self._delivering.ordering
        is_next = marks.is_next(origin, topic, run.before, ids[0]) and not ordering.holds(origin, topic)
        if not is_next or match.groups or self._arrivals.of or ids != sorted(ids):
            before = run.before
            for identifier, payload in zip(ids, run.payloads, strict=True):
                carried = Carried(identifier, topic, payload, 1, False, run.publisher, before=before)
                self._delivering.take_direct(carried)
                before = identifier
            return
        marks.pass_lightly(origin, topic, ids[-1])
        dirty, now_s, delivered, before = self._sessions.dirty, self._turn.now_s, 0, run.before
        for identifier, payload in zip(ids, run.payloads, strict=True):
            message = Message(topic, payload, 1, False, NO_PROPERTIES, None, run.publisher, identifier, before)
            delivered += fan_out(message, match, None, dirty, now_s)
            before = identifier
            if self._recent.is_watched:
                self._recent.note(identifier, now_s)
        self._count(ids[0], len(ids), delivered)

    def _count(self, first: int, count: int, delivered: int) -> None:
        counts = self._counts
        counts.events_in += count
        counts.messages_out += delivered
        counts.fan_out.add(delivered // count, count)
        if delivered:
            counts.late_us.add(max(0, self._turn.now_us - (first & TIME_MASK)), delivered)


def _carried(identifier: int, publish: Publish) -> Carried:
    return Carried(identifier, publish.topic, publish.payload)
