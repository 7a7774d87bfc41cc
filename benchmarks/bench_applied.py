"""Copies between stock brokers per delivered message, before and after a plan is given to them: docs/fleets.md's table.

Eight mosquittos behind HAProxy and eight NATS servers on loopback, 80 clients of clustered tastes on 40 topics. Every
row is counted by the brokers themselves (mosquitto's logs, NATS' `/routez`) and must be free of losses and duplicates.
Rows whose programs are not installed are left out and say so.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from coterie.fleets.applying import Application
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.layout import read_layout
from coterie.fleets.measuring import MosquittoLogs
from coterie.fleets.natsmonitor import route_messages
from tests.fleets.nats import NatsCrowd, NatsFleet
from tests.fleets.plans import publish_plan
from tests.fleets.stock import Crowd, Stock, until

ROUNDS = 5
Row = tuple[str, str, float]


def mosquitto(folder: Path, target: str, system: str, has_star: bool) -> list[Row]:
    with Stock(folder, 8, has_star=has_star, patience_s=15.0, moves_per_s=20.0) as stock:
        crowd = Crowd(80, 40, 8, seed=1)
        crowd.start(lambda name: stock.front)
        rows = [("mosquitto", "star of `#` bridges, clients anywhere", talk(stock, crowd))] if has_star else []
        publish_plan(folder / "plan", crowd.wishes, crowd.publishes, stock.fleet.names, system)
        layout = read_layout(folder / "plan", stock.fleet)
        started_s = time.monotonic()
        done = Application(stock.fleet, chosen_targets([target], stock.fleet), folder / "out", TARGETS).apply(layout)
        took = f"applied in {time.monotonic() - started_s:.1f} s, {len(done.journey.asked)} clients moved"
        until(lambda: len(crowd.subscribed) == 80, "everybody is back")
        rows.append((f"mosquitto, {target}", took, talk(stock, crowd)))
        crowd.stop()
    return rows


def talk(stock: Stock, crowd: Crowd) -> float:
    crowd.forget()
    logs = MosquittoLogs(stock.fleet)
    crowd.publish(ROUNDS, 0, "bench")
    crowd.settle()
    if crowd.missing() or crowd.twice():
        raise SystemExit(f"{crowd.missing()} deliveries missing, {crowd.twice()} twice: no row")
    time.sleep(0.5)
    return logs.count().per_delivered


def nats(folder: Path) -> list[Row]:
    tastes = Crowd(80, 40, 8, seed=1)
    with NatsFleet(folder, 8, list(tastes.wishes)) as fleet:
        crowd = NatsCrowd(tastes.wishes, fleet.ports, seed=4)
        try:
            until(lambda: len(crowd.at) == 80, "everybody is connected")
            rows = [("NATS", "full mesh, clients anywhere", say(fleet, crowd, tastes))]
            publish_plan(folder / "plan", tastes.wishes, tastes.publishes, fleet.fleet.names, "mesh")
            layout = read_layout(folder / "plan", fleet.fleet)
            targets = chosen_targets(["nats-users"], fleet.fleet)
            started_s = time.monotonic()
            done = Application(fleet.fleet, targets, folder / "out", TARGETS).apply(layout)
            took = f"applied in {time.monotonic() - started_s:.1f} s, {len(done.journey.asked)} clients moved"
            until(lambda: len(crowd.at) == 80, "everybody is back")
            return [*rows, ("NATS, nats-users", took, say(fleet, crowd, tastes))]
        finally:
            crowd.stop()


def say(fleet: NatsFleet, crowd: NatsCrowd, tastes: Crowd) -> float:
    time.sleep(1.0)  # subscriptions spread
    before, sent = route_messages(fleet.fleet), 0
    for got in crowd.got.values():
        got.clear()
    for turn in range(ROUNDS):
        for name, subjects in tastes.publishes.items():
            for subject in subjects:
                crowd.publish(name, subject, f"{name} {subject} {turn}".encode())
                sent += sum(subject in wishes for wishes in crowd.wishes.values())
    until(lambda: sum(sum(got.values()) for got in crowd.got.values()) == sent, "everything has arrived")
    return (route_messages(fleet.fleet) - before) / sent


def attempt(run: Callable[[Path], list[Row]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows = run(Path(folder))
        except pytest.skip.Exception as error:
            print(f"left out: {error}")
            return
    for name, how, copies in rows:
        print(f"{name:28} {copies:7.3f}   {how}", flush=True)


def main() -> None:
    print(f"{'':28} copies between brokers per delivered message")
    attempt(lambda folder: mosquitto(folder, "mosquitto-acl", "star:crossing=wanted", True))
    attempt(lambda folder: mosquitto(folder, "mosquitto-bridges", "coterie", False))
    attempt(nats)


if __name__ == "__main__":
    main()
