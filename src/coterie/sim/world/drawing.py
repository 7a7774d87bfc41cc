"""A scenario from a seed. First it is drawn which kinds of trouble exist at all (TigerBeetle's swarm testing): a world
with everything in it at once hides what only few of them together bring about."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from coterie.errors import ConfigError
from coterie.mqtt.packets import MQTT_3, MQTT_5
from coterie.sim.world.company import with_company
from coterie.sim.world.scenario import (
    Action,
    Arrive,
    Clockwork,
    Depart,
    Doze,
    Fell,
    Listen,
    Raise,
    Replan,
    Resident,
    Scenario,
    Sever,
    Snap,
    Spoil,
    Tear,
    Tenant,
    Unlisten,
    Utter,
)
from coterie.sim.world.turnover import TURNOVER, with_turnover

STORM_S = 20.0
ALONE = ("kill", "power", "slow", "full", "tear", "leave", "doze", "clocks", "rights")
TOGETHER = ("sever", "one way", "snap", "replan", "roam")
FAULTS = (*ALONE, *TOGETHER, "gone", *TURNOVER)
# Names and patterns that have been used against brokers before.
ACCOUNTS = (
    Tenant("alice", ("t/#",), ("t/#", "dev/%c/#")),
    Tenant("bob", ("t/0", "dev/%c/#"), ("t/+",)),
    Tenant("carol", ("dev/%u/#",), ("dev/%c/#", "t/0")),
    Tenant("+", ("dev/%u/#",), ("dev/%u/#",)),
)
HOSTILE = ("#", "+", "dev", "a/b", "%u")


class Swarm(msgspec.Struct, frozen=True):
    """How large scenarios may be, and which faults may occur (empty: none). `is_machine`: nodes are processes of one
    machine, which none of them leaves for good and nobody joins."""

    nodes: int = 1
    faults: tuple[str, ...] = ALONE
    messages: int = 60
    residents: int = 6
    is_machine: bool = False

    def __post_init__(self) -> None:
        for one in self.faults:
            if one not in FAULTS:
                raise ConfigError("--faults", one, ", ".join(FAULTS))
            if self.is_machine and one in (*TURNOVER, "gone"):
                raise ConfigError("--faults", one, "none of that among processes of one machine")


def draw_scenario(seed: int, system: str = "flooding", limits: Swarm = Swarm()) -> Scenario:  # noqa: B008
    draw = Random(seed)
    nodes = draw.randint(2, limits.nodes) if limits.nodes > 1 else 1
    faults = tuple(one for one in limits.faults if one not in TURNOVER and draw.random() < 0.35)
    has_rights = "rights" in faults
    residents = _residents(draw, nodes, limits.residents, has_rights, "roam" in faults)
    actions = [*_lives(draw, residents, has_rights), *_words(draw, residents, limits.messages, has_rights)]
    actions += _troubles(draw, nodes, len(residents), faults)
    clocks = tuple(
        Clockwork(draw.choice((0.0, -3600.0, 0.3, 40.0)), draw.choice((0.0, 1e-4, -1e-3))) for _ in range(nodes)
    )
    drawn = Scenario(
        seed, system, nodes, clocks if "clocks" in faults else (),
        "full" if "power" in faults or draw.random() < 0.3 else "normal",
        ACCOUNTS if has_rights else (), residents, tuple(sorted(actions, key=lambda one: one.at_s)), STORM_S,
        delay_s=draw.choice((0.0005, 0.002, 0.02)), disk_s=draw.choice((0.0, 0.002, 0.02)),
        linger_s=draw.choice((0.0, 0.001, 0.01)), inflight_max=draw.choice((1, 3, 20)), has_calm=seed % 10 == 0,
        copies=1 if limits.is_machine else min(nodes, Random(f"copies {seed}").choice((1, 2, 2, 3))),
        is_machine=limits.is_machine,
    )  # fmt: skip
    drawn = with_turnover(with_company(drawn), limits.faults)
    return _fleeting(drawn) if limits.is_machine else drawn


def _fleeting(scenario: Scenario) -> Scenario:
    """With fewer sessions that last, in half of the seeds: what none of them wants goes other ways on one machine."""
    draw = Random(f"lasting {scenario.seed}")
    scenario = msgspec.structs.replace(scenario, actions=tuple(_spread_out(scenario)))
    if draw.random() < 0.5:
        return scenario
    people = tuple(
        msgspec.structs.replace(one, is_lasting=one.is_lasting and draw.random() < 0.15) for one in scenario.residents
    )
    return msgspec.structs.replace(scenario, residents=people)


def _spread_out(scenario: Scenario) -> Iterator[Action]:
    """A machine that loses power loses it for all of its processes; they come back with it."""
    ends_s = [one.at_s for one in scenario.actions if isinstance(one, Raise)]
    for one in scenario.actions:
        if isinstance(one, Fell) and one.how == "power":
            for node in range(scenario.nodes):
                yield Fell(one.at_s, node, "power")
                yield Raise(min((end_s for end_s in ends_s if end_s > one.at_s), default=STORM_S), node)
        else:
            yield one


def _residents(draw: Random, nodes: int, most: int, has_rights: bool, may_roam: bool) -> tuple[Resident, ...]:
    found = []
    for number in range(draw.randint(2, most)):
        name, user = f"c{number}", ""
        if has_rights:
            user = draw.choice(("", *(one.name for one in ACCOUNTS)))
            name = HOSTILE[number] if number < len(HOSTILE) and draw.random() < 0.3 else name
        found.append(
            Resident(
                name, draw.randrange(nodes), user, draw.choice((MQTT_3, MQTT_5)), draw.random() < 0.75,
                may_roam and draw.random() < 0.5, draw.choice((0, 0, 0, 3)),
            )
        )  # fmt: skip
    return tuple(found)


def _topics(has_rights: bool) -> tuple[str, ...]:
    return ("t/0", "t/1", "t/2", "dev/c1/x", "dev/alice/x", "dev/x") if has_rights else ("t/0", "t/1", "t/2")


def _filters(has_rights: bool) -> tuple[str, ...]:
    own = ("dev/#", "dev/+/x", "dev/c1/#", "+/0") if has_rights else ()
    return ("t/0", "t/1", "t/2", "t/+", "t/#", "#", *own)


def _lives(draw: Random, residents: tuple[Resident, ...], has_rights: bool) -> list[Action]:
    """Everybody arrives, most of them wish for something, some change their minds."""
    found: list[Action] = []
    for who in range(len(residents)):
        found.append(Arrive(_time(draw, 0.0, 2.0), who))
        for _ in range(draw.choice((0, 1, 1, 2, 3))):
            wish = Listen(_time(draw, 0.0, 12.0), who, draw.choice(_filters(has_rights)), draw.choice((0, 1, 1, 2, 2)))
            found.append(wish)
            if draw.random() < 0.15:
                found.append(Unlisten(_time(draw, wish.at_s, STORM_S), who, wish.filter))
    return found


def _words(draw: Random, residents: tuple[Resident, ...], most: int, has_rights: bool) -> list[Action]:
    topics = _topics(has_rights)
    keeps = draw.random() < 0.3
    found: list[Action] = []
    number = 0
    while number < most:
        burst = draw.choice((1, 1, 1, 3, 8))
        who, at_s, topic = draw.randrange(len(residents)), _time(draw, 0.5, STORM_S), draw.choice(topics)
        qos = draw.choice((0, 1, 1, 2, 2))
        for _ in range(burst):
            number += 1
            size = draw.choice((0, 0, 10, 400, 20_000)) if draw.random() < 0.2 else 0
            found.append(Utter(at_s, who, number, topic, qos, keeps and draw.random() < 0.3, size))
            at_s = round(at_s + draw.choice((0.0, 0.0, 0.001, 0.01)), 6)
    return found


def _troubles(draw: Random, nodes: int, residents: int, faults: tuple[str, ...]) -> list[Action]:
    found: list[Action] = []
    for fault in faults:
        for _ in range(draw.randint(1, 4)):
            at_s = _time(draw, 1.0, STORM_S - 1)
            who, node = draw.randrange(residents), draw.randrange(nodes)
            for_s = draw.choice((0.05, 0.5, 3.0, 8.0, 15.0))
            match fault:
                case "kill" | "power":
                    found += [Fell(at_s, node, fault), Raise(round(at_s + for_s, 6), node)]
                case "slow" | "full":
                    found.append(Spoil(at_s, node, fault, for_s))
                case "tear":
                    found.append(Tear(at_s, who))
                case "leave":
                    how = draw.choice(("said", "torn", "silent"))
                    found += [Depart(at_s, who, how), Arrive(round(at_s + for_s, 6), who)]
                case "doze":
                    found.append(Doze(at_s, who, for_s))
                case "roam":
                    found += [Depart(at_s, who, "torn"), Arrive(round(at_s + 0.01, 6), who, draw.randrange(nodes))]
                case "sever" | "one way":
                    cut = tuple(sorted(draw.sample(range(nodes), draw.randint(1, nodes - 1)))) if nodes > 1 else ()
                    found.append(Sever(at_s, cut, for_s, fault == "one way"))
                case "replan":
                    found.append(Replan(at_s, draw.choice(("flooding", "mesh", "scribe", "star"))))
                case "snap":
                    found.append(Snap(at_s, node, (node + 1 + draw.randrange(max(1, nodes - 1))) % nodes))
    if "gone" in faults and nodes > 1:
        found.append(Fell(_time(draw, 5.0, STORM_S), draw.randrange(nodes), "gone"))
    return found


def _time(draw: Random, first_s: float, last_s: float) -> float:
    return round(draw.uniform(first_s, last_s), 6)
