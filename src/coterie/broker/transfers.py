"""A publisher's socket goes to the process of this machine where what it publishes is wanted.

The system deals out connections as it likes, so a publisher and those who listen to it are often in two processes, and
every message of it crosses. A client that was let in, has said nothing since, and whose session ends with its
connection has nothing here but its socket. If its first PUBLISH is on a topic that one sibling wants and nobody else
does, that sibling is asked for room; if it has some, it is told what the client connected with and what it has sent
since, and gets the socket (`PassSocket`).

Until the sibling has answered nothing of the client is decoded: nothing was promised, acknowledged or passed on here.
The client stays if the answer is no, or the sibling is gone, or says nothing for a second. Once the socket has left it
is nowhere else: it ends with the sibling if that falls, taken or not, as that of any client of it. What was told on the
link before, of this client's connections before, is there first.
"""

from __future__ import annotations

from coterie.broker.clients import Clients
from coterie.broker.counts import Counts
from coterie.broker.facts import GotSocket, Opened
from coterie.broker.lines import Fresh
from coterie.broker.links import PeerLinks
from coterie.broker.orders import Close, PassSocket
from coterie.broker.placement import Placing
from coterie.broker.said import AboutSockets, AskRoom, ClientComes, HasRoom
from coterie.broker.siblings import Siblings
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import Connect
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.sessions import Sessions

ANSWER_S = 1.0  # a sibling that has not answered by then does not get the client
COMING_S = 5.0  # room is kept for so long for a client that was expected
SPARE = 8  # so many more than its share a process may always have
SENT_BYTES_MAX = 512 << 10  # of a client that has sent more meanwhile, and is not worth a frame so large
PING = b"\xc0\0"
TRANSFER_TIMER = "transfer"
Key = tuple[int, int]  # a sibling, and its number for the client


