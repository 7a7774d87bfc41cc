"""Acknowledged means kept: what this node writes is on other nodes' disks before a client is told that it is safe.

The *keepers* of a node are the first `copies` - 1 others in an order that is its own (rendezvous hashing, other zones
first). What a turn writes goes to each of them in one `Keep`, behind the node's own disk; `Kept` comes back, and what
waits for it leaves. What nobody waits for rides with the next one, or goes by itself after `RIDE_S`. A keeper that is
silent is replaced by the next in the order: it gets everything but the log at once, and the log from its end backwards
while batches go on. With too few nodes in reach for `short_s` the node goes on with those there are, and says so.

Only this node decides who its keepers are, and tells everybody (`KeptBy`, with a version): it is the only one that
writes its copies, so nothing has to be agreed upon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from coterie.broker.carried import TIME_BITS, TIME_MASK
from coterie.broker.copies import COPIED, SMALL, delivery_row, log_stretch, pack_rows, whole_in_parts
from coterie.broker.copykeeper import SILENT_S, CopyKeeper, put_off
from coterie.broker.frames import CONTROL, AskKept, Keep, Kept, KeptBy, encode_control, frame
from coterie.broker.keeperlists import KeeperLists
from coterie.broker.links import PeerLinks
from coterie.broker.settings import DurabilitySection
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import DELIVERIES, LOG, MESSAGES, Between, Key, Shelf, StoreWrite

RIDE_S = 0.05
LOOK_S = 0.5
TRIED_S = 4.0  # one that answered so long ago is not out of reach for long
REACH_S = 0.4  # one that has nothing yet and cannot be reached for so long, too; or does not answer where others do
DIALLED_MAX = 8  # at once, of those who could take somebody's place
QUEUE_BYTES_MAX = 16 << 20
UNSAFE_US = 60_000_000  # what is older than this at the end of a life was kept, or acknowledged with too few
NO_TAIL = 1 << 62
PART_BYTES = 512 << 10
RIDE_TIMER, KEEP_TIMER = "ride", "keep"
_Firm = tuple[int, float, Callable[[], None]]  # what is done when that serial is kept, or if too few are there then


class Keeping:
    """See the module. `safe` is the last serial that is kept as it should be."""

    def __init__(
        self, node: int, order: list[int], settings: DurabilitySection, lists: KeeperLists, links: PeerLinks,
        talk: Talk, shelf: Shelf, turn: Turn,
    ) -> None:  # fmt: skip
        self.wanted = self.need = min(settings.copies - 1, len(order))
        self.serial = self.safe = 0
        self.life = 0
        self.sent_bytes = self.sent_count = self.replaced_count = 0
        self.keepers: dict[int, CopyKeeper] = {}
        self._tail = NO_TAIL  # keepers must have the log from there on before anything counts as kept
        self._node, self._order, self._settings = node, order, settings
        self._lists, self._links, self._talk, self._shelf, self._turn = lists, links, talk, shelf, turn
        self._pending: dict[tuple[str, Key | Between], bytes | None] = {}
        # What some keeper has not answered yet: serial, frame, and the first of the log in it (0: nothing is).
        self._queue: deque[tuple[int, bytes, int]] = deque()
        self._queue_bytes = 0
        self._away: dict[int, None] = {}  # peers that did not answer, who was tried last at the end
        self._answered_s: dict[int, float] = {}  # who could keep: when it said so
        self._asked: dict[int, int] = {}  # peer -> so often was something said to it that it answers, over this link
        self._answered: dict[int, int] = {}  # and so often it did
        self._failed: dict[int, None] = {}  # the same, until they answer: who is heard need not hear us; last one last
        self._lack_s: dict[int, float] = {}  # so many keepers -> since when there are fewer
        self._tried_s = -TRIED_S  # when somebody answered that was not good yet, while there were too few
        self._is_riding = self._is_looking = self._is_started = False
        self._is_awaited = False  # somebody waits for what this turn writes
        self._told: tuple[int, ...] = ()
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._firm: deque[_Firm] = deque()
        self._patient: deque[_Firm] = deque()  # what waits longer where there are few

    def start(self, life: int) -> None:
        self.life = life
        self._is_started = True
        # Of the last life's log the end may be here alone. A client that sends it again is told that it is known.
        newest, unsafe_us = self._newest(), UNSAFE_US if self._settings.short == "go on" else TIME_MASK
        self._tail = max(newest - unsafe_us, 1) if newest else NO_TAIL
        before = [peer for peer in self._lists.keepers(self._node) if peer in self._order]
        self._order = list(dict.fromkeys((*before, *self._order)))  # who has something of this node goes on keeping it
        if self.wanted:
            self.look()

    @property
    def is_idle(self) -> bool:
        """Nobody keeps anything for this node, and nobody shall."""
        return not self.wanted and not self.keepers

    @property
    def is_whole(self) -> bool:
        """Whether as many as are wanted have all of it, the log included."""
        whole = [one for one in self.keepers.values() if one.is_current and one.acked >= self.serial and not one.fill]
        return not self._pending and len(whole) >= max(1, self.wanted)

    def set_order(self, order: list[int], at_least: int = 0) -> None:
        """Members come and go: these may keep from now on. Who keeps and may still do so, goes on."""
        self._order = order
        before, self.wanted = self.wanted, min(max(self._settings.copies - 1, at_least), len(order))
        self.need = min(self.need + max(0, self.wanted - before), self.wanted)
        for peer in [peer for peer in self.keepers if peer not in order]:
            del self.keepers[peer]
            self.replaced_count += 1
        self._away = {peer: None for peer in self._away if peer in order}
        self._failed = {peer: None for peer in self._failed if peer in order}
        while len(self.keepers) > self.wanted:
            self.keepers.popitem()
        if self._is_started:
            self.look()

    @property
    def is_short(self) -> bool:
        """Whether less is kept than was asked for."""
        return self.need < self.wanted

    @property
    def good(self) -> list[int]:
        """The keepers that have what they should have, or will in a moment."""
        late_s = self._turn.now_s - SILENT_S
        return [
            peer for peer, one in self.keepers.items()
            if one.is_current and one.acked >= 0 and (one.waits_s is None or one.waits_s > late_s)
        ]  # fmt: skip

    # --- what is written ---

    def take(self, writes: list[StoreWrite]) -> None:
        """The writes of a turn; the last word on a key is enough."""
        pending = self._pending
        for table, key, value in writes:
            if table in COPIED:
                pending.pop((table, key), None)
                pending[table, key] = value
        if self._is_awaited:
            self._is_awaited = False
            self.flush()
        elif pending and not self._is_riding:
            self._is_riding = True
            self._turn.set_timer((RIDE_TIMER,), RIDE_S)

    def flush(self) -> int:
        """Send what there is; returns the serial that covers it."""
        if not self._pending:
            return self.serial
        rows, size = [], 0
        for (table, key), value in self._pending.items():
            rows.append((table, key, value))
            size += 64 + (0 if value is None else len(value))
            if size > PART_BYTES:
                self._send(rows)
                rows, size = [], 0
        if rows:
            self._send(rows)
        self._pending = {}
        return self.serial

    def _send(self, rows: list[StoreWrite]) -> None:
        self.serial += 1
        data = encode_control(Keep(self.life, self.serial, self._turn.now_us, pack_rows(rows)))
        if self.keepers:
            logged = [key for table, key, _ in rows if table == LOG and isinstance(key, int)]
            self._queue.append((self.serial, data, min(logged, default=0)))
            self._queue_bytes += len(data)
        for peer, one in self.keepers.items():
            if one.is_current:
                self._put(peer, one, data)
        self._update()
        if self._queue_bytes > QUEUE_BYTES_MAX:
            self._forget_queue()

    def _put(self, peer: int, one: CopyKeeper, data: bytes, is_answered: bool = True) -> None:
        if one.waits_s is None:
            one.waits_s = self._turn.now_s
        self.sent_count += 1
        self.sent_bytes += len(data)
        if self._links.send(peer, frame(CONTROL, data)):
            self._asked[peer] = self._asked.get(peer, 0) + is_answered
        self._watch()

    def on_ride(self) -> None:
        self._is_riding = False
        self.flush()

    def when_kept(self, then: Callable[[], None]) -> None:
        """Do this when what this turn writes is kept as it should be."""
        if self.is_idle:
            then()
        else:
            self._waiting.append((self.serial + 1, then))
            self._is_awaited = True

    def when_firm(self, then: Callable[[], None], is_new: bool, until_s: float = 0.0) -> None:
        """Do this when what was written, or (`is_new`) is in this turn, is kept by as many as should or can.

        With too few in reach that is at once; not before `until_s`, for who can wait for more.
        """
        if self.is_idle:
            then()
        else:
            waiting = self._patient if until_s else self._firm
            waiting.append((self.serial + (is_new or bool(self._pending)), until_s, then))
            self._is_awaited |= is_new
            self._watch()

    def _firm_up(self) -> None:
        for waiting in (self._firm, self._patient):
            while waiting and self._is_firm(*waiting[0][:2]):
                waiting.popleft()[2]()

    def _is_firm(self, serial: int, until_s: float) -> bool:
        having = sum(one.is_current and one.acked >= serial for one in self.keepers.values())
        may_do = self.is_short and not self._is_trying() and self._turn.now_s >= until_s
        return self.serial >= serial and (having >= self.wanted or may_do)

    # --- what keepers say ---

    def on_kept(self, peer: int, said: Kept) -> None:
        self.heard(peer)
        self._failed.pop(peer, None)
        self._answered[peer] = self._answered.get(peer, 0) + 1
        if self._lack_s and peer not in self.good:
            self._tried_s = self._turn.now_s
        one = self.keepers.get(peer)
        if one is None:
            self._answered_s[peer] = self._turn.now_s
            return
        if self._answered[peer] < one.asked:
            return
        if not one.is_current:
            self._begin(peer, one, said)
            return
        if said.life != self.life or said.serial < one.acked:
            if one.acked >= 0:  # it has lost what it had
                self.lost(peer)
            return
        one.acked = said.serial
        one.waits_s, one.leaves = None if said.serial >= self.serial else self._turn.now_s, 0
        self._fill_on(peer, one, said)
        one.lacks_tail = bool(one.fill) and said.log_first > self._tail
        if self._lack_s:  # one more may be good now: from here on it is waited for, however short that was
            self._judge_count()
        self._update()
        self._announce()

    def _begin(self, peer: int, one: CopyKeeper, said: Kept) -> None:
        """It has answered what it has: go on from there, or give it everything."""
        one.is_current, one.waits_s, one.leaves = True, None, 0
        first = self._queue[0][0] if self._queue else self.serial + 1
        if said.life == self.life and first - 1 <= said.serial <= self.serial:
            one.acked = said.serial
            self._resend(peer, one, said.serial)
            one.fill = [(self._node << TIME_BITS, said.log_first - 1)]
            self._fill_on(peer, one, said)
            one.lacks_tail = bool(one.fill) and said.log_first > self._tail
            self._update()
            self._announce()
            return
        base, newest = self._node << TIME_BITS, self._newest()
        # What is not safe yet comes behind everything, serial by serial: so the log is whole from there on at once.
        coming = [first for serial, _, first in self._queue if serial > self.safe and first]
        last = min([newest or base, *(first - 1 for first in coming)])
        one.acked = -1
        has_some = base <= said.log_first <= said.log_last
        one.fill = [(said.log_last + 1, last), (base, said.log_first - 1)] if has_some else [(base, last)]
        one.fill = [(low, high) for low, high in one.fill if low <= high]
        self._send_all(peer, one, last)

    def _newest(self) -> int:
        """The end of this node's log; 0: there is none."""
        base = self._node << TIME_BITS
        newest = self._shelf.between(LOG, base, base | TIME_MASK, 1, newest_first=True)
        return newest[0][0] if newest else 0

    def _send_all(self, peer: int, one: CopyKeeper, log_last: int) -> None:
        """What the store holds, as of the last serial that is safe; then again all that was written since.

        Rows may already be newer than that: written twice they are the same in the end. But the log that nobody else
        has must not wait until it is filled in.
        """
        for said in whole_in_parts(self._everything(), self.life, self.safe, self._turn.now_us, log_last):
            self._put(peer, one, encode_control(said), said.is_last)
        self._resend(peer, one, self.safe)

    def _resend(self, peer: int, one: CopyKeeper, behind: int) -> None:
        for serial, data, _ in self._queue:
            if serial > behind:
                self._put(peer, one, data)

    def _everything(self) -> Iterable[StoreWrite]:
        for table in SMALL:
            for key, value in self._shelf.rows(table):
                yield table, key, value
                if table == DELIVERIES:
                    message = delivery_row(value).message
                    body = self._shelf.get(MESSAGES, message)
                    if body is not None:
                        yield MESSAGES, message, body

    def _fill_on(self, peer: int, one: CopyKeeper, said: Kept) -> None:
        """The next stretch of the log, downwards from its end; one at a time."""
        while one.fill and one.fill[0][0] >= said.log_first:
            one.fill.pop(0)
        if not one.fill or one.acked < 0:
            return
        low, high = one.fill[0][0], min(one.fill[0][1], said.log_first - 1 if said.log_first > 1 else one.fill[0][1])
        self._put(peer, one, encode_control(log_stretch(self._shelf, (LOG, MESSAGES), low, high)))

    def _update(self) -> None:
        """How far what is written is kept."""
        counted = sorted((one.acked for one in self.keepers.values() if one.counts), reverse=True)
        if not self.need:
            self.safe = self.serial
        elif len(counted) >= self.need:
            self.safe = max(self.safe, counted[self.need - 1])
        if self.safe:
            self._tail = NO_TAIL
        while self._waiting and self._waiting[0][0] <= self.safe:
            self._waiting.popleft()[1]()
        if self._firm or self._patient:
            self._firm_up()
        # What is not safe yet is sent again to whoever gets everything, even if all had it before they fell.
        done = min((one.acked for one in self.keepers.values()), default=self.serial)
        while self._queue and self._queue[0][0] <= min(done, self.safe):
            self._queue_bytes -= len(self._queue.popleft()[1])

    def _forget_queue(self) -> None:
        """Somebody is too far behind: it will get everything when it is back. What is not safe yet is not forgotten."""
        while self._queue and self._queue[0][0] <= self.safe:
            serial, data, _ = self._queue.popleft()
            self._queue_bytes -= len(data)
            for one in self.keepers.values():
                if one.acked < serial:
                    one.is_current, one.acked = False, -1

    # --- who keeps ---

    def heard(self, peer: int) -> None:
        if peer in self._away:
            del self._away[peer]
            self._watch()

    def reached(self, peer: int) -> None:
        """A link is there."""
        self.heard(peer)
        self._asked[peer] = self._answered[peer] = 0
        one = self.keepers.get(peer)
        if one is not None:
            one.reached_s, one.leaves = self._turn.now_s, 0
            self._ask_anew(peer, one)
        elif len(self.keepers) < self.wanted:
            self.look()

    def lost(self, peer: int) -> None:
        one = self.keepers.get(peer)
        if one is not None:
            one.is_current, one.asked = False, self._next_answer(peer)
            if one.waits_s is None:
                one.waits_s = self._turn.now_s
            if self._links.is_connected(peer):
                self._ask(peer, one)
            self._watch()

    def unreachable(self, peer: int) -> None:
        """It cannot be dialled."""
        if peer in self._order:
            self._away.pop(peer, None)
            self._away[peer] = None
            self._watch()

    def look(self) -> None:
        """Replace who is silent, ask who is missing, notice when there are too few."""
        self._is_looking = False
        now_s, had = self._turn.now_s, list(self.keepers)
        if put_off(self.keepers, self._links, now_s):
            self._lack_s = dict.fromkeys(self._lack_s, now_s)
        for peer, one in list(self.keepers.items()):
            if self._is_late(peer, one) and any(self._is_free(other) for other in self._order):
                del self.keepers[peer]
                self._away[peer] = None
                self._failed.pop(peer, None)
                self._failed[peer] = None
                self.replaced_count += 1
        while len(self.keepers) < self.wanted:
            free = [peer for peer in self._order if self._is_free(peer)]
            free = [peer for peer in free if self._links.is_connected(peer)] or free
            free = [peer for peer in free if peer not in self._failed] or [one for one in self._failed if one in free]
            free = [peer for peer in self._order if self._is_ready(peer)] or free
            chosen = next(peer for peer in free or self._order if peer not in self.keepers)
            self.keepers[chosen] = CopyKeeper(now_s, self._next_answer(chosen))
            self._ask(chosen, self.keepers[chosen])
        if any(peer not in self.keepers for peer in had) or any(map(self._is_slow, self.keepers)):
            self._ask_others()  # the next may be silent too
        for peer, one in self.keepers.items():
            if not one.is_current and (not self._links.is_connected(peer) or now_s - (one.waits_s or now_s) > SILENT_S):
                self._ask(peer, one)
        self._judge_count()
        self._update()
        self._watch()

    def _ask_others(self) -> None:
        """Who would answer? Some that there is no link to may be in reach, though the others are not."""
        others = [peer for peer in self._order if peer not in self.keepers]
        for peer in others:
            if peer not in self._away and self._links.is_connected(peer):
                self._tell(peer)
        tried = list(self._away)
        missing = [peer for peer in others if not self._links.is_connected(peer)]
        missing.sort(key=lambda peer: tried.index(peer) if peer in tried else -1)
        self._links.want(missing[:DIALLED_MAX])

    def _is_slow(self, peer: int) -> bool:
        """Whether it has nothing yet and does not begin, or has said nothing for a while: the next should be ready."""
        one, now_s = self.keepers[peer], self._turn.now_s
        return now_s - (one.waits_s or now_s) > (REACH_S if one.is_new else SILENT_S / 2)

    def _is_late(self, peer: int, one: CopyKeeper) -> bool:
        is_replaceable = not self._links.is_connected(peer) or any(map(self._is_ready, self._order))
        limit_s = REACH_S if one.is_new and is_replaceable else SILENT_S
        return peer in self._away or (one.waits_s is not None and self._turn.now_s - one.waits_s > limit_s)

    def _is_ready(self, peer: int) -> bool:
        """Whether it is free and there, and has answered just now."""
        is_there = self._is_free(peer) and self._links.is_connected(peer)
        return is_there and self._turn.now_s - self._answered_s.get(peer, -SILENT_S) < SILENT_S

    def _is_free(self, peer: int) -> bool:
        return peer not in self.keepers and peer not in self._away

    def _ask(self, peer: int, one: CopyKeeper) -> None:
        one.waits_s = one.waits_s if one.waits_s is not None else self._turn.now_s
        if self._links.is_connected(peer):
            self._tell(peer)
        else:
            self._links.want([peer])

    def _tell(self, peer: int) -> None:
        if self._talk.tell(peer, AskKept(self.life)):
            self._asked[peer] = self._asked.get(peer, 0) + 1

    def ask_all(self) -> None:
        """Whoever is there says so."""
        for peer in self._links.connected:
            self._tell(peer)

    def _next_answer(self, peer: int) -> int:
        return self._asked.get(peer, 0) + 1

    def _ask_anew(self, peer: int, one: CopyKeeper) -> None:
        """What it has now is not known."""
        one.is_current, one.asked = False, self._next_answer(peer)
        self._ask(peer, one)

    def _judge_count(self) -> None:
        """How many keepers are needed: as many as are wanted, or so many as there were at least, for too long."""
        now_s, count = self._turn.now_s, len(self.good)
        self._lack_s = {level: self._lack_s.get(level, now_s) for level in range(count + 1, self.wanted + 1)}
        if count > self.need:
            self._turn.say(f"what is acknowledged is on {count + 1} disks again")
            self.need = count
        is_soon = self._is_trying() or now_s - self._tried_s < TRIED_S
        long_s = now_s - self._settings.short_s * (2 if is_soon else 1)
        if self._settings.short == "go on" and self._lack_s.get(self.need, now_s) <= long_s:
            self.need = min(level for level, since_s in self._lack_s.items() if since_s <= long_s) - 1
            disks = f"{self.need + 1} of {self.wanted + 1} disks"
            self._turn.say(f"too few nodes in reach: what is acknowledged is on {disks}")
        self._announce()

    def _is_trying(self) -> bool:
        """Whether somebody in reach may be a good keeper in a moment: slow ones may stand before it in the order."""
        trying = [(peer, one) for peer, one in self.keepers.items() if not (one.is_current and one.acked >= 0)]
        able = [peer for peer, one in trying if not self._is_late(peer, one) or one.is_back(self._turn.now_s)]
        free = [peer for peer in self._order if self._is_free(peer)]
        return any(self._links.is_connected(peer) for peer in (*able, *free))

    def _watch(self) -> None:
        """Look again while something is not as it should be."""
        is_calm = self.need == self.wanted and not self._lack_s and not self._firm and not self._patient
        is_calm = is_calm and all(one.is_current and one.waits_s is None for one in self.keepers.values())
        if not is_calm and not self._is_looking:
            self._is_looking = True
            self._turn.set_timer((KEEP_TIMER,), LOOK_S)

    def _announce(self) -> None:
        """While there are too few nothing becomes safe: whoever kept before still has all that is.

        And while one lacks a part of the log, whoever kept before must not forget it.
        """
        current = tuple(sorted(self.good))
        is_filled = not any(self.keepers[peer].fill for peer in current) or not self._lists.keepers(self._node)
        if current != self._told and len(current) >= max(self.need, 1) and is_filled:
            self._told = current
            self._lists.announce(KeptBy(self._node, self._lists.next_version(self.life), current))
            for peer, one in self.keepers.items():
                if peer not in current:  # it forgets what it has, and will say so
                    one.acked, one.fill = -1, []
                    self._ask_anew(peer, one)
