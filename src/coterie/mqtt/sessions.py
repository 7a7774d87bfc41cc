"""Sessions, subscriptions and retained messages of one node put together, still without I/O.

Whoever serves clients opens a Connection per line, feeds it, and hands each fact to the method of the same name here.
It answers SUBSCRIBE with `confirm`, when the interest has taken effect; it publishes the `wills` that have become due;
it writes and clears the `output` of every session in `dirty`, once a turn, after what it depends on is safe; and it
closes what is in `closing`: connections that ended without its asking. Who comes and goes stands in the index's
`changes`.
"""

from __future__ import annotations

from itertools import count
from typing import Protocol

from coterie.mqtt.answers import RetainedAnswers
from coterie.mqtt.connection import Connection, Ended, Stage
from coterie.mqtt.fanout import fan_out
from coterie.mqtt.index import WatchedIndex
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import MQTT_3, MQTT_5, Connect, Subscribe, Subscription, Unsubscribe
from coterie.mqtt.publish import Message
from coterie.mqtt.reasons import Reason
from coterie.mqtt.retained import RetainedStore
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Budget, Session
from coterie.mqtt.timers import Timers
from coterie.mqtt.topics import SHARE_PREFIX, TopicNames


class Policy(Protocol):
    """Who may do what. Called on the hot path: answer from memory."""

    def publish(self, session: Session, topic: str) -> Reason: ...
    def subscribe(self, session: Session, subscription: Subscription) -> Reason: ...
    def read(self, session: Session, topic: str) -> bool: ...


class OpenPolicy:
    """Everyone may do everything, except subscribe to the filters of a deny list."""

    def __init__(self, denied_filters: tuple[str, ...] = (), denied_reason: Reason = Reason.UNSPECIFIED_ERROR) -> None:
        self._denied_filters = denied_filters
        self._denied_reason = denied_reason

    def publish(self, session: Session, topic: str) -> Reason:
        return Reason.SUCCESS

    def subscribe(self, session: Session, subscription: Subscription) -> Reason:
        return self._denied_reason if subscription.filter in self._denied_filters else Reason.SUCCESS

    def read(self, session: Session, topic: str) -> bool:
        return True


