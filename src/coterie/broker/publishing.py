"""What local clients publish: allowed or not, to local receivers, kept if it must be, and into the network.

A *route* is what a topic means for one connection: may it, who wants it here. It holds until the index changes, which
is also said to have changed when rights do.
"""

from __future__ import annotations

from coterie.broker.access import Access
from coterie.broker.carried import RETAINED_CHANNEL, Identifiers, encode_carried
from coterie.broker.counts import Counts
from coterie.broker.crossing import Crossings
from coterie.broker.delivering import Delivering, RecentEvents
from coterie.broker.detours import Detours
from coterie.broker.frames import Detoured
from coterie.broker.interest import InterestBook, is_local
from coterie.broker.journal import Journal, PublishTally
from coterie.broker.lastpublished import LastPublished
from coterie.broker.lastwords import LastWords, logged_name
from coterie.broker.links import PeerLinks
from coterie.broker.planes import ControlPlanes
from coterie.broker.siblings import PLAIN, SHARED, Siblings
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import LOG, MESSAGES
from coterie.mqtt.connection import Connection
from coterie.mqtt.fanout import fan_out, fan_out_run
from coterie.mqtt.index import Match
from coterie.mqtt.packets import MQTT_5, Publish
from coterie.mqtt.properties import NO_PROPERTIES
from coterie.mqtt.publish import Message, PublishRun, message_of
from coterie.mqtt.reasons import Reason
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions
from coterie.protocol.events import Event, Published

ROUTES_MAX = 1024
SUCCESS = Reason.SUCCESS  # see `connection.OPEN`


class Route:
    """See the module. `siblings`: who wants it among the processes of this machine.

    Where nobody but they can want it, it is bare if it may go to them as it is at QoS 0, and light if nothing of it has
    to be kept at QoS 1: no session that lasts wants it, here or there.
    """

    __slots__ = ("is_bare", "is_light", "is_straight", "match", "reason", "siblings", "tally", "version")

    def __init__(
        self, version: int, reason: Reason, match: Match[Session], tally: PublishTally, is_here: bool,
        siblings: tuple[int, ...] = (), kind: int | None = None,
    ) -> None:  # fmt: skip
        self.version, self.reason, self.match, self.tally, self.siblings = version, reason, match, tally, siblings
        self.is_bare = kind is not None and kind < SHARED and not match.groups
        self.is_light = self.is_bare and kind == PLAIN and all(
            one.receiver.journal is None and one.receiver.collected is None for one in match.receivers
        )  # fmt: skip
        # It may be published, nobody elsewhere wants it, and those who do here are nothing special.
        is_plain = not match.groups and all(one.is_plain for one in match.receivers)
        self.is_straight = (is_here or (self.is_light and not siblings)) and is_plain and reason is SUCCESS


