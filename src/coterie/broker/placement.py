"""Sending clients to the node where their topics live: opt-in, a few at a time, and never in circles.

A plan says where each client should be. A client is sent there, by *Use another server* with a Server Reference, only
if it announced that it follows, and if it was not sent anywhere within `COOLDOWN_S`: one that comes back, because the
other node is down or full, stays. What came for it meanwhile is handed over (see `moving`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from coterie.broker.commands import Place
from coterie.broker.links import PeerLinks
from coterie.broker.turn import Turn
from coterie.broker.writes import META, Saved
from coterie.errors import ConfigError
from coterie.mqtt.client import follows_redirect
from coterie.mqtt.packets import Connect

PLACEMENT = "placement"
COOLDOWN_S = 60.0
MOVES_PER_TURN = 20
REMEMBERED_MAX = 100_000


class Placing:
    """`of` is client -> node. Servers are what clients are told."""

    def __init__(self, node: int, servers: Mapping[int, str], links: PeerLinks, turn: Turn) -> None:
        self.node = node
        self.version = 0
        self.of: dict[str, int] = {}
        self.moved_count = 0
        self._servers, self._links = servers, links
        self._turn = turn
        self._followers: dict[str, None] = {}
        self._sent_s: dict[str, float] = {}

    @property
    def why(self) -> str:
        """Of a move, for people."""
        return f"placement {self.version} wants it there"

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(META):
            if key == PLACEMENT:
                self.version, self.of = msgspec.msgpack.decode(value, type=tuple[int, dict[str, int]])

    def take(self, wanted: Place) -> None:
        """A new placement, of clients at nodes of this network."""
        if strangers := sorted(set(wanted.clients.values()) - {self.node, *self._links.peers}):
            raise ConfigError("placement", strangers[0], "a node of the network")
        self.version, self.of = wanted.version, wanted.clients
        self._turn.write(META, PLACEMENT, msgspec.msgpack.encode((self.version, self.of)))

    def redirect(self, packet: Connect) -> str:
        """Where a client that connects should rather go; empty: nowhere."""
        if not follows_redirect(packet):
            return ""
        server = self._better(packet.client_id)
        if server:
            self._note(packet.client_id)
        return server

    def accepted(self, packet: Connect, client: str) -> bool:
        """The client stays for now; it can be moved later if it follows, which is the answer."""
        if follows_redirect(packet):
            self._followers[client] = None
            return True
        return False

    def gone(self, client: str) -> None:
        self._followers.pop(client, None)

    def next_moves(self, is_calm: Callable[[str], bool] = lambda client: True) -> list[tuple[str, str]]:
        """(client, server) of connected clients that should move now; who is in the middle of something waits."""
        if not self.of:
            return []
        found = []
        for client in list(self._followers):
            server = self._better(client)
            if server and is_calm(client):
                self._note(client)
                del self._followers[client]
                found.append((client, server))
                if len(found) >= MOVES_PER_TURN:
                    break
        return found

    def _better(self, client: str) -> str:
        node = self.of.get(client, self.node)
        if node == self.node or self._turn.now_s - self._sent_s.get(client, -COOLDOWN_S) < COOLDOWN_S:
            return ""
        return self._servers.get(node, "")

    def _note(self, client: str) -> None:
        if len(self._sent_s) >= REMEMBERED_MAX:
            self._sent_s.clear()
        self._sent_s[client] = self._turn.now_s
        self.moved_count += 1
