"""The loop: what it decides, within which limits, and with real brokers from a journal to a changed fleet."""

from __future__ import annotations

import time
from collections import Counter

import paho.mqtt.client as paho
import pytest

from coterie.errors import InputError
from coterie.fleets.admission import QUIET_S
from coterie.fleets.balancer import LiveBalancer
from coterie.fleets.export.haproxy import key_of
from coterie.fleets.fleet import fleet_of
from coterie.fleets.loop import FleetLoop, MoveBudget, journal_of, plan_here, renamed
from coterie.fleets.observe.following import LogObserver
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.places import BrokerPlace
from tests.fleets.stock import Crowd, Stock, until
from tests.fleets.test_stock import talk


def test_a_budget_is_an_hour_long():
    now = [0.0]
    budget = MoveBudget(10, lambda: now[0])
    budget.spend(7)
    assert budget.left == 3
    now[0] = 3599.0
    budget.spend(2)
    assert budget.left == 1
    now[0] = 3601.0
    assert budget.left == 8


def test_groups_are_given_the_names_of_the_brokers_most_of_them_are_at():
    now = {"a": "b0", "b": "b0", "c": "b1", "d": "b2"}
    assert renamed({"a": "b2", "b": "b2", "c": "b0", "d": "b1"}, now, ["b0", "b1", "b2"]) == now
    assert renamed({"a": "b2", "new": "b1"}, now, ["b0", "b1", "b2"])["a"] == "b0"


def test_a_loop_needs_a_journal(tmp_path):
    fleet = fleet_of(
        {"broker": [{"name": f"b{n}", "address": f"h:{n + 1}"} for n in range(2)]}, str(tmp_path / "fleet.toml")
    )
    with pytest.raises(InputError, match="journal is missing"):
        journal_of(fleet, None)
    with pytest.raises(InputError, match="no such journal folder"):
        FleetLoop(fleet, tmp_path / "none", ["table"], tmp_path, plan_here("mesh"))


def far_newcomer(stock: Stock, crowd: Crowd, balancer: LiveBalancer, friends: str) -> str:
    """A client that wants what `client 2` does, first seen at a spoke that does not."""
    for number in range(50):
        name = f"newcomer {number}"
        crowd.wishes[name], crowd.publishes[name] = tuple(f"mode2/{one}" for one in range(5)), ("mode2/0",)
        crowd.got[name] = Counter()
        crowd.clients[name] = crowd._client(name, paho.MQTTv5, stock.front)
        until(lambda name=name: name in crowd.subscribed, f"{name} is there")  # type: ignore[misc]
        if balancer.seats()[name].broker not in ("b0", friends):
            return name
        gone = crowd.clients.pop(name)
        gone.disconnect()
        gone.loop_stop()
        gone._reset_sockets()
        for table in (crowd.wishes, crowd.publishes, crowd.got):
            del table[name]
        crowd.subscribed.discard(name)
    raise AssertionError("all newcomers came to the same two brokers")


@pytest.mark.interop
@pytest.mark.timeout(120)
def test_from_their_logs_to_fewer_copies_and_newcomers_where_their_topics_are(tmp_path):
    """Observe, plan, apply and admit, with nothing but the brokers' own logs to go by."""
    with Stock(tmp_path, 4, moves_per_hour=25, clients_max=1.5) as stock:
        crowd = Crowd(24, 20, 4, seed=3)
        crowd.start(lambda name: stock.front)
        balancer = LiveBalancer(stock.fleet.balancer)
        seats = {name: seat.broker for name, seat in balancer.seats().items()}
        before = talk(stock, crowd, "before")
        places = [BrokerPlace(one.name, str(one.log)) for one in stock.fleet.broker]
        said: list[str] = []
        with JournalStore(tmp_path / "journal", "mosquitto") as store:
            logs = LogObserver(store, places)
            arguments = (stock.fleet, tmp_path / "journal", ["mosquitto-acl"], tmp_path / "loop", plan_here("star"))
            FleetLoop(*arguments, is_dry=True, observe=logs.observe, say=said.append).run(1.0, rounds=1)
            assert "would be applied" in said[0]
            assert {name: seat.broker for name, seat in balancer.seats().items()} == seats

            loop = FleetLoop(*arguments, observe=logs.observe, say=said.append)
            report = loop.round()
            assert report.is_applied
            assert report.clients == 24
            until(lambda: len(crowd.subscribed) == 24, "everybody is back")
            after = talk(stock, crowd, "after")
            saved = report.copies_planned_per_s / report.copies_now_per_s
            assert after.copies / before.copies == pytest.approx(saved)  # as many messages as before were sent
            assert saved < 0.5
            assert loop.round().decision.startswith("kept")

            friends = balancer.seats()["client 2"].broker
            newcomer = far_newcomer(stock, crowd, balancer, friends)
            until(lambda: bool(loop.listen()) and newcomer in loop.audience.clients, "the log tells of the newcomer")
            assert loop.admit() == []  # it may not have said everything yet
            time.sleep(QUIET_S)
            assert [(one.client, one.home) for one in loop.admit()] == [(newcomer, friends)]
            until(lambda: balancer.seats()[newcomer].broker == friends, "the newcomer is with its like")
            assert balancer.homes()[newcomer] == friends
            assert f"{key_of(newcomer)} {friends}\n" in (tmp_path / "clients.map").read_text()
            until(lambda: len(crowd.subscribed) == 25, "everybody is back")
            talk(stock, crowd, "with the newcomer")
            assert loop.admit() == []  # everybody has been looked at
        crowd.stop()
