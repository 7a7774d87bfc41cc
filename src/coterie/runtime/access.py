"""Who may connect, publish and subscribe: users with scrypt passwords and topic permissions, answered from memory."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Container, Sequence
from hashlib import scrypt

from coterie.errors import ConfigError
from coterie.mqtt.broker import Verdict
from coterie.mqtt.packets import Connect, Subscription
from coterie.mqtt.reasons import Reason
from coterie.mqtt.session import Session
from coterie.mqtt.topics import check_filter, filter_matches, split_shared
from coterie.runtime.config import AccessSection, User

COST, BLOCK, PARALLEL = 1 << 14, 8, 1
LOOPBACK = ("127.", "::1", "::ffff:127.")


def hash_password(password: str) -> str:
    """What the configuration holds instead of a password."""
    salt = secrets.token_bytes(16)
    digest = scrypt(password.encode(), salt=salt, n=COST, r=BLOCK, p=PARALLEL, dklen=32)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${_text(salt)}${_text(digest)}"


def check_password(password: bytes, stored: str) -> bool:
    """Takes a few tens of milliseconds, on purpose: call it off the loop."""
    _, cost, block, parallel, salt, digest = stored.split("$")
    expected = base64.b64decode(digest)
    found = scrypt(
        password, salt=base64.b64decode(salt), n=int(cost), r=int(block), p=int(parallel), dklen=len(expected)
    )
    return hmac.compare_digest(found, expected)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def filter_covers(wide: str, narrow: str) -> bool:
    """Whether every topic that `narrow` matches is matched by `wide`."""
    allowed, asked = wide.split("/"), narrow.split("/")
    for index, level in enumerate(allowed):
        if level == "#":
            return not (index == 0 and narrow.startswith("$"))
        if index >= len(asked) or asked[index] == "#":
            return False
        if level == "+":
            if index == 0 and narrow.startswith("$"):
                return False
        elif level != asked[index]:
            return False
    return len(allowed) == len(asked)


class Rights:
    """What one client may do; answers for topics are kept, for they are asked with every message."""

    __slots__ = ("_answers", "_publish", "_subscribe", "is_open")

    def __init__(self, publish: Sequence[str], subscribe: Sequence[str]) -> None:
        self._publish, self._subscribe = tuple(publish), tuple(subscribe)
        self.is_open = "#" in publish
        self._answers: dict[str, bool] = {}

    def may_publish(self, topic: str) -> bool:
        answer = self._answers.get(topic)
        if answer is None:
            answer = any(filter_matches(one, topic) for one in self._publish)
            if len(self._answers) >= 4096:
                self._answers.clear()
            self._answers[topic] = answer
        return answer

    def may_subscribe(self, topic_filter: str) -> bool:
        bare = split_shared(topic_filter)[1]
        return bare.startswith("$SYS/") or any(filter_covers(one, bare) for one in self._subscribe)


class Access:
    """The policy of a node's broker. `admit` decides who connects; the broker asks the rest."""

    def __init__(self, settings: AccessSection) -> None:
        self._settings = settings
        self._users: dict[str, User] = {}
        for user in settings.users:
            if len(user.password.split("$")) != 6 or not user.password.startswith("scrypt$"):
                raise ConfigError(f"access.users {user.name}", "password", "what --hash-password prints")
            for one in (*user.publish, *user.subscribe):
                check_filter(one)
            self._users[user.name] = user
        self._denied = frozenset(settings.denied_subscriptions)
        self._rights: dict[str, Rights] = {}  # client -> what it may do
        self._anonymous = Rights(settings.anonymous_publish, settings.anonymous_subscribe)

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
            return Verdict() if is_right else Verdict(Reason.BAD_USER_NAME_OR_PASSWORD)
        is_near = host.startswith(LOOPBACK) or not host
        if settings.anonymous == "always" or (settings.anonymous == "loopback" and is_near):
            return Verdict()
        return Verdict(Reason.NOT_AUTHORIZED, detail="a user name and password are needed")

    def remember(self, client: str, username: str | None) -> None:
        """The client was admitted as this user."""
        user = self._users.get(username) if username is not None else None
        if user is None:
            self._rights.pop(client, None)
            return
        named = [
            [one.replace("%u", user.name).replace("%c", client) for one in rules]
            for rules in (user.publish, user.subscribe)
        ]
        self._rights[client] = Rights(*named)

    def keep_only(self, clients: Container[str]) -> None:
        """Forget those whose sessions are gone."""
        self._rights = {client: rights for client, rights in self._rights.items() if client in clients}

    # --- what the broker asks ---

    def connect(self, packet: Connect) -> Verdict:
        return self.admit(packet, "")

    def publish(self, session: Session, topic: str) -> Reason:
        rights = self._rights.get(session.client_id, self._anonymous) if self._rights else self._anonymous
        if topic[0] == "$" or not (rights.is_open or rights.may_publish(topic)):
            return Reason.NOT_AUTHORIZED
        return Reason.SUCCESS

    def subscribe(self, session: Session, subscription: Subscription) -> Reason:
        if subscription.filter in self._denied:
            return Reason.UNSPECIFIED_ERROR
        rights = self._rights.get(session.client_id, self._anonymous)
        return Reason.SUCCESS if rights.may_subscribe(subscription.filter) else Reason.NOT_AUTHORIZED
