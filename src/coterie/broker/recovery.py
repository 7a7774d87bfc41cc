"""Nothing acknowledged is lost: after a disturbance everyone says what it published, and who misses something asks.

The overlay spreads events fast and once, but while it repairs itself some can be missed, and no protocol of the papers
notices. So every node keeps a log of what it took at QoS 1 and 2. Whoever sees a disturbance (a link that broke or came
back, a restart, a full queue) tells everyone since when; everyone answers, in a few rounds while things settle, with a
digest of its log since then; a node whose clients want an event it has not had asks its origin for it. For an origin
that is away its keepers do both, from their copies. A slow audit does the same without any cause. A node remembers for
each origin since when it may be behind, across restarts, and asks origins that it has not heard, so it does not matter
who was down when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from coterie.broker.asking import Asking
from coterie.broker.carried import TIME_BITS, TIME_MASK, Identifiers, decode_carried
from coterie.broker.copies import Copy, HeldCopies
from coterie.broker.frames import AskDigest, Digest, Disturbed, LogCopies, LogGone, Want
from coterie.broker.links import PeerLinks
from coterie.broker.settings import RecoverySection
from coterie.broker.talk import Talk, in_parts
from coterie.broker.turn import Turn
from coterie.broker.writes import LOG, MESSAGES, META, Saved, Shelf
from coterie.protocol.seen import Seen

EVENTS_PER_DIGEST = 4000
COPIES_BYTES = 512 << 10
ASK_AGAIN_S = 5.0
CATCHING_UP_S = 5.0
IN_FLIGHT_US = 200_000  # younger events are most likely still on their way
AUDIT_DELAY_US = 2_000_000
FULL_ROUNDS = 2  # rounds that tell everything since the disturbance; later ones tell what is new


WANTED_S = 10.0  # what was asked for so long ago is not waited for any more

BEHIND = "behind"
ROUND_TIMER, AUDIT_TIMER, ASK_TIMER = "round", "audit", "ask"


class Taker(Protocol):
    """Who knows what is missing here, and takes what was."""

    def misses(self, topic: str, identifier: int, when_us: int) -> bool: ...
    def take_copy(self, body: bytes) -> None: ...
    def pass_over(self, identifier: int) -> None: ...


class Recovery:
    """See the module. `others` are all nodes that may publish."""

    def __init__(
        self, node: int, others: Iterable[int], settings: RecoverySection, identifiers: Identifiers, links: PeerLinks,
        talk: Talk, asking: Asking, copies: HeldCopies, taker: Taker, shelf: Shelf, turn: Turn,
    ) -> None:  # fmt: skip
        self.node = node
        self._identifiers = identifiers
        self.others = sorted(set(others) - {node})
        self.behind: dict[int, int] = {}  # origin -> since when (us) something of it may be missing
        self.recovered_count = 0
        self.disturbance_count = 0
        self._settings, self._talk, self._taker, self._shelf, self._turn = settings, talk, taker, shelf, turn
        self._links, self._copies, self._asking = links, copies, asking
        self._numbers = Seen(4096)
        self._number = 0
        self._since_us: int | None = None  # of the disturbance that is being dealt with
        self._round = 0
        self._began_s = 0.0
        self._digested_us = self._audited_us = 0
        self._have_told: dict[int, None] = {}  # origins that have told all since it began
        self._told_us: list[int] = []  # up to when each round of the present disturbance told
        self._wanted: dict[int, float] = {}  # event -> when it was asked for

    def start(self, alive_until_us: int, saved: Saved) -> None:
        """`alive_until_us` is 0 on the first start; later, whatever came since then may be missing here.

        So may be what was still being looked for when the last life ended.
        """
        if not self.others:
            return
        if alive_until_us:
            before = [value for key, value in saved.rows(META) if key == BEHIND]
            owed = msgspec.msgpack.decode(before[0], type=dict[int, int]) if before else {}
            since_us = min([self._back(alive_until_us), *owed.values()])
            self.behind = dict.fromkeys(self.others, since_us)
            self.disturb(since_us)
        self._audited_us = self.now_us
        self._turn.set_timer((AUDIT_TIMER,), self._settings.audit_s)

    def set_others(self, others: Iterable[int], is_kept: Callable[[int], bool]) -> None:
        """Members come and go. What a node published that is gone has its keepers, if somebody keeps for it."""
        had_none = not self.others
        self.others = sorted(set(others) - {self.node})
        if had_none and self.others:
            self._audited_us = self.now_us
            self._turn.set_timer((AUDIT_TIMER,), self._settings.audit_s)
        lost = [origin for origin in self.behind if origin not in self.others and not is_kept(origin)]
        for origin in lost:
            del self.behind[origin]
        if lost:
            self._keep_behind()

    def on_timer(self, name: str) -> None:
        if name == ROUND_TIMER:
            self._next_round()
        elif name == AUDIT_TIMER:
            self._audit()
        else:
            self._ask_the_silent()

    @property
    def now_us(self) -> int:
        """By this node's own identifiers, which never go back; other nodes are told how long ago, not when."""
        return self._identifiers.now_us(self._turn.now_us)

    def _back(self, moment_us: int) -> int:
        return max(1, moment_us - int(self._settings.margin_s * 1e6))

    # --- disturbances ---

    def disturb(self, since_us: int) -> None:
        """This node saw something that may have cost an event somewhere, at or after this moment."""
        if not self.others or not self._is_news(since_us):
            return
        number = self._new_number()
        self._numbers.add(number)
        self._talk.flood(Disturbed(number, max(0, self.now_us - since_us)))
        self._begin(since_us)

    @property
    def is_catching_up(self) -> bool:
        """Whether something of the last moments may still be on its way by comparison of logs."""
        return self._since_us is not None and self._turn.now_s - self._began_s < CATCHING_UP_S

    @property
    def lacking_us(self) -> int:
        """How long ago something was said that may be missing here, by somebody who has not told since; 0: nothing."""
        since_us = self._since_us
        late = [one for origin, one in self.behind.items() if since_us is None or origin not in self._have_told]
        return max(1, self.now_us - min(late)) if late else 0

    def may_lack(self, origin: int, until_us: int) -> bool:
        """Whether it has not told yet all that it published up to then, by our clock, nor anybody for it."""
        return self.behind.get(origin, until_us) + int(self._settings.margin_s * 1e6) < until_us

    def look_again(self, since_us: int, recent_s: float) -> None:
        """Compare logs since then, unless a disturbance of the last moments makes everybody do so anyway."""
        is_done = self._since_us is not None and self._since_us <= since_us
        if not is_done or self._turn.now_s - self._began_s > recent_s:
            self.disturb(since_us)

    def on_disturbed(self, source: int, said: Disturbed) -> None:
        if self._numbers.add(said.number):
            self._talk.flood(said, but=source)
            self._begin(max(1, self.now_us - said.ago_us))

    def _is_news(self, since_us: int) -> bool:
        """A disturbance that is being dealt with since before then, in its first round still, covers this one."""
        return self._since_us is None or self._round > 0 or since_us < self._since_us

    def _begin(self, since_us: int) -> None:
        self.disturbance_count += 1
        self._since_us = since_us if self._since_us is None else min(since_us, self._since_us)
        for origin in self.others:
            self.behind[origin] = min(self._since_us, self.behind.get(origin, self._since_us))
        self._keep_behind()
        self._round = 0
        self._told_us, self._have_told = [], {}
        self._began_s = self._turn.now_s
        self._schedule()

    def _keep_behind(self) -> None:
        self._turn.write(META, BEHIND, msgspec.msgpack.encode(self.behind))

    def _schedule(self) -> None:
        delays_s = self._settings.rounds_s
        before_s = delays_s[self._round - 1] if self._round else 0.0
        self._turn.set_timer((ROUND_TIMER,), delays_s[self._round] - before_s)

    def _next_round(self) -> None:
        if self._since_us is None:
            return
        delays_s = self._settings.rounds_s
        # The second round and late ones also say "nothing", so that the others know they have heard everybody.
        is_for_all = self._round == 1 or self._round >= len(delays_s) - 2
        since_us = self._back(self._since_us)  # others take it for earlier by as much as the word was on its way
        if self._round > FULL_ROUNDS:  # what two rounds ago held need not be told again
            since_us = max(since_us, self._back(self._told_us[-2]))
        self.flood_digest(since_us, IN_FLIGHT_US, even_if_empty=is_for_all)
        self._told_us.append(self._digested_us)
        self._round += 1
        if self._round < len(delays_s):
            self._schedule()
        else:
            self._settle(self.now_us - int(delays_s[-1] * 1e6 * 0.75))

    def _settle(self, calm_us: int) -> None:
        """The disturbance is over; whoever was heard of since it had calmed down has told everything."""
        self._since_us = None
        self.behind = {origin: since_us for origin, since_us in self.behind.items() if since_us < calm_us}
        self._keep_behind()
        if self.behind:
            self._turn.set_timer((ASK_TIMER,), ASK_AGAIN_S)

    def _audit(self) -> None:
        """Without any cause: what was published since the last audit, told once, some time after it was.

        What was told in rounds meanwhile begins with a disturbance; what was missed before it is told here.
        """
        if self._since_us is None:
            self.flood_digest(self._back(self._audited_us), AUDIT_DELAY_US)
            self._audited_us = self._digested_us
        self._turn.set_timer((AUDIT_TIMER,), self._settings.audit_s)

    def _ask_the_silent(self) -> None:
        """Origins whose digest has not come by flood are asked straight; again and again until they answer."""
        if not self.behind or self._since_us is not None:
            return
        for origin, since_us in self.behind.items():
            self._asking.digest(origin, max(0, self.now_us - since_us))
        self._turn.set_timer((ASK_TIMER,), ASK_AGAIN_S)

    # --- digests ---

    def flood_digest(self, since_us: int, delay_us: int, even_if_empty: bool = False) -> None:
        until_us = self.now_us - delay_us
        parts = self._digests(since_us, until_us)
        for copy in self._copies.orphans(self._links.connected):
            for part in self._orphan_digests(copy, since_us):
                parts.append(part)
                self._learn(part)
        for part in parts:
            if part.events or even_if_empty:
                self._numbers.add(part.number)
                self._talk.flood(part)
        self._digested_us = until_us

    def _digests(self, since_us: int, until_us: int, is_answer: bool = False) -> list[Digest]:
        """Own publications of that time in parts; an empty one if there are none."""
        base = self.node << TIME_BITS
        rows = self._shelf.between(LOG, base | since_us, base | until_us)
        return self._in_parts(self.node, rows, since_us, until_us, self.now_us - until_us, is_answer)

    def _orphan_digests(self, copy: Copy, since_us: int, is_answer: bool = False) -> list[Digest]:
        """Those of an origin whose keeper this node is, since then by our clock; moments in them are its own."""
        state = copy.state
        ahead_us = self._turn.now_us - self.now_us + state.now_us - state.here_us
        since_us += ahead_us
        older = self._older_digests(copy, since_us, is_answer)
        since_us = max(since_us, state.log_first & TIME_MASK, 1)
        until_us = max(state.now_us, state.log_last & TIME_MASK, since_us)  # identifiers may be ahead of the clock
        lag_us = max(0, self._turn.now_us - state.here_us - (until_us - state.now_us))
        rows = self._copies.log(copy.origin, since_us, until_us)
        return older + self._in_parts(copy.origin, rows, since_us, until_us, lag_us, is_answer)

    def _older_digests(self, copy: Copy, since_us: int, is_answer: bool) -> list[Digest]:
        """What it has from before its log is whole; there may be gaps in it, so it is not the last word."""
        since_us, last = max(since_us, 1), (copy.state.log_first & TIME_MASK) - 1
        rows = self._copies.log(copy.origin, since_us, last) if since_us <= last else []
        if not rows:
            return []
        lag_us = max(0, self._turn.now_us - copy.state.here_us + copy.state.now_us - last)
        parts = self._in_parts(copy.origin, rows, since_us, last, lag_us, is_answer)
        return [msgspec.structs.replace(one, is_last=False) for one in parts]

    def _in_parts(
        self, origin: int, rows: list[tuple[int, bytes]], since_us: int, until_us: int, lag_us: int, is_answer: bool
    ) -> list[Digest]:  # fmt: skip
        parts = []
        for start in range(0, max(1, len(rows)), EVENTS_PER_DIGEST):
            topics: dict[str, list[int]] = {}
            for identifier, topic in rows[start : start + EVENTS_PER_DIGEST]:
                topics.setdefault(topic.decode(), []).append(identifier & TIME_MASK)
            is_last = start + EVENTS_PER_DIGEST >= len(rows)
            events = tuple((topic, tuple(times)) for topic, times in topics.items())
            number = self._new_number()
            parts.append(Digest(origin, number, since_us, until_us, is_last, is_answer, lag_us, events))
        return parts

    def _new_number(self) -> int:
        self._number = max(self._number + 1, self.now_us)
        return self.node << TIME_BITS | self._number

    def on_ask(self, source: int, said: AskDigest) -> None:
        since_us = self._back(self.now_us - said.ago_us)
        if said.origin < 0:
            parts = self._digests(since_us, self.now_us, is_answer=True)
        elif said.origin in self._copies.of and not self._links.is_connected(said.origin):
            parts = self._orphan_digests(self._copies.of[said.origin], since_us, is_answer=True)
        else:
            return
        for part in parts:
            self._talk.tell(source, part)

    def on_digest(self, source: int, said: Digest) -> None:
        if not self._numbers.add(said.number) or said.origin == self.node:
            return
        if not said.is_answer:
            self._talk.flood(said, but=source)
        self._learn(said)

    def _learn(self, said: Digest) -> None:
        self._compare(said)
        since_us = self.behind.get(said.origin)
        until_us = self.now_us - said.lag_us
        is_whole = since_us is not None and until_us - (said.until_us - said.since_us) <= since_us
        if said.is_last and is_whole and not self._is_waiting_for(said.origin):
            if self._since_us is None:
                del self.behind[said.origin]
                self._keep_behind()
            else:
                self.behind[said.origin] = self._back(until_us)
                self._have_told[said.origin] = None

    def _is_waiting_for(self, origin: int) -> bool:
        """Whether copies were asked for that have not come: a node that ends now must ask again."""
        now_s = self._turn.now_s
        return any(
            identifier >> TIME_BITS == origin and now_s - asked_s < WANTED_S
            for identifier, asked_s in self._wanted.items()
        )

    def _compare(self, said: Digest) -> None:
        base = said.origin << TIME_BITS
        now_s = self._turn.now_s
        missing = [
            base | time_us
            for topic, times in said.events
            for time_us in times
            if self._taker.misses(topic, base | time_us, self._turn.now_us - said.lag_us - (said.until_us - time_us))
            and now_s - self._wanted.get(base | time_us, -60.0) > 2.0
        ]
        if len(self._wanted) > 100_000:
            self._wanted.clear()
        for start in range(0, len(missing), EVENTS_PER_DIGEST):
            asked = missing[start : start + EVENTS_PER_DIGEST]
            is_asked, found = self._asking.want(said.origin, asked, said.number >> TIME_BITS)
            if is_asked:
                self._wanted.update(dict.fromkeys(asked, now_s))
            for body in found:
                self._taker.take_copy(body)

    # --- events that were missed ---

    def on_want(self, source: int, said: Want) -> None:
        found: list[tuple[int, bytes]] = []
        gone: list[int] = []
        for identifier in said.events:
            is_own = identifier >> TIME_BITS == self.node
            body = self._shelf.get(MESSAGES, identifier) if is_own else self._copies.body(identifier)
            if body is not None:
                found.append((identifier, body))
            elif is_own or self._copies.is_sure(identifier):
                gone.append(identifier)
        for part in in_parts(found, COPIES_BYTES):
            self._talk.tell(source, LogCopies(part))
        if gone:
            self._talk.tell(source, LogGone(tuple(gone)))

    def on_gone(self, said: LogGone) -> None:
        for identifier in said.events:
            self._wanted.pop(identifier, None)
            self._taker.pass_over(identifier)

    def on_copies(self, said: LogCopies) -> None:
        for identifier, body in said.events:
            if decode_carried(body).id == identifier:
                self._wanted.pop(identifier, None)
                self.recovered_count += 1
                self._taker.take_copy(body)
