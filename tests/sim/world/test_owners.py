"""A thief with somebody's client identifier, before and after a crash: nothing is given, nothing is taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from coterie.broker.machine import Broker
from coterie.broker.rights import Rights
from coterie.broker.writes import Shelf
from coterie.mqtt.packets import Connect
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.topics import filter_covers, filter_matches, split_shared
from coterie.sim.world.scenario import Arrive, Depart, Fell, Listen, Raise, Resident, Scenario, Tenant, Utter
from coterie.sim.world.site import Machine
from coterie.sim.world.torture import Making, Ordeal, brokers_of, run_scenario, setups
from coterie.systems import system_named
from tests.sim.world.saboteurs import sabotaged

ANN, BOB, ROOT = 0, 1, 2
USERS = (
    Tenant("ann", ("secret/#",), ("secret/#",)),
    Tenant("bob", ("public/#",), ("public/#",), share=("g",)),
    Tenant("root"),
)
RESIDENTS = (
    Resident("device", 0, "ann", 5),
    Resident("device", 0, "bob", 5),
    Resident("root", 0, "root", 5),
)
STORY = Scenario(
    seed=1, users=USERS, residents=RESIDENTS, storm_s=30.0,
    actions=(
        Arrive(0.0, ANN), Arrive(0.1, ROOT), Listen(0.2, ANN, "secret/#", 1), Utter(1.0, ROOT, 1, "secret/x"),
        Arrive(2.0, BOB), Listen(2.1, BOB, "secret/#", 1), Listen(2.2, BOB, "$share/other/public/#", 1),
        Utter(3.0, ROOT, 2, "secret/x"), Depart(4.0, ANN, "torn"), Utter(5.0, ROOT, 3, "secret/x"),
        Fell(6.0, 0, "kill"), Raise(6.5, 0), Utter(9.0, ROOT, 4, "secret/x"), Depart(12.0, BOB, "torn"),
        Arrive(13.0, ANN), Utter(14.0, ROOT, 5, "secret/x"),
    ),
)  # fmt: skip


def told(story: Scenario, making: Making | None = None) -> Ordeal:
    return run_scenario(story, making or brokers_of(story, system_named), system_named)


def test_the_owner_has_everything_and_the_thief_nothing() -> None:
    outcome = told(STORY)
    assert outcome.violations == []
    assert outcome.checked["owner"] > 0
    assert outcome.checked["owed"] == 5


def gives_to_anybody(making: Making) -> Making:
    """Whoever comes is taken for the owner, as in 0.1."""

    def make(node: int, shelf: Shelf) -> Machine:
        broker = making(node, shelf)
        assert isinstance(broker, Broker)

        def claim(packet: Connect, ruling: Ruling) -> Ruling:
            session = broker.sessions.of.get(packet.client_id)
            return ruling if session is None else Ruling(ruling.reason, user=session.owner)

        broker.sessions.claim = claim  # type: ignore[method-assign]
        return broker

    return make


def test_a_broker_that_gives_sessions_away_is_found() -> None:
    outcome = told(STORY, gives_to_anybody(brokers_of(STORY, system_named)))
    assert {"session", "access"} <= set(outcome.rules)


def test_a_broker_that_forgets_owners_over_a_restart_is_found() -> None:
    outcome = told(STORY, sabotaged(STORY, system_named, "forgets an owner"))
    assert {"owner", "access", "session"} & set(outcome.rules)


@pytest.mark.parametrize("wider", [("secret/#", "public/#"), ("#",)])
def test_a_broker_with_other_rules_than_the_story_is_found_on_its_disk(wider: tuple[str, ...]) -> None:
    """Its rules let bob read more, so what it keeps for bob is wrong by the story's rules."""
    only_bob = Scenario(
        seed=2, users=USERS, residents=(Resident("b", 0, "bob", 5), RESIDENTS[ROOT]),
        actions=(Arrive(0.0, 0), Arrive(0.1, 1), Listen(0.2, 0, "secret/#", 1), Depart(2.0, 0, "torn"),
                 Utter(3.0, 1, 1, "secret/x")),
    )  # fmt: skip
    lenient = Scenario(seed=2, users=(USERS[0], Tenant("bob", ("public/#",), wider), USERS[2]))
    made = setups(lenient, system_named)
    outcome = told(only_bob, lambda node, shelf: Broker(made[node], shelf))
    assert "owner" in outcome.rules
    assert told(only_bob).violations == []