class Publishing:
    """See the module."""

    def __init__(
        self, sessions: Sessions, access: Access, delivering: Delivering, planes: ControlPlanes, book: InterestBook,
        words: LastWords, recent: RecentEvents, detours: Detours, links: PeerLinks, talk: Talk,
        last: LastPublished, identifiers: Identifiers, journal: Journal | None, counts: Counts, is_alone: bool,
        siblings: Siblings | None, crossing: Crossings | None, turn: Turn,
    ) -> None:  # fmt: skip
        self._sessions, self._index, self._budget, self._access = sessions, sessions.index, sessions.budget, access
        self._delivering, self._planes, self._book, self._words = delivering, planes, book, words
        self._recent, self._identifiers, self._journal, self._counts = recent, identifiers, journal, counts
        self._detours, self._links, self._talk = detours, links, talk
        self._last, self._is_alone, self._turn = last, is_alone, turn
        self._siblings, self._crossing = siblings, crossing

    def route(self, connection: Connection, session: Session, topic: str) -> Route:
        known: Route | None = connection.routes.get(topic)
        if known is not None and known.version == self._index.version:
            return known
        if len(connection.routes) >= ROUTES_MAX:
            connection.routes.clear()
        tally = PublishTally(session.client_id, topic) if known is None else known.tally
        reason, match = self._access.publish(session, topic), self._index.matches(topic)
        siblings = self._siblings
        if siblings is None or not siblings.is_direct:
            route = Route(self._index.version, reason, match, tally, self._is_alone)
        else:
            route = Route(self._index.version, reason, match, tally, False, *siblings.wanting(topic))
        connection.routes[topic] = route
        return route

    def take_run(self, connection: Connection, run: PublishRun) -> None:
        """Plain QoS 0 messages of one topic in a row: the shortest way."""
        session, count, now_s, counts = connection.session, run.count, self._turn.now_s, self._counts
        assert session is not None
        counts.messages_in += count
        route: Route | None = connection.routes.get(run.topic)
        if route is None or route.version != self._index.version:
            route = self.route(connection, session, run.topic)
        if route.reason is not SUCCESS:
            counts.published_refused += count
            return
        match = route.match
        if self._journal is not None:
            self._journal.published(route.tally, now_s, run.payload_bytes, count)
        if self._is_alone or not match.groups:
            delivered = fan_out_run(run, match, session, self._sessions.dirty, now_s)
            counts.messages_out += delivered
            counts.fan_out.add(delivered // count, count)
        if self._is_alone:
            return
        if route.is_bare and self._siblings is not None and self._siblings.is_sure:
            if route.siblings and self._crossing is not None and not is_local(run.topic):
                counts.events_out += count
                self._crossing.add_bare(route.siblings, run)
            return
        for publish in run.publishes():
            message = message_of(publish, now_s, session.client_id, *self._name(run.topic, False))
            self._spread(message, session, match if match.groups else None)  # in a group each message has its turn

    def take(self, connection: Connection, packet: Publish) -> bool:
        """Any other; False if there is no room and no way to say so: 3.1.1 knows no answer but the acknowledgement."""
        session = connection.session
        assert session is not None
        self._counts.messages_in += 1
        route: Route | None = connection.routes.get(packet.topic)
        if route is None or route.version != self._index.version:
            route = self.route(connection, session, packet.topic)
        reason, budget = route.reason, self._budget
        if reason is SUCCESS and (packet.retain or budget.full or not budget.has_room(len(packet.payload))):
            reason = self._room(packet, session, route.match)
        if reason is not SUCCESS:
            return self._refuse(connection, packet, reason)
        if route.is_light and packet.qos < 2 and not packet.retain and packet.properties is NO_PROPERTIES:
            siblings, crossing = self._siblings, self._crossing
            is_sure = siblings is not None and siblings.is_sure
            if crossing is not None and is_sure and (not route.siblings or crossing.can_reach(route.siblings)):
                self._take_lightly(connection, session, packet, route, crossing)
                return True
        now_s = self._turn.now_s
        identifier, before = self._name(packet.topic, bool(packet.qos or packet.retain))
        message = message_of(packet, now_s, session.client_id, identifier, before)
        self._spread(message, session, route.match)
        if self._journal is not None:
            self._journal.published(route.tally, now_s, len(packet.payload))
        if packet.qos:
            connection.acknowledge(packet)
        return True

    def _take_lightly(
        self, connection: Connection, session: Session, packet: Publish, route: Route, crossing: Crossings
    ) -> None:  # fmt: skip
        """What no session that lasts wants, on a machine by itself: nothing is kept, as on a node that is alone."""
        now_s, match, counts = self._turn.now_s, route.match, self._counts
        message = Message(
            packet.topic, packet.payload, packet.qos, False, NO_PROPERTIES, None, session.client_id,
            self._identifiers.next(self._turn.now_us),
        )  # fmt: skip
        if match.receivers:
            delivered = fan_out(message, match, session, self._sessions.dirty, now_s)
            counts.messages_out += delivered
            counts.fan_out.add(delivered)
        if packet.qos and self._recent.is_watched:
            self._recent.note(message.id, now_s)
        if route.siblings and not is_local(message.topic):
            counts.events_out += 1
            if packet.qos:
                serial = crossing.add_owed(route.siblings, session.client_id, message)
                connection.held_serial = max(connection.held_serial, serial)
            else:
                crossing.send(route.siblings, encode_carried(message.id, message, 1))
        if self._journal is not None:
            self._journal.published(route.tally, now_s, len(packet.payload))
        if packet.qos:
            connection.acknowledge(packet)

    def _refuse(self, connection: Connection, packet: Publish, reason: Reason) -> bool:
        self._counts.published_refused += 1
        if packet.qos:
            if reason is Reason.QUOTA_EXCEEDED and connection.version < MQTT_5:
                return False
            connection.acknowledge(packet, reason)
        return True

    def publish_wills(self) -> None:
        """Those that have become due."""
        sessions = self._sessions
        while sessions.wills:
            wills, sessions.wills = sessions.wills, []
            for will in wills:
                identifier, before = self._name(will.topic, bool(will.qos or will.retain))
                message = Message(
                    will.topic, will.payload, will.qos, will.retain, will.properties, will.expires_at_s,
                    will.publisher, identifier, before,
                )  # fmt: skip
                self._spread(message, None, self._index.matches(will.topic))

    def show(self, topic: str, text: str) -> None:
        """The node's own figures ($SYS): to local subscribers only, and retained."""
        message = Message(topic, text.encode(), 0, True)
        self._sessions.retained.set(message)
        match = self._index.matches(topic)
        fan_out(message, match, None, self._sessions.dirty, self._turn.now_s)

    def _name(self, topic: str, is_kept: bool) -> tuple[int, int]:
        """The identifier of a message, and of the one before it: what goes into the log names that."""
        identifier = self._identifiers.next(self._turn.now_us)
        if self._is_alone or not is_kept or is_local(topic):
            return identifier, 0
        return identifier, self._last.follow(topic, identifier)

    def _room(self, packet: Publish, session: Session, match: Match[Session]) -> Reason:
        """Whether what a message asks to be kept can be kept; who cannot be acknowledged is told so."""
        message = message_of(packet, self._turn.now_s, session.client_id)
        if message.retain and not self._sessions.retained.has_room(message):
            self._counts.retained_refused += 1
            return Reason.QUOTA_EXCEEDED
        full = self._budget.full
        if message.qos and (
            not self._budget.has_room(len(message.payload))
            or (full and any(one.qos and one.receiver in full for one in match.receivers))
        ):
            self._counts.stored_refused += 1
            return Reason.QUOTA_EXCEEDED
        return Reason.SUCCESS

    def _spread(self, message: Message, origin: Session | None, match: Match[Session] | None) -> None:
        """To the local receivers (None: they have it), then to the network.

        At QoS 1 and 2 it is in the log with this turn's batch, before anything of it leaves.
        """
        stamp = self._words.speak(message) if message.retain else 0
        if match is not None and match.groups:
            match = self._delivering.in_turn(match, message.id)
        if match is not None and (match.receivers or match.groups):
            delivered = fan_out(message, match, origin, self._sessions.dirty, self._turn.now_s)
            self._counts.messages_out += delivered
            self._counts.fan_out.add(delivered)
        if self._is_alone:
            return
        if message.qos:
            self._recent.note(message.id, self._turn.now_s)
        if is_local(message.topic):
            return
        self._counts.events_out += 1
        siblings, crossing = self._siblings, self._crossing
        is_direct = siblings is not None and siblings.is_direct
        channels = (message.topic,) if is_direct else self._book.remote.channels(message.topic)
        body = encode_carried(message.id, message, len(channels), stamp)
        if message.qos or message.retain:
            topic = logged_name(message.topic, stamp) if message.retain else message.topic
            self._turn.writes.append((LOG, message.id, topic.encode()))
            self._turn.writes.append((MESSAGES, message.id, body))
        if is_direct and siblings is not None and crossing is not None:
            crossing.send(siblings.others if message.retain else siblings.in_question(message.topic), body)
            return
        if message.retain:
            channels = (*channels, RETAINED_CHANNEL)
        if self._detours.has_any:
            self._send_detoured(channels, body)
        plane = self._planes.in_use
        plane.step(Published(Event(message.id, channels[0], body)))
        for channel in channels[1:]:
            plane.step(Published(Event(self._identifiers.next(self._turn.now_us), channel, body)))

    def _send_detoured(self, channels: tuple[str, ...], body: bytes) -> None:
        """One copy to each node that has no tree yet."""
        nodes = dict.fromkeys(node for channel in channels for node in self._detours.to(channel))
        if self._detours.is_outside(channels):
            nodes |= dict.fromkeys(self._links.peers)
        for node in nodes:
            if not self._talk.tell(node, Detoured(body)):
                self._links.shed[node] = None
