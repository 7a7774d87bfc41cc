"""A thief with somebody's client identifier, before and after a crash: nothing is given, nothing is taken away."""

from __future__ import annotations

import pytest

from coterie.broker.machine import Broker
from coterie.broker.writes import Shelf
from coterie.mqtt.packets import Connect
from coterie.mqtt.ruling import Ruling
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
