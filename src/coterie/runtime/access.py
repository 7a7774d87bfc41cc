"""Who may connect, publish and subscribe: users with passwords and topic permissions, answered from memory."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.mqtt.broker import Verdict
from coterie.mqtt.packets import Connect, Subscription
from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.session import Session
from coterie.mqtt.topics import check_filter, split_shared
from coterie.runtime.config import AccessSection, User
from coterie.runtime.passwords import ALLOWED, check_password, is_stored
from coterie.runtime.rights import Rights, Rules

LOOPBACK = ("127.", "::1", "::ffff:127.")


class Access:
    """The policy of a node's broker. `admit` decides who connects; the broker asks the rest."""

    def __init__(self, settings: AccessSection) -> None:
        self._settings = settings
        self._users: dict[str, User] = {}
        for user in settings.users:
            if not is_stored(user.password):
                raise ConfigError(f"access.users {user.name}", "password", ALLOWED)
            self._users[user.name] = user
        self._rules = {user.name: Rules(user.publish, user.subscribe, user.share) for user in settings.users}
        self._anonymous = Rules(settings.anonymous_publish, settings.anonymous_subscribe, settings.anonymous_share)
        for rules in (self._anonymous, *self._rules.values()):
            _check(rules)
        self._denied = frozenset(settings.denied_subscriptions)

    def needs_check(self, packet: Connect) -> bool:
        return packet.username is not None and packet.username in self._users

    def admit(self, packet: Connect, host: str) -> Verdict:
        """May take long where there is a password to check."""
        settings = self._settings
        if packet.username is not None and self._users:
            user = self._users.get(packet.username)
            # An unknown user costs as much as a known one, so that names cannot be found out by the clock.
            stored = user.password if user is not None else next(iter(self._users.values())).password
            is_right = check_password(packet.password or b"", stored) and user is not None
            return Verdict(user=packet.username) if is_right else Verdict(Reason.BAD_USER_NAME_OR_PASSWORD)
        is_near = host.startswith(LOOPBACK) or not host
        if settings.anonymous == "always" or (settings.anonymous == "loopback" and is_near):
            return Verdict()
        return Verdict(Reason.NOT_AUTHORIZED, detail="a user name and password are needed")

    def rights_of(self, session: Session) -> Rights:
        """Follows from the session's owner alone, so it is the same after a restart. A user who is gone may nothing."""
        if session.rights is None:
            owner = session.owner
            rules = self._anonymous if owner is None else self._rules.get(owner, Rules())
            session.rights = Rights(rules, owner or "", session.client_id)
        rights: Rights = session.rights
        return rights

    # --- what the broker asks ---

    def connect(self, packet: Connect) -> Verdict:
        return self.admit(packet, "")

    def publish(self, session: Session, topic: str) -> Reason:
        rights = session.rights or self.rights_of(session)
        if (rights.is_open and topic[0] != "$") or rights.may_publish(topic):
            return Reason.SUCCESS
        return Reason.NOT_AUTHORIZED

    def subscribe(self, session: Session, subscription: Subscription) -> Reason:
        if self._denied and not self._denied.isdisjoint((subscription.filter, split_shared(subscription.filter)[1])):
            return Reason.UNSPECIFIED_ERROR
        allowed = self.rights_of(session).may_subscribe(subscription.filter)
        return Reason.SUCCESS if allowed else Reason.NOT_AUTHORIZED

    def read(self, session: Session, topic: str) -> bool:
        return self.rights_of(session).may_read(topic)


def _check(rules: Rules) -> None:
    for one in (*rules.publish, *rules.subscribe):
        try:
            check_filter(one)
        except MqttError as error:
            raise ConfigError("access", one, f"a topic filter: {error.reason}") from None
