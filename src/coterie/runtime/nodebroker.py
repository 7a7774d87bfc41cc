"""The broker of a node that has peers: what is published here goes to the network as well."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import force_setattr

from coterie.mqtt.broker import Broker
from coterie.mqtt.fanout import fan_out
from coterie.mqtt.index import Match
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.reasons import Reason
from coterie.mqtt.session import Session
from coterie.runtime.access import Access
from coterie.runtime.interest import WatchedIndex


class NodeBroker(Broker):
    """A broker whose local publications also go to the network: clients' messages and wills alike.

    `new_identifier` gives a publication its identifier and `in_turn` decides by it which shared
    subscriptions are served here; `on_local` passes it on.
    """

    def __init__(self, options: ServerOptions, access: Access, client_id_prefix: str) -> None:
        super().__init__(options, access, client_id_prefix=client_id_prefix)
        self.watched: WatchedIndex[Session] = WatchedIndex()
        self.index = self.watched
        self.new_identifier: Callable[[], int] = lambda: 0
        self.in_turn: Callable[[Match[Session], int], Match[Session]] = lambda match, identifier: match
        self.on_local: Callable[[Message, int], None] = lambda message, identifier: None

    def deliver(self, message: Message, now_s: float, origin: Session | None = None) -> int:
        identifier = self.new_identifier()
        force_setattr(message, "id", identifier)  # it was made for this call and has not left it
        if message.retain:
            self.retained.set(message)
        match = self.in_turn(self.index.matches(message.topic), identifier)
        delivered = fan_out(SharedPublish(message, match.encoded), match, origin, self.dirty, now_s)
        self.on_local(message, identifier)
        return delivered

    def take_away(self, session: Session, now_s: float) -> None:
        """Its client is at another node now."""
        if session.connection is not None:
            connection = session.connection
            ended = self.disconnect(connection, Reason.SESSION_TAKEN_OVER, now_s, with_will=False)
            self.closing.append((connection, ended))

    def end_session(self, session: Session, now_s: float) -> None:
        self._end_session(session, now_s)