class Transfers:
    """See the module. `share`: how many times the mean of two processes' clients one of them may get in this way."""

    def __init__(
        self, clients: Clients, sessions: Sessions, siblings: Siblings, placing: Placing, share: float,
        links: PeerLinks, talk: Talk, counts: Counts, turn: Turn,
    ) -> None:  # fmt: skip
        self._clients, self._fresh, self._sessions, self._siblings = clients, clients.fresh, sessions, siblings
        self._placing, self._share, self._links, self._talk = placing, share, links, talk
        self._counts, self._turn = counts, turn
        self._life = 0
        self._asked: dict[int, tuple[int, int, float]] = {}  # number -> line, sibling, until when
        self._coming: dict[Key, tuple[float, ClientComes | None]] = {}  # until when, and what was told of it
        self._landed: dict[Key, int] = {}  # lines of those of whom nothing was told yet

    def start(self, life: int) -> None:
        """No number of this life was given in another one."""
        self._life = life << 32

    # --- out ---

    def holds(self, line: int, data: bytes) -> bool:
        """Whether what a client says is kept back for now."""
        fresh = self._fresh.get(line)
        if fresh is None:
            return False
        if fresh.peer >= 0:
            fresh.sent.append(data)
            return True
        if data == PING:
            return False
        fresh.peer = self._place_of(line, data)
        if fresh.peer < 0 or not self._ask(line, fresh.peer):
            del self._fresh[line]
            return False
        fresh.sent.append(data)
        return True

    def _place_of(self, line: int, data: bytes) -> int:
        """The sibling where this client should be; -1 if it is right here, or has something here."""
        client, siblings = self._clients.lines[line], self._siblings
        session = client.connection.session
        if session is None or session.expiry_s or session.journal is not None or client.is_closing:
            return -1
        if not (client.is_movable and siblings.is_direct) or session.client_id in self._placing.of:
            return -1
        topic = published_topic(data)
        if not topic or topic.startswith("$"):
            return -1
        match, (nodes, _) = self._sessions.index.matches(topic), siblings.wanting(topic)
        if match.receivers or match.groups or len(nodes) != 1 or not self._links.is_connected(nodes[0]):
            return -1
        return nodes[0]

    def _ask(self, line: int, peer: int) -> bool:
        number = self._life | line
        if not self._talk.tell(peer, AskRoom(number, len(self._clients.lines))):
            return False
        if not self._asked:
            self._turn.set_timer((TRANSFER_TIMER,), ANSWER_S)
        self._asked[number] = line, peer, self._turn.now_s + ANSWER_S
        self._turn.pause(line)
        return True

    def _answered(self, peer: int, said: HasRoom) -> None:
        line, asked, _ = self._asked.get(said.number, (0, -1, 0.0))
        if asked != peer:
            return
        del self._asked[said.number]
        fresh = self._fresh.pop(line, None)
        if fresh is not None and not (said.is_so and self._leaves(line, peer, said.number, fresh)):
            self._stays(line, fresh)

    def _leaves(self, line: int, peer: int, number: int, fresh: Fresh) -> bool:
        client, sent = self._clients.lines[line], b"".join(fresh.sent)
        connection, session = client.connection, client.connection.session
        is_written = not (connection.output or connection.held_serial or connection.held_batch > self._turn.persisted)
        if not is_written or connection.is_congested or session is None or len(sent) > SENT_BYTES_MAX:
            return False
        if self._place_of(line, sent) != peer:
            return False
        # It is who it is by now, and begins afresh there.
        packet, ruling = fresh.connect, fresh.ruling
        connect = Connect(
            session.client_id, packet.version, True, packet.keep_alive_s, will=packet.will,
            properties=packet.properties,
        )  # fmt: skip
        told = ClientComes(number, encode_packet(connect, packet.version), ruling.user, ruling.until_s, sent)
        if not self._talk.tell(peer, told):
            return False
        self._counts.sockets_passed += 1
        self._clients.departures.note(session.client_id, f"node {peer}", "what it publishes is wanted there alone")
        session.will = None  # it is not lost
        self._clients.on_closed(line)
        self._turn.orders.append(PassSocket(line, peer, number))
        return True

    def _stays(self, line: int, fresh: Fresh) -> None:
        self._turn.resume(line)
        for data in fresh.sent:
            self._clients.on_bytes(line, data)

    def on_time(self) -> None:
        """Who was not answered stays."""
        late = [number for number, (_, _, until_s) in self._asked.items() if until_s <= self._turn.now_s]
        for number in late:
            self._give_up(number)
        if self._asked:
            self._turn.set_timer((TRANSFER_TIMER,), ANSWER_S)

    def _give_up(self, number: int) -> None:
        line, _, _ = self._asked.pop(number)
        fresh = self._fresh.pop(line, None)
        if fresh is not None:
            self._stays(line, fresh)

    def lost(self, peer: int) -> None:
        """Nothing more comes from this sibling, and what it was asked it has forgotten."""
        for number in [number for number, (_, asked, _) in self._asked.items() if asked == peer]:
            self._give_up(number)
        for key in [key for key in self._coming if key[0] == peer]:
            del self._coming[key]
        for key in [key for key in self._landed if key[0] == peer]:
            self._drop(self._landed.pop(key))

    # --- in ---

    def hear(self, peer: int, said: AboutSockets) -> None:
        match said:
            case AskRoom():
                is_so = self._has_room(said.connections)
                if is_so:
                    self._coming[peer, said.number] = self._turn.now_s + COMING_S, None
                self._talk.tell(peer, HasRoom(said.number, is_so))
            case HasRoom():
                self._answered(peer, said)
            case ClientComes():
                line = self._landed.pop((peer, said.number), None)
                if line is None:
                    self._coming[peer, said.number] = self._turn.now_s + COMING_S, said
                else:
                    self._let_in(line, said)

    def _has_room(self, theirs: int) -> bool:
        """For one more. The two share what both have now."""
        coming, clients = self._coming, self._clients
        for key in [key for key, (until_s, _) in coming.items() if until_s <= self._turn.now_s]:
            del coming[key]
        own = len(clients.lines) + len(coming) + 1
        mean = (len(clients.lines) + theirs) / 2
        is_open = not clients.is_stopping and clients.turned_away is None and own <= clients.connections_max
        return is_open and own <= max(self._share * mean, mean + SPARE)

    def on_socket(self, got: GotSocket) -> None:
        """It is here; what it is may have been told before, or will be."""
        clients, key, line = self._clients, (got.peer, got.number), got.line
        _, told = self._coming.pop(key, (0.0, None))
        if clients.is_stopping or len(clients.lines) >= clients.connections_max:
            self._turn.orders.append(Close(line))
            return
        clients.enter(Opened(line, got.host, is_movable=True))
        self._fresh[line] = Fresh(Connect(), Ruling(), got.peer)
        if told is None:
            self._landed[key] = line
        else:
            self._let_in(line, told)

    def _let_in(self, line: int, said: ClientComes) -> None:
        """What it connected with there holds here; it was answered there."""
        fresh, clients, now_s = self._fresh.pop(line, None), self._clients, self._turn.now_s
        if fresh is None:  # it has gone
            return
        connection, ruling = clients.lines[line].connection, Ruling(user=said.user, until_s=said.until_s)
        packet = next(iter(connection.receive(said.connect, now_s)), None)
        is_in = isinstance(packet, Connect) and self._sessions.connect(connection, packet, ruling, now_s) is None
        connection.output.clear()
        if not (is_in and isinstance(packet, Connect)):
            self._drop(line)
            return
        clients.welcome(connection, packet, ruling, False)
        for data in (said.sent, *fresh.sent):
            clients.on_bytes(line, data)

    def _drop(self, line: int) -> None:
        """Without a word: it has been answered already."""
        client = self._clients.lines.get(line)
        if client is not None:
            self._clients.end(client.connection, False)


def published_topic(data: bytes) -> str:
    """On which topic the first packet publishes; empty if it is none, is cut off before its topic ends, or has none."""
    if len(data) < 4 or data[0] >> 4 != 3:
        return ""
    at = 2
    while at < 5 and at < len(data) and data[at - 1] & 128:
        at += 1
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    try:
        return data[at + 2 : end].decode() if end <= len(data) else ""
    except UnicodeDecodeError:
        return ""
