"""Real NATS servers: placement by lists of users, moved by a reload, and taken back."""

from __future__ import annotations

import time

import pytest

from coterie.fleets.applying import Application, roll_back
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.layout import read_layout
from coterie.fleets.natsmonitor import route_messages
from coterie.fleets.outlook import copies_under
from tests.fleets.nats import NatsCrowd, NatsFleet
from tests.fleets.plans import publish_plan
from tests.fleets.stock import Crowd, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]
ROUNDS = 5


def talk(fleet: NatsFleet, crowd: NatsCrowd, publishes: dict[str, tuple[str, ...]], mark: str) -> tuple[int, int]:
    """Copies between servers and deliveries when everybody has said something."""
    for got in crowd.got.values():
        got.clear()
    before = route_messages(fleet.fleet)
    sent = []
    for turn in range(ROUNDS):
        for name, subjects in publishes.items():
            for subject in subjects:
                payload = f"{mark} {name} {subject} {turn}".encode()
                crowd.publish(name, subject, payload)
                sent.append((subject, payload))
    wanted = {name: {load for subject, load in sent if subject in wishes} for name, wishes in crowd.wishes.items()}
    until(lambda: all(wanted[name] <= set(got) for name, got in crowd.got.items()), f"{mark}: everything has arrived")
    assert all(count == 1 for got in crowd.got.values() for count in got.values())
    return route_messages(fleet.fleet) - before, sum(len(got) for got in crowd.got.values())


def test_placement_by_lists_of_users_saves_two_thirds_and_can_be_taken_back(tmp_path):
    tastes = Crowd(80, 40, 8, seed=1)  # only who wants what
    wishes = {name: tuple(topic.replace("/", ".") for topic in some) for name, some in tastes.wishes.items()}
    publishes = {name: tuple(topic.replace("/", ".") for topic in some) for name, some in tastes.publishes.items()}
    with NatsFleet(tmp_path, 8, list(wishes)) as fleet:
        crowd = NatsCrowd(wishes, fleet.ports, seed=4)
        try:
            until(lambda: len(crowd.at) == 80, "everybody is connected")
            time.sleep(0.5)  # subscriptions spread
            before, delivered = talk(fleet, crowd, publishes, "before")
            started_at = dict(crowd.at)
            publish_plan(tmp_path / "plan", wishes, publishes, fleet.fleet.names, "mesh")
            wanted = read_layout(tmp_path / "plan", fleet.fleet)
            targets = chosen_targets(["nats-users"], fleet.fleet)
            done = Application(fleet.fleet, targets, tmp_path / "out", TARGETS).apply(wanted)
            assert done.journey.late == []
            port_of = dict(zip(fleet.fleet.names, fleet.ports, strict=True))
            until(lambda: len(crowd.at) == 80, "everybody is back")
            assert crowd.at == {name: port_of[broker] for name, broker in wanted.home.items()}
            time.sleep(0.5)
            after, still = talk(fleet, crowd, publishes, "after")
            assert still == delivered
            assert after * 3 <= before
            copies = copies_under(fleet.fleet, targets, done.wanted)
            predicted = ROUNDS * sum(
                copies.of(wanted.home[name], one) for name, some in publishes.items() for one in some
            )
            assert predicted <= after <= predicted + 40  # servers also tell each other of themselves
            roll_back(fleet.fleet, tmp_path / "out", TARGETS)
            until(lambda: crowd.at == started_at, "everybody is where they were")
            time.sleep(0.5)
            restored, _ = talk(fleet, crowd, publishes, "rolled back")
            assert abs(restored - before) <= 40
        finally:
            crowd.stop()