class Sessions:
    """See the module. All sessions of a node, by client identifier in `of`."""

    def __init__(
        self,
        options: ServerOptions | None = None,
        policy: Policy | None = None,
        *,
        retained: RetainedStore | None = None,
        client_id_prefix: str = "auto-",
    ) -> None:
        self.options = options or ServerOptions()
        self.policy: Policy = policy or OpenPolicy()
        self.names = TopicNames()
        self.index: WatchedIndex[Session] = WatchedIndex()
        limits = self.options
        self.retained = (
            RetainedStore(limits.retained_topics_max, limits.retained_bytes_max, limits.retained_topics_client_max)
            if retained is None
            else retained
        )
        self.answers = RetainedAnswers(self.retained)
        self.budget = Budget(limits.stored_bytes_max)
        self.of: dict[str, Session] = {}
        self.subscription_count = 0
        self.dirty: list[Session] = []
        self.closing: list[tuple[Connection, Ended]] = []
        self.wills: list[Message] = []  # due, and allowed
        self._client_id_prefix = client_id_prefix
        self._client_numbers = count(1)
        self._timers: Timers[Connection | Session] = Timers()

    def set_options(self, options: ServerOptions) -> None:
        """Other limits from now on; what connections have announced to their clients stays."""
        self.options = options
        self.budget.bytes_max = options.stored_bytes_max
        self.retained.limit(options.retained_topics_max, options.retained_bytes_max, options.retained_topics_client_max)
        for session in self.of.values():
            session.options = options

    def name_clients(self, prefix: str) -> None:
        """How identifiers begin that are given to clients without one."""
        self._client_id_prefix = prefix

    def open(self, now_s: float, peer: str = "") -> Connection:
        connection = Connection(self.options, self.names, now_s, peer)
        self._watch(connection)
        return connection

    def take_away(self, session: Session, now_s: float) -> None:
        """Its client is at another node now."""
        if session.connection is not None:
            connection = session.connection
            ended = self.disconnect(connection, Reason.SESSION_TAKEN_OVER, now_s, with_will=False)
            self.closing.append((connection, ended))

    def rest(self, session: Session, now_s: float) -> None:
        """A session that came here without its client waits for it, as if it had just gone."""
        self._detach(session, False, now_s)

    # -- connecting -------------------------------------------------------------------------------------------------

    def connect(self, connection: Connection, packet: Connect, ruling: Ruling, now_s: float) -> Ended | None:
        """Answer a CONNECT: refuse it, or find or make its session and take that over from an older connection.

        The ruling may take its time; if the client has gone meanwhile, nothing happens.
        """
        if connection.stage is not Stage.DECIDING:
            return Ended(Reason.UNSPECIFIED_ERROR, "gone before the answer", with_will=False)
        if packet.properties.authentication_method is not None:
            ruling = Ruling(Reason.BAD_AUTHENTICATION_METHOD, detail="extended authentication is not supported")
        elif not packet.client_id and packet.version < (MQTT_3 if packet.clean_start else MQTT_5):
            ruling = Ruling(Reason.CLIENT_ID_NOT_VALID, detail="MQTT 3.1 and lasting sessions need a client identifier")
        elif len(self.of) >= self.options.session_count_max and packet.client_id not in self.of:
            ruling = Ruling(Reason.QUOTA_EXCEEDED, detail="the server has no room for another session")
        ruling = self.claim(packet, ruling)
        if ruling.reason is not Reason.SUCCESS:
            self._timers.set(connection, None)
            return connection.refuse(ruling.reason, server_reference=ruling.server_reference, detail=ruling.detail)
        assigned_id = "" if packet.client_id else self._new_client_id()
        if not connection.has_room(packet, self._expiry_s(packet), assigned_id):
            self._timers.set(connection, None)
            return connection.refuse(Reason.PACKET_TOO_LARGE, detail="the answer is larger than the client takes")
        client_id = packet.client_id or assigned_id
        session = self.of.get(client_id)
        if session is not None:
            self._take_over(session, packet.clean_start or session.owner != ruling.user, now_s)
            session = self.of.get(client_id)
        is_present = session is not None
        if session is None:
            session = self._new_session(client_id, ruling.user)
        session.expiry_s, session.came_s = self._expiry_s(packet), now_s
        session.will = packet.will
        connection.accept(session, packet, now_s, session_present=is_present, assigned_id=assigned_id)
        if session.owed:
            self.answers.owing[session] = None
        self._timers.set(session, None)
        self._watch(connection)
        return None

    def claim(self, packet: Connect, ruling: Ruling) -> Ruling:
        """The ruling, or why this user cannot have this session or leave this will.

        A session of a user is never given to another, nor ended or pushed aside by it. One without an owner is
        nobody's: a user with a name takes its client identifier and starts afresh.
        """
        if ruling.reason is not Reason.SUCCESS:
            return ruling
        session = self.of.get(packet.client_id)
        if session is not None and session.owner not in (None, ruling.user):
            return Ruling(Reason.CLIENT_ID_NOT_VALID, detail="the client identifier is another user's")
        if packet.will is not None:
            asking = Session(packet.client_id, self.options)
            asking.owner = ruling.user
            if self.policy.publish(asking, packet.will.topic) is not Reason.SUCCESS:
                return Ruling(Reason.NOT_AUTHORIZED, detail="the will's topic is not allowed")
        return ruling

    def _new_client_id(self) -> str:
        while True:
            client_id = f"{self._client_id_prefix}{next(self._client_numbers)}"
            if client_id not in self.of:
                return client_id

    def _new_session(self, client_id: str, owner: str | None) -> Session:
        session = self.of[client_id] = Session(client_id, self.options, self.budget)
        session.owner = owner
        return session

    def _expiry_s(self, packet: Connect) -> int:
        longest_s = self.options.session_expiry_s_max
        if packet.version >= MQTT_5:
            return min(packet.properties.session_expiry_s or 0, longest_s)
        return 0 if packet.clean_start else longest_s

    def _take_over(self, session: Session, clean_start: bool, now_s: float) -> None:
        old = session.connection
        if old is not None:
            self.closing.append((old, old.disconnect(Reason.SESSION_TAKEN_OVER)))
            self._timers.set(old, None)
            self._detach(session, True, now_s)
        if session.client_id not in self.of:
            return
        if clean_start:
            self.end_session(session, now_s)
        elif session.will_due_s is not None and session.will_due_s > now_s:
            session.will = session.will_due_s = None  # section 3.1.3.2.2: back before the will was due

    # -- publishing -------------------------------------------------------------------------------------------------

    def deliver(self, message: Message, now_s: float, origin: Session | None = None) -> int:
        """A message from anywhere (client, will, another node): retained if it says so, then to the local receivers."""
        if message.retain:
            self.retained.set(message)
        match = self.index.matches(message.topic)
        return fan_out(message, match, origin, self.dirty, now_s)

    # -- subscribing ------------------------------------------------------------------------------------------------

    def subscribe(self, connection: Connection, packet: Subscribe) -> tuple[tuple[int, bool], ...]:
        """Enter the subscriptions; returns (reason, whether it is new) of each, to be given to `confirm`."""
        session = connection.session
        if session is None or session.connection is not connection:  # it ended before its turn came
            return ((Reason.UNSPECIFIED_ERROR, False),) * len(packet.subscriptions)
        results = []
        for subscription in packet.subscriptions:
            reason: int = self.policy.subscribe(session, subscription)
            is_new = False
            is_full = (
                len(session.subscriptions) >= self.options.subscription_count_max
                or self.subscription_count >= self.options.subscription_total_max
            )
            if is_full and subscription.filter not in session.subscriptions:
                reason = Reason.QUOTA_EXCEEDED
            if reason == Reason.SUCCESS:
                reason = subscription.qos
                is_new = session.subscribe(subscription)
                self.subscription_count += is_new
                self.index.subscribe(session, subscription)
            results.append((reason, is_new))
        return tuple(results)

    def confirm(
        self, connection: Connection, packet: Subscribe, results: tuple[tuple[int, bool], ...], now_s: float
    ) -> None:
        """SUBACK, then the retained messages that the options ask for: a part of them now, the rest by `answer_on`."""
        connection.suback(packet.packet_id, tuple(reason for reason, _ in results))
        session = connection.session
        if session is None or connection.stage is not Stage.OPEN:
            return
        self.dirty.append(session)
        for subscription, (reason, is_new) in zip(packet.subscriptions, results, strict=True):
            handling = subscription.retain_handling
            is_asked = handling == 0 or (handling == 1 and is_new)
            if reason < 0x80 and is_asked and not subscription.filter.startswith(SHARE_PREFIX):
                self.answers.begin(session, subscription)
        if session.owed:
            self.answer(session, now_s)

    def answer(self, session: Session, now_s: float) -> None:
        """A part of the retained messages that it is owed."""
        self.answers.advance(session, self.options.retained_count_max, now_s)

    def answer_on(self, now_s: float) -> bool:
        """The next part for somebody; False if none of those who wait for one takes it at present."""
        return self.answers.part(self.options.retained_count_max, self.dirty, now_s)

    def unsubscribe(self, connection: Connection, packet: Unsubscribe) -> None:
        session = connection.session
        assert session is not None
        reasons = []
        for topic_filter in packet.filters:
            self.index.unsubscribe(session, topic_filter)
            existed = session.unsubscribe(topic_filter)
            self.subscription_count -= existed
            reasons.append(Reason.SUCCESS if existed else Reason.NO_SUBSCRIPTION_EXISTED)
        connection.unsuback(packet.packet_id, tuple(reasons))

    # -- ending -----------------------------------------------------------------------------------------------------

    def ended(self, connection: Connection, ended: Ended, now_s: float) -> None:
        """The connection is over by a packet, an error, a timer or the driver's `disconnect`."""
        self._timers.set(connection, None)
        session = connection.session
        if session is not None and session.connection is connection:
            self._detach(session, ended.with_will, now_s)

    def disconnect(
        self,
        connection: Connection,
        reason: Reason,
        now_s: float,
        *,
        server_reference: str = "",
        with_will: bool = True,
    ) -> Ended:
        """End a connection from this side, for instance to send its client to another server."""
        ended = connection.disconnect(reason, server_reference=server_reference, with_will=with_will)
        self.ended(connection, ended, now_s)
        return ended

    def lost(self, connection: Connection, now_s: float) -> None:
        """The socket closed without a DISCONNECT."""
        connection.stage = Stage.CLOSED
        self.ended(connection, Ended(Reason.UNSPECIFIED_ERROR, "the connection was lost"), now_s)

    def _detach(self, session: Session, with_will: bool, now_s: float) -> None:
        session.detach(now_s, with_will)
        self._check_session(session, now_s)

    def _check_session(self, session: Session, now_s: float) -> None:
        """Publish a will that is due and end an offline session whose time is up, or look again when it is."""
        if session.will_due_s is not None and session.will_due_s <= now_s:
            self._publish_will(session, now_s)
            session.report()  # whoever starts with what is kept must not say it again
        if session.expires_at_s is not None and session.expires_at_s <= now_s:
            self.end_session(session, now_s)
        else:
            self._watch(session)

    def end_session(self, session: Session, now_s: float) -> None:
        """It is over, whatever it still held; a will it had is due."""
        del self.of[session.client_id]
        self.answers.owing.pop(session, None)
        session.end()
        self.subscription_count -= len(session.subscriptions)
        self._timers.set(session, None)
        for topic_filter in session.subscriptions:
            self.index.unsubscribe(session, topic_filter)
        self._publish_will(session, now_s)

    def _publish_will(self, session: Session, now_s: float) -> None:
        message = session.take_will(now_s)
        if message is not None and self.policy.publish(session, message.topic) is Reason.SUCCESS:
            self.wills.append(message)

    def review(self, session: Session) -> list[str]:
        """Rights have changed: what is not allowed any more is taken back, and what waits of it is given up.

        Every subscription that is entered is allowed; so is then every delivery, without asking each time. Returns the
        filters that were taken back.
        """
        refused = self._refused(session)
        self._take_back(session, refused)
        return refused

    def _take_back(self, session: Session, refused: list[str]) -> None:
        for topic_filter in refused:
            self.index.unsubscribe(session, topic_filter)
            self.subscription_count -= session.unsubscribe(topic_filter)
        session.forget(lambda topic: self.policy.read(session, topic))

    def _refused(self, session: Session) -> list[str]:
        wanted = session.subscriptions.values()
        return [one.filter for one in wanted if self.policy.subscribe(session, one) is not Reason.SUCCESS]

    def restore(self, session: Session, now_s: float) -> None:
        """Take in a session that a store kept; its subscriptions work again at once, as far as they are still allowed.

        One that was online when its state was written lost its connection now.
        """
        for topic_filter in self._refused(session):
            session.unsubscribe(topic_filter)
        session.forget(lambda topic: self.policy.read(session, topic))
        if session.will_due_s is None and session.expires_at_s is None:
            session.detach(now_s, with_will=True)
        self.of[session.client_id] = session
        self.subscription_count += len(session.subscriptions)
        session.join(self.budget)
        for subscription in session.subscriptions.values():
            self.index.subscribe(session, subscription)
        self.answers.resume(session)
        self._check_session(session, now_s)

    def adopt(self, session: Session, now_s: float) -> None:
        """Take in a session that came from another node; its subscriptions are entered already."""
        refused = self._refused(session)
        self.of[session.client_id] = session
        self.subscription_count += len(session.subscriptions)
        session.join(self.budget)
        self._take_back(session, refused)
        self.answers.resume(session)
        session.detach(now_s, with_will=False)
        self._check_session(session, now_s)

    # -- time -------------------------------------------------------------------------------------------------------

    @property
    def deadline_s(self) -> float | None:
        """When `on_time` should be called next, at the latest; it may turn out that there is nothing to do."""
        moments = [one for one in (self._timers.deadline_s, self.retained.deadline_s) if one is not None]
        return min(moments) if moments else None

    def on_time(self, now_s: float) -> None:
        """Silent clients (see `take_closing`), wills that are due, expired sessions and retained messages."""
        for subject in self._timers.due(now_s):
            if isinstance(subject, Session):
                self._check_session(subject, now_s)
                continue
            ended = subject.on_time(now_s)
            if ended is None:
                self._watch(subject)
            else:
                self.ended(subject, ended, now_s)
                self.closing.append((subject, ended))
        self.retained.expire(now_s)

    def _watch(self, subject: Connection | Session) -> None:
        self._timers.set(subject, subject.deadline_s)
