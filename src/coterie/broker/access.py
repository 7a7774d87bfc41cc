"""Who may connect, publish and subscribe: users with passwords and topic permissions, answered from memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coterie.broker.credentials import NO_ONE, Check, TokenRule
from coterie.broker.passwords import ALLOWED, is_stored
from coterie.broker.rights import Rights, TopicRules
from coterie.broker.settings import AccessSection
from coterie.errors import ConfigError
from coterie.mqtt.packets import Connect, Subscription
from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Session
from coterie.mqtt.topics import check_filter, split_shared

NOBODY = Connect("")
LOOPBACK = ("127.", "::1", "::ffff:127.")


class Access:
    """The policy of a node's broker. `ask` decides who connects, or says what to check; the broker asks the rest."""

    def __init__(
        self, settings: AccessSection, passwords: Mapping[str, str] = MappingProxyType({}), key: str = ""
    ) -> None:
        self._stored: dict[str, str] = {}
        self.set(settings, passwords, key)

    def set(self, settings: AccessSection, passwords: Mapping[str, str], key: str) -> frozenset[str]:
        """Users or rules have changed (or are given for the first time): those of `access`, and of the password file.

        Whoever keeps sessions must let go of their `rights` and have them reviewed. Returns the users whose passwords
        are other ones now.
        """
        stored = dict(passwords)
        for user in settings.users:
            if user.password and not is_stored(user.password):
                raise ConfigError(f"access.users {user.name}", "password", ALLOWED)
            if user.password:
                stored[user.name] = user.password
        rules = {user.name: TopicRules(user.publish, user.subscribe, user.share) for user in settings.users}
        others = TopicRules(settings.others.publish, settings.others.subscribe, settings.others.share)
        anonymous = TopicRules(settings.anonymous_publish, settings.anonymous_subscribe, settings.anonymous_share)
        for one in (anonymous, others, *rules.values()):
            _check(one)
        jwt = settings.jwt
        changed = frozenset(name for name, one in self._stored.items() if stored.get(name) != one)
        self._settings, self._stored = settings, stored
        self._rules = dict.fromkeys(passwords, others) | rules
        self._anonymous = anonymous
        self._tokens = (
            TokenRule(key, jwt.algorithms, jwt.user_claim, jwt.audience, jwt.issuer) if jwt.algorithms else None
        )
        # Names in tokens and certificates are not known beforehand.
        self._strangers = others if self._tokens is not None or settings.certificate_users else TopicRules()
        self._nobody = next(iter(stored.values()), NO_ONE)
        self._denied = frozenset(settings.denied_subscriptions)
        return changed

    def may_stay(self, owner: str | None, host: str) -> bool:
        """Whether a client that is connected as this user would still be let in."""
        if owner is None:
            return isinstance(asked := self.ask(NOBODY, host), Ruling) and asked.reason is Reason.SUCCESS
        return owner in self._rules or self._strangers != TopicRules()

    def ask(self, packet: Connect, host: str, certified: str = "", is_inner: bool = False) -> Ruling | Check:
        """The verdict, or what must be checked for it; `certified` is the user a certificate (or the node) names."""
        settings, user = self._settings, packet.username
        if certified and (is_inner or settings.certificate_users):
            is_same = user in (None, "", certified)
            return Ruling(user=certified) if is_same else Ruling(Reason.BAD_USER_NAME_OR_PASSWORD)
        if user is not None and (self._stored or self._tokens is not None):
            is_known = user in self._stored
            return Check(user, packet.password or b"", self._stored.get(user, self._nobody), is_known, self._tokens)
        is_near = host.startswith(LOOPBACK) or not host
        if settings.anonymous == "always" or (settings.anonymous == "loopback" and is_near):
            return Ruling()
        return Ruling(Reason.NOT_AUTHORIZED, detail="a user name and password are needed")

    def rights_of(self, session: Session) -> Rights:
        """Follows from the session's owner alone, so it is the same after a restart. A user who is gone may nothing."""
        if session.rights is None:
            owner = session.owner
            rules = self._anonymous if owner is None else self._rules.get(owner, self._strangers)
            session.rights = Rights(rules, owner or "", session.client_id)
        rights: Rights = session.rights
        return rights

    # --- what the broker asks ---

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


def _check(rules: TopicRules) -> None:
    for one in (*rules.publish, *rules.subscribe):
        try:
            check_filter(one)
        except MqttError as error:
            raise ConfigError("access", one, f"a topic filter: {error.reason}") from None
