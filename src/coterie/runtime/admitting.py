"""Admission by interest at work: what nodes tell each other for it, and new clients held, let in or sent on.

A new client's first SUBSCRIBE decides (`reception`). If it belongs elsewhere and says that it follows, the node it
belongs to is told; once that one has said that it expects the client, the client is sent there by *Use another server*.
Nothing was promised to it yet, so nothing is handed over; and whoever was expected is not sent on, so that nobody is
sent twice. Who does not follow is let in at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from coterie.broker.frames import AskWanting, Entering, Expected, Sent, Wanting
from coterie.broker.reception import Direction, EntryRules, Household, Reception, bare
from coterie.broker.settings import AdmissionSection
from coterie.mqtt.connection import Connection
from coterie.mqtt.packets import Subscribe
from coterie.mqtt.reasons import Reason
from coterie.runtime.counts import Counts
from coterie.runtime.listeners import ClientLink

if TYPE_CHECKING:
    from coterie.runtime.journal import Journal
    from coterie.runtime.network import Network
    from coterie.runtime.server import Server

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
    """`servers` is what clients are told; `send` ends a client's connection with it."""

    def __init__(
        self, section: AdmissionSection, node: int, servers: Mapping[int, str], network: Network, counts: Counts,
        now_s: Callable[[], float],
    ) -> None:  # fmt: skip
        self.reception = Reception(node, EntryRules(section.connections, section.messages))
        self.journal: Journal | None = None
        self.send: Callable[[str, str], None] = lambda client, server: None
        self.wishes: Callable[[], int] = lambda: 0
        self._section, self._servers, self._network, self._counts, self._now_s = (
            section,
            servers,
            network,
            counts,
            now_s,
        )
        self._version = round(now_s() * 1e6)  # greater than in any life before
        self._here: dict[str, None] = {}  # clients that are connected
        self._new: dict[str, bool] = {}  # of those, who has not asked for anything yet -> whether it follows
        self._young: dict[str, float] = {}  # of those, who may still go elsewhere -> when it came
        self._coming: dict[str, float] = {}
        self._held: dict[str, Held] = {}
        self._said: tuple[int, int, float] = (0, 0, 0.0)
        self._spread_s = now_s()
        self._measured = (now_s(), 0)

    # --- what clients do ---

    def came(self, client: str, is_new: bool, follows: bool) -> None:
        """A client connected; a new one has no session anywhere, and no plan has a place for it."""
        self._here[client] = None
        if is_new:
            self._new[client], self._young[client] = follows, self._now_s()

    def gone(self, client: str) -> None:
        self._here.pop(client, None)
        self._held.pop(client, None)
        self._decided(client)
        self._spread_figures()

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
        self._held[client] = Held(direction, wanted, self._now_s() + ANSWER_S, enter)
        if not self._network.tell(direction.node, Sent(client)):
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
            self.send(client, self._servers[node])

    def _note(self, client: str, node: int, reason: str, direction: Direction) -> None:
        if self.journal is not None:
            new = direction.new_here if node == self.reception.node else direction.new_there
            self.journal.admitted(self._now_s(), client, node, reason, new)

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
        own.connections, own.wishes = len(self._here) - len(self._young), self.wishes()

    def _spread_figures(self) -> None:
        """At once if nothing has been said for `spread_s`; else `on_time` does it."""
        self._refresh()
        if self._figures() != self._said and self._now_s() - self._spread_s >= self._section.spread_s:
            self._say((), ())

    def _figures(self) -> tuple[int, int, float]:
        own = self.reception.own
        return own.connections, own.wishes, own.messages_per_s

    def _say(self, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
        self._refresh()
        self._version += 1
        self.reception.own.version = self._version
        self._said, self._spread_s = self._figures(), self._now_s()
        links = self._network.links
        reached_all = all(links.is_connected(peer) for peer in links.peers)
        node = self.reception.node
        self._network.flood(Wanting(node, self._version, *self._said, added, removed, reached_all=reached_all))

    def on_time(self) -> None:
        """Several times a second: figures, answers that did not come, and who is forgotten."""
        now_s = self._now_s()
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
                    self._network.tell(peer, AskWanting(said.node))
                elif heard == "new" and not said.reached_all:
                    self._network.flood(said, but=peer)
            case AskWanting():
                self._tell_of(peer, said.node)
            case Sent():
                if len(self._coming) >= REMEMBERED_MAX:
                    self._coming.clear()
                self._coming[said.client] = self._now_s() + COMING_S
                self._network.tell(peer, Expected(said.client))
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
            self._network.tell(peer, Wanting(node, *said, filters, is_whole=True, is_part=part > 0))


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


def admit_by_interest(server: Server, admitting: Admitting) -> None:
    """From now on a new client's first wishes say where it belongs; what it may not have says nothing."""

    def admit(client: ClientLink, connection: Connection, packet: Subscribe) -> None:
        session = connection.session
        allowed = [
            one.filter
            for one in packet.subscriptions
            if session is not None and server.access.subscribe(session, one) is Reason.SUCCESS
        ]
        name = "" if session is None else session.client_id
        admitting.subscribing(name, allowed, lambda: server.subscribe(client, connection, packet))

    def send(name: str, address: str) -> None:
        """Nothing was promised to the client yet, so nothing of it is kept."""
        session = server.broker.sessions.get(name)
        connection = None if session is None else session.connection
        if session is not None and connection is not None and isinstance(connection.owner, ClientLink):
            session.expiry_s = 0
            server.send_to(connection, connection.owner, address)

    def unwant(topic_filter: str) -> None:
        server.network.unwant(topic_filter)
        admitting.changed(removed=(topic_filter,))

    server.admitting, server.admit = admitting, admit
    server.broker.watched.on_last = unwant
    server.network.on_entering, server.network.on_reached = admitting.hear, admitting.reached
    admitting.journal, admitting.send = server.journal, send
    admitting.wishes = lambda: server.broker.watched.count
