"""Admission by interest at work: what nodes tell each other for it, and new clients held, let in or sent on.

A new client's first SUBSCRIBE decides (`reception`). If it belongs elsewhere and says that it follows, the node it
belongs to is told; once that one has said that it expects the client, the client is sent there by *Use another server*.
Nothing was promised to it yet, so nothing is handed over; and whoever was expected is not sent on, so that nobody is
sent twice. Who does not follow is let in at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from coterie.broker.counts import Counts
from coterie.broker.frames import AskWanting, Entering, Expected, Sent, Wanting
from coterie.broker.journal import Journal
from coterie.broker.links import PeerLinks
from coterie.broker.reception import Direction, EntryRules, Household, Reception, bare
from coterie.broker.settings import AdmissionSection
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.mqtt.index import WatchedIndex
from coterie.mqtt.session import Session

ANSWER_S = 1.0  # a node that did not say by then that it expects the client does not get it
NEW_S = 5.0  # a client that has asked for nothing so long counts as one of ours
COMING_S = 60.0  # how long a client that was sent here is known as such
REMEMBERED_MAX = 100_000
PART_BYTES = 1 << 18


class Held:
    """A client whose first SUBSCRIBE waits for the word of another node."""

    def __init__(self, direction: Direction, filters: list[str], until_s: float, enter: Callable[[], None]) -> None:
        self.direction, self.filters, self.until_s = direction, filters, until_s
        self.waiting = [enter]


class Admitting:
    """`servers` is what clients are told; `sending` are (client, server) of those to be sent there now."""

    def __init__(
        self, section: AdmissionSection, node: int, servers: Mapping[int, str], index: WatchedIndex[Session],
        links: PeerLinks, talk: Talk, counts: Counts, journal: Journal | None, turn: Turn,
    ) -> None:  # fmt: skip
        self.reception = Reception(node, EntryRules(section.connections, section.messages))
        self.sending: list[tuple[str, str]] = []
        self._section, self._servers, self._index = section, servers, index
        self._links, self._talk, self._counts, self._journal, self._turn = links, talk, counts, journal, turn
        self._version = 0
        self._here: dict[str, None] = {}  # clients that are connected
        self._new: dict[str, bool] = {}  # of those, who has not asked for anything yet -> whether it follows
        self._young: dict[str, float] = {}  # of those, who may still go elsewhere -> when it came
        self._coming: dict[str, float] = {}
        self._held: dict[str, Held] = {}
        self._said: tuple[int, int, float] = (0, 0, 0.0)
        self._spread_s = 0.0
        self._measured = (0.0, 0)

    def start(self, life: int) -> None:
        """What is said from now on is newer than what was said in any life before."""
        self._version = life << 20
        self._spread_s, self._measured = self._turn.now_s, (self._turn.now_s, 0)

    # --- what clients do ---

    def came(self, client: str, is_new: bool, follows: bool) -> None:
        """A client connected; a new one has no session anywhere, and no plan has a place for it."""
        self._here[client] = None
        if is_new:
            self._new[client], self._young[client] = follows, self._turn.now_s

    def gone(self, client: str) -> None:
        self._here.pop(client, None)
        self._held.pop(client, None)
        self._decided(client)
        self._spread_figures()

    def take_sending(self) -> list[tuple[str, str]]:
        sending, self.sending = self.sending, []
        return sending

    def _decided(self, client: str) -> None:
        self._new.pop(client, None)
        self._young.pop(client, None)

    def subscribing(self, client: str, filters: Iterable[str], enter: Callable[[], None]) -> None:
        """Let a SUBSCRIBE in now or later, or send its client elsewhere."""
        held = self._held.get(client)
        if held is not None:
            held.waiting.append(enter)
            return
        wanted = bare(filters)
        if client not in self._new or not wanted:
            enter()
            return
        self._refresh()
        direction = self.reception.direct(wanted, lambda node: node in self._servers)
        if direction.node == self.reception.node or not self._new[client] or client in self._coming:
            self._let_in(client, direction)
            enter()
            return
        self._held[client] = Held(direction, wanted, self._turn.now_s + ANSWER_S, enter)
        if not self._talk.tell(direction.node, Sent(client)):
            self._give_up(client)

    def _let_in(self, client: str, direction: Direction) -> None:
        is_best = direction.node == self.reception.node
        was_sent = self._coming.pop(client, None) is not None
        self._counts.admitted_here += 1
        self._counts.admitted_unmoved += not is_best and not was_sent
        reason = direction.reason if is_best else "does not follow"
        self._note(client, self.reception.node, "was sent here" if was_sent else reason, direction)
        self._decided(client)

    def _give_up(self, client: str) -> None:
        """The other node does not answer: the client is ours after all."""
        held = self._held.pop(client, None)
        if held is not None:
            self._counts.admitted_here += 1
            self._note(client, self.reception.node, "no answer from there", held.direction)
            self._decided(client)
            for enter in held.waiting:
                enter()

    def _expected(self, client: str) -> None:
        held = self._held.pop(client, None)
        if held is not None:
            node = held.direction.node
            self._counts.admitted_sent += 1
            self.reception.sent(node, held.filters)
            self._note(client, node, held.direction.reason, held.direction)
            self._decided(client)
            self.sending.append((client, self._servers[node]))

    def _note(self, client: str, node: int, reason: str, direction: Direction) -> None:
        if self._journal is not None:
            new = direction.new_here if node == self.reception.node else direction.new_there
            self._journal.admitted(self._turn.now_s, client, node, reason, new)

    # --- what this node says ---

    def changed(self, added: Iterable[str] = (), removed: Iterable[str] = ()) -> None:
        """The first of its clients wants these filters, or the last one no longer does."""
        added, removed = bare(added), bare(removed)
        own = self.reception.own
        for one in added:
            own.put(one)
        for one in removed:
            own.drop(one)
        if added or removed:
            self._say(tuple(added), tuple(removed))
        else:
            self._spread_figures()

    def _refresh(self) -> None:
        """Newcomers that have not asked for anything yet may still go elsewhere: they do not count."""
        own = self.reception.own
        own.connections, own.wishes = len(self._here) - len(self._young), self._index.count

    def _spread_figures(self) -> None:
        """At once if nothing has been said for `spread_s`; else `on_time` does it."""
        self._refresh()
        if self._figures() != self._said and self._turn.now_s - self._spread_s >= self._section.spread_s:
            self._say((), ())

    def _figures(self) -> tuple[int, int, float]:
        own = self.reception.own
        return own.connections, own.wishes, own.messages_per_s

    def _say(self, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
        self._refresh()
        self._version += 1
        self.reception.own.version = self._version
        self._said, self._spread_s = self._figures(), self._turn.now_s
        links = self._links
        reached_all = all(links.is_connected(peer) for peer in links.peers)
        node = self.reception.node
        self._talk.flood(Wanting(node, self._version, *self._said, added, removed, reached_all=reached_all))

    def on_time(self) -> None:
        """Several times a second: figures, answers that did not come, and who is forgotten."""
        now_s = self._turn.now_s
        begin_s, count = self._measured
        if now_s - begin_s >= self._section.load_s:
            delivered = self._counts.messages_out
            self.reception.own.messages_per_s = (delivered - count) / (now_s - begin_s)
            self._measured = (now_s, delivered)
        for client in [client for client, held in self._held.items() if held.until_s <= now_s]:
            self._give_up(client)
        for client in [client for client, until_s in self._coming.items() if until_s <= now_s]:
            del self._coming[client]
        for client in [client for client, came_s in self._young.items() if now_s - came_s >= NEW_S]:
            del self._young[client]
        self._spread_figures()

    # --- what other nodes say ---

    def hear(self, peer: int, said: Entering) -> None:
        match said:
            case Wanting():
                heard = self.reception.hear(said)
                if heard == "gap":
                    self._talk.tell(peer, AskWanting(said.node))
                elif heard == "new" and not said.reached_all:
                    self._talk.flood(said, but=peer)
            case AskWanting():
                self._tell_of(peer, said.node)
            case Sent():
                if len(self._coming) >= REMEMBERED_MAX:
                    self._coming.clear()
                self._coming[said.client] = self._turn.now_s + COMING_S
                self._talk.tell(peer, Expected(said.client))
            case Expected():
                self._expected(said.client)

    def reached(self, peer: int) -> None:
        """A link is up: what is known of everybody else."""
        for node in (self.reception.node, *self.reception.others):
            if node != peer:
                self._tell_of(peer, node)

    def _tell_of(self, peer: int, node: int) -> None:
        own = self.reception.own
        known = own if node == self.reception.node else self.reception.others.get(node)
        if known is own:
            self._refresh()
            own.version = self._version
        for part, filters in enumerate(_parts(known) if known is not None else ()):
            assert known is not None
            said = (known.version, known.connections, known.wishes, known.messages_per_s)
            self._talk.tell(peer, Wanting(node, *said, filters, is_whole=True, is_part=part > 0))


def _parts(known: Household) -> Iterator[tuple[str, ...]]:
    """Its filters in messages that fit a frame; at least one."""
    part: list[str] = []
    size = 0
    for one in known.filters():
        part.append(one)
        size += len(one) * 4
        if size > PART_BYTES:
            yield tuple(part)
            part, size = [], 0
    yield tuple(part)
