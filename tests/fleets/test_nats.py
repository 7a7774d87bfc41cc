"""Real NATS servers: placement by lists of users, moved by a reload, and taken back."""

from __future__ import annotations

import time

import pytest

from coterie.errors import RunError
from coterie.fleets.applying import Application, roll_back
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.layout import FleetLayout, read_layout
from coterie.fleets.natsmonitor import ask_monitor, route_messages
from coterie.fleets.outlook import copies_under
from tests.fleets.nats import NatsCrowd, NatsFleet
from tests.fleets.plans import by_hand, publish_plan
from tests.fleets.stock import Crowd, free_ports, until

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


def predicted(fleet: NatsFleet, layout: FleetLayout) -> int:
    copies = copies_under(fleet.fleet, [TARGETS["nats-users"]], layout)
    return ROUNDS * sum(copies.of(layout.home[name], one) for name, some in layout.publishes.items() for one in some)


def is_gossip(copies: int, predicted: int) -> bool:
    """Whether what is beyond the prediction is what servers tell each other of themselves: twice each to 7 others."""
    return 0 <= copies - predicted <= 2 * 8 * 7


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
            assert is_gossip(after, predicted(fleet, done.wanted))
            roll_back(fleet.fleet, tmp_path / "out", TARGETS)
            until(lambda: crowd.at == started_at, "everybody is where they were")
            time.sleep(0.5)
            restored, _ = talk(fleet, crowd, publishes, "rolled back")
            name_of = {port: name for name, port in port_of.items()}
            scattered = predicted(fleet, wanted.moved({name: name_of[port] for name, port in started_at.items()}))
            assert is_gossip(before, scattered)
            assert is_gossip(restored, scattered)
        finally:
            crowd.stop()


def test_a_star_of_leaf_nodes_takes_the_place_of_the_mesh_and_back(tmp_path):
    wishes = {"ann": ("news.1",), "bob": ("news.1",), "cyd": ("news.1",)}
    hub_link, *ports = free_ports(8)
    lines = ['hub = "b0"', "[nats]", 'users = "users.csv"', 'leaf_password = "l/e:af"', "[limits]", "patience_s = 10"]
    for number in range(3):
        lines += [
            "[[broker]]",
            f'name = "b{number}"',
            f'address = "127.0.0.1:{ports[number]}"',
            f'config = "b{number}"',
        ]
        lines += [f'monitor = "127.0.0.1:{ports[3 + number]}"', f'pid_file = "b{number}/pid"']
        lines += [f'restart = "sh {tmp_path}/b{number}/restart"']
        lines += [f'link = "127.0.0.1:{hub_link}"'] if number == 0 else []
    with NatsFleet(tmp_path, 3, list(wishes), "\n".join(lines), reaps=True) as fleet:
        layout = by_hand({"ann": "b0", "bob": "b1", "cyd": "b2"}, wishes, {"ann": ("news.1",)})
        targets = chosen_targets(["nats-leaf"], fleet.fleet)
        assert not [one for target in targets for one in target.check(fleet.fleet, layout) if one.is_error]
        Application(fleet.fleet, targets, tmp_path / "out", TARGETS).apply(layout)
        until(lambda: leaves(fleet) == 2, "both leaves have come to the hub")
        crowd = NatsCrowd(wishes, fleet.ports, seed=3)
        try:
            until(lambda: len(crowd.at) == 3, "everybody is connected")
            time.sleep(0.5)
            crowd.publish("bob", "news.1", b"hello")
            until(lambda: all(got == {b"hello": 1} for got in crowd.got.values()), "all have heard it, once")
            roll_back(fleet.fleet, tmp_path / "out", TARGETS)
            until(lambda: leaves(fleet) == 0, "no leaves are left")
        finally:
            crowd.stop()


def leaves(fleet: NatsFleet) -> int:
    try:
        return int(ask_monitor(fleet.fleet, "b0", "/leafz")["leafnodes"])
    except RunError:
        return -1
