"""Who is let in, and what a session's owner may do."""

from __future__ import annotations

import base64
import time
from hashlib import scrypt

import jwt
import pytest

from coterie.broker.access import Access
from coterie.broker.credentials import Check
from coterie.broker.settings import AccessSection, JwtSection, OthersSection, User
from coterie.errors import ConfigError
from coterie.live.credentials import answer, certificate_user
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Connect, Subscription
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Session


def cheap(password: str) -> str:
    """A stored password that takes no time to check."""
    digest = scrypt(password.encode(), salt=b"salt", n=2, r=8, p=1, dklen=32)
    return f"scrypt$2$8$1${base64.b64encode(b'salt').decode()}${base64.b64encode(digest).decode()}"


def session_of(owner: str | None, client: str = "c1") -> Session:
    session = Session(client, ServerOptions())
    session.owner = owner
    return session


def admitted(access: Access, packet: Connect, host: str, certified: str = "") -> Ruling:
    asked = access.ask(packet, host, certified)
    return answer(asked) if isinstance(asked, Check) else asked


ANN = User(name="ann", password=cheap("secret"), publish=("home/%u/#",), subscribe=("home/#", "own/%c"))


def test_users_and_passwords() -> None:
    access = Access(AccessSection(anonymous="never", users=[ANN]))
    found = admitted(access, Connect("c1", username="ann", password=b"secret"), "10.0.0.1")
    assert (found.reason, found.user) == (Reason.SUCCESS, "ann")
    assert (
        admitted(access, Connect("c1", username="ann", password=b"no"), "").reason is Reason.BAD_USER_NAME_OR_PASSWORD
    )
    assert admitted(access, Connect("c1", username="bob", password=b"secret"), "").reason >= 0x80
    assert admitted(access, Connect("c1"), "127.0.0.1").reason is Reason.NOT_AUTHORIZED


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
    assert admitted(Access(AccessSection()), Connect("c"), "127.0.0.1").reason is Reason.SUCCESS
    assert admitted(Access(AccessSection()), Connect("c"), "192.0.2.1").reason is Reason.NOT_AUTHORIZED
    assert admitted(Access(AccessSection(anonymous="always")), Connect("c"), "192.0.2.1").reason is Reason.SUCCESS


def test_rules_that_are_no_filters_and_passwords_that_are_no_hashes_are_told() -> None:
    with pytest.raises(ConfigError, match="a/#/b"):
        Access(AccessSection(anonymous_publish=("a/#/b",)))
    with pytest.raises(ConfigError, match="password"):
        Access(AccessSection(users=[User(name="ann", password="secret")]))


KEY = "k" * 32
TOKENS = JwtSection(algorithms=("HS256",), key=KEY, audience="brokers")


@pytest.mark.parametrize(
    ("changed", "key", "algorithm", "user"),
    [
        ({}, KEY, "HS256", "dev-1"),
        ({"sub": "dev-2"}, KEY, "HS256", None),  # another user's
        ({"exp": 1}, KEY, "HS256", None),
        ({"exp": None}, KEY, "HS256", None),  # for ever is too long
        ({"aud": "others"}, KEY, "HS256", None),
        ({}, "x" * 64, "HS256", None),
        ({}, "x" * 64, "HS512", None),  # an algorithm that was not named
        ({}, "", "none", None),
    ],
)
def test_tokens(changed: dict[str, object], key: str, algorithm: str, user: str | None) -> None:
    settings = AccessSection(anonymous="never", jwt=TOKENS, others=OthersSection(publish=("dev/%u",)))
    access = Access(settings, key=KEY)
    claims = {"sub": "dev-1", "exp": time.time() + 60, "aud": "brokers"} | changed
    token = jwt.encode({name: value for name, value in claims.items() if value is not None}, key or None, algorithm)
    found = admitted(access, Connect("c", username="dev-1", password=token.encode()), "")
    assert found.user == user
    assert (found.reason is Reason.SUCCESS) == (user is not None)
    assert access.publish(session_of("dev-1"), "dev/dev-1") is Reason.SUCCESS
    assert access.publish(session_of("dev-1"), "dev/dev-2") is Reason.NOT_AUTHORIZED
    assert admitted(access, Connect("c", username="dev-1", password=b"no token"), "").user is None


def test_certificates_name_the_user_and_nothing_else_does() -> None:
    certificate = {"subject": ((("organizationName", "x"),), (("commonName", "ann"),))}
    assert certificate_user(certificate) == "ann"
    twice = {"subject": ((("commonName", "ann"),), (("commonName", "bob"),))}
    assert [certificate_user(one) for one in (None, {}, twice)] == ["", "", ""]
    access = Access(AccessSection(anonymous="never", certificate_users=True, users=[ANN]))
    assert admitted(access, Connect("c"), "", "ann").user == "ann"
    assert admitted(access, Connect("c", username="bob"), "", "ann").reason is Reason.BAD_USER_NAME_OR_PASSWORD
    assert admitted(access, Connect("c"), "").reason is Reason.NOT_AUTHORIZED
    assert admitted(Access(AccessSection(anonymous="never")), Connect("c"), "", "ann").user is None


def test_users_of_a_password_file_have_the_rights_of_others_unless_they_are_listed() -> None:
    settings = AccessSection(users=[User(name="bob", publish=("b",))], others=OthersSection(publish=("o",)))
    access = Access(settings, {"bob": cheap("b"), "eve": cheap("e")})
    assert admitted(access, Connect("c", username="eve", password=b"e"), "").user == "eve"
    assert admitted(access, Connect("c", username="bob", password=b"b"), "").user == "bob"
    assert access.publish(session_of("eve"), "o") is Reason.SUCCESS
    assert access.publish(session_of("bob"), "o") is Reason.NOT_AUTHORIZED
    assert access.publish(session_of("bob"), "b") is Reason.SUCCESS
    assert access.publish(session_of("who"), "o") is Reason.NOT_AUTHORIZED