# One who may little and tries everything: a name that is a wildcard, `$` topics, and a group that is not its own.
TRIER, SAYER = 0, 1
TRIES = Scenario(
    seed=3,
    users=(Tenant("eve", ("dev/%c/#", "$own/#"), ("dev/%c/#", "public/#"), share=("g",)),
           Tenant("root", ("#",), ("#", "$own/#"))),
    residents=(Resident("+", 0, "eve", 5), Resident("root", 0, "root", 5)),
    actions=(
        Arrive(0.0, TRIER), Arrive(0.1, SAYER), Listen(0.2, SAYER, "#", 1), Listen(0.2, SAYER, "$own/#", 1),
        Listen(1.0, TRIER, "dev/+/#", 1), Listen(1.1, TRIER, "$own/#", 1), Listen(1.2, TRIER, "$share/h/public/#", 1),
        Listen(1.3, TRIER, "$share/g/$own/#", 1), Utter(2.0, SAYER, 1, "dev/one/x"), Utter(2.1, SAYER, 2, "public/x"),
        Utter(3.0, TRIER, 3, "dev/one/x"), Utter(4.0, TRIER, 4, "$own/x"), Depart(5.0, TRIER, "torn"),
    ),
)  # fmt: skip


# The same by somebody whose user name is a wildcard.
BY_USER = msgspec.structs.replace(
    TRIES,
    users=(Tenant("+", ("dev/%u/#", "$own/#"), ("dev/%u/#", "public/#"), share=("g",)), TRIES.users[1]),
    residents=(Resident("eve", 0, "+", 5), TRIES.residents[1]),
)


def names_as_they_are(rules: Iterable[str], user: str, client: str) -> tuple[str, ...]:
    """As in 0.1: a client identifier or a user name `+` is a wildcard."""
    return tuple(one.replace("%u", user).replace("%c", client) for one in rules)


def may_publish_by_rules_alone(rights: Rights, topic: str) -> bool:
    return any(filter_matches(one, topic) for one in rights._publish)


def may_subscribe_in_any_group(rights: Rights, topic_filter: str) -> bool:
    return any(filter_covers(one, split_shared(topic_filter)[1]) for one in rights._subscribe)


def may_subscribe_to_statistics(rights: Rights, topic_filter: str) -> bool:
    """As in 0.1, where `$SYS` was everybody's."""
    bare = split_shared(topic_filter)[1]
    return bare.startswith("$") or any(filter_covers(one, bare) for one in rights._subscribe)


@pytest.mark.parametrize(
    ("story", "place", "spoilt", "found"),
    [
        (TRIES, "filled_in", names_as_they_are, {"access", "owner"}),
        (BY_USER, "filled_in", names_as_they_are, {"access", "owner"}),
        (TRIES, "Rights.may_publish", may_publish_by_rules_alone, {"access"}),
        (TRIES, "Rights.may_subscribe", may_subscribe_in_any_group, {"owner"}),
        (TRIES, "Rights.may_subscribe", may_subscribe_to_statistics, {"owner"}),
    ],
    ids=["%c", "%u", "publish $", "$share", "read $"],
)
def test_each_rule_is_judged(
    story: Scenario, place: str, spoilt: Callable[..., object], found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(story).violations == []
    monkeypatch.setattr(f"coterie.broker.rights.{place}", spoilt)
    assert found <= set(told(story).rules)
