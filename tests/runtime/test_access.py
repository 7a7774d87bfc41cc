"""Who is let in, and what a session's owner may do."""

from __future__ import annotations

import base64
from hashlib import scrypt

import pytest

from coterie.errors import ConfigError
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Connect, Subscription
from coterie.mqtt.reasons import Reason
from coterie.mqtt.session import Session
from coterie.runtime.access import Access
from coterie.runtime.config import AccessSection, User


def cheap(password: str) -> str:
    """A stored password that takes no time to check."""
    digest = scrypt(password.encode(), salt=b"salt", n=2, r=8, p=1, dklen=32)
    return f"scrypt$2$8$1${base64.b64encode(b'salt').decode()}${base64.b64encode(digest).decode()}"


def session_of(owner: str | None, client: str = "c1") -> Session:
    session = Session(client, ServerOptions())
    session.owner = owner
    return session


ANN = User(name="ann", password=cheap("secret"), publish=("home/%u/#",), subscribe=("home/#", "own/%c"))


def test_users_and_passwords() -> None:
    access = Access(AccessSection(anonymous="never", users=[ANN]))
    admitted = access.admit(Connect("c1", username="ann", password=b"secret"), "10.0.0.1")
    assert (admitted.reason, admitted.user) == (Reason.SUCCESS, "ann")
    assert access.admit(Connect("c1", username="ann", password=b"no"), "").reason is Reason.BAD_USER_NAME_OR_PASSWORD
    assert access.admit(Connect("c1", username="bob", password=b"secret"), "").reason >= 0x80
    assert access.admit(Connect("c1"), "127.0.0.1").reason is Reason.NOT_AUTHORIZED


def test_what_the_owner_may_do_follows_from_its_name_alone() -> None:
    access = Access(AccessSection(anonymous_publish=("public",), users=[ANN]))
    ann = session_of("ann")
    assert access.publish(ann, "home/ann/x") is Reason.SUCCESS
    assert access.publish(ann, "home/bob/x") is Reason.NOT_AUTHORIZED
    for wish, allowed in (("home/+/x", True), ("#", False), ("own/c1", True), ("$share/g/home/a", True)):
        assert (access.subscribe(ann, Subscription(wish)) is Reason.SUCCESS) == allowed
    assert access.read(ann, "home/x")
    assert not access.read(ann, "secret")
    for gone in ("bob", ""):  # a user the configuration does not know any more is not "anonymous"
        assert access.publish(session_of(gone), "public") is Reason.NOT_AUTHORIZED
    assert access.publish(session_of(None), "public") is Reason.SUCCESS


def test_dollar_topics_are_nobodys_to_publish() -> None:
    everything = User(name="root", password=cheap("x"), publish=("#", "$SYS/#"))
    access = Access(AccessSection(users=[everything], anonymous_publish=("#", "$SYS/#")))
    for owner in ("root", None):
        assert access.publish(session_of(owner), "a") is Reason.SUCCESS
        assert access.publish(session_of(owner), "$SYS/x") is Reason.NOT_AUTHORIZED
        assert access.publish(session_of(owner), "$share/g/a") is Reason.NOT_AUTHORIZED


def test_filters_that_nobody_gets_are_not_had_by_sharing_them() -> None:
    access = Access(AccessSection(denied_subscriptions=["a/#"]))
    for wish in ("a/#", "$share/g/a/#"):
        assert access.subscribe(session_of(None), Subscription(wish)) is Reason.UNSPECIFIED_ERROR


def test_anonymous_clients_come_from_this_machine_unless_configured() -> None:
    assert Access(AccessSection()).admit(Connect("c"), "127.0.0.1").reason is Reason.SUCCESS
    assert Access(AccessSection()).admit(Connect("c"), "192.0.2.1").reason is Reason.NOT_AUTHORIZED
    assert Access(AccessSection(anonymous="always")).admit(Connect("c"), "192.0.2.1").reason is Reason.SUCCESS


def test_rules_that_are_no_filters_and_passwords_that_are_no_hashes_are_told() -> None:
    with pytest.raises(ConfigError, match="a/#/b"):
        Access(AccessSection(anonymous_publish=("a/#/b",)))
    with pytest.raises(ConfigError, match="password"):
        Access(AccessSection(users=[User(name="ann", password="secret")]))
