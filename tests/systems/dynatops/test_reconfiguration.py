"""Reconfiguration under bad weather and crashes: it completes or rolls back, and both planes serve events meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from coterie.protocol.events import Send
from coterie.protocol.node import OverlayNode
from coterie.systems.dynatops.reconfiguration import (
    Done,
    Order,
    Switch,
    SwitchLeader,
    SwitchStep,
    ToldVersion,
    UnknownVersion,
)
from tests.systems.dynatops.switching import NODES, switch_under

KINDS = ("none", "broker", "coordinator", "both")


def check(seed: int, kind: str, through_wire: bool = False) -> None:
    result = switch_under(seed, kind, through_wire)
    case = f"seed {seed}, crash of {kind}: {result}"
    assert len(set(result.versions)) == 1, case
    assert set(result.plane_counts) == {1}, case
    assert len(result.versions) == NODES, case
    assert result.lost == 0, case
    assert result.copies_lost > 0, case
    if kind == "none":
        assert result.outcome == "completed", case
        assert result.orphaned == 0, case


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_doubled_and_all_end_in_one_plan(seed: int, kind: str) -> None:
    check(seed, kind, through_wire=seed == 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_the_same_for_a_thousand_seeds(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        check(seed, KINDS[seed % len(KINDS)])


class Ears(OverlayNode):
    """Lends verbs to a coordinator."""

    def __init__(self) -> None:
        super().__init__(99, Random(0))

    def said(self) -> list[Send]:
        sent = [effect for effect in self._effects if isinstance(effect, Send)]
        self._effects = []
        return sent


def ordered(ears: Ears) -> Order:
    (send,) = ears.said()
    assert isinstance(send.message, Order)
    return send.message


def test_steps_follow_only_when_everybody_is_done() -> None:
    ears = Ears()
    coordinator = SwitchLeader(ears, retry_s=1.0)
    coordinator.begin(7, [1, 2])
    for step in (
        SwitchStep.INIT,
        SwitchStep.OVERLAY,
        SwitchStep.PUBSUB,
        SwitchStep.REPAIR,
        SwitchStep.FINISH,
        SwitchStep.RETIRE,
    ):
        order = ordered(ears)
        assert (order.version, order.step) == (7, step)
        coordinator.on_done(1, Done(7, order.ballot))
        assert not ears.said()
        coordinator.on_done(1, Done(7, order.ballot))
        coordinator.on_done(2, Done(7, order.ballot - 1))
        assert not ears.said()
        coordinator.on_timer()
        (again,) = ears.said()
        assert again.to == (2,)
        coordinator.on_done(2, Done(7, order.ballot))
    assert coordinator.outcome == "completed"
    assert coordinator.is_idle


@pytest.mark.parametrize("steps_done", range(6))
def test_a_lost_participant_rolls_back_before_finish_and_not_after(steps_done: int) -> None:
    ears = Ears()
    coordinator = SwitchLeader(ears, retry_s=1.0)
    coordinator.begin(7, [1, 2])
    for _ in range(steps_done):
        ballot = ordered(ears).ballot
        coordinator.on_done(1, Done(7, ballot))
        coordinator.on_done(2, Done(7, ballot))
    ballot = ordered(ears).ballot
    coordinator.on_refused(2, UnknownVersion(7))
    for _ in range(6):
        if coordinator.is_idle:
            break
        sent = ears.said()
        if sent:
            assert isinstance(sent[-1].message, Order)
            ballot = sent[-1].message.ballot
        coordinator.on_done(1, Done(7, ballot))
    assert coordinator.outcome == ("rolled back" if steps_done < 4 else "completed")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([ToldVersion(7, True, False), ToldVersion(7, True, False)], SwitchStep.ROLLBACK),
        ([ToldVersion(7, True, True), ToldVersion(7, True, False)], SwitchStep.FINISH),
        ([ToldVersion(7, True, False), ToldVersion(7, False, False)], SwitchStep.ROLLBACK),
    ],
)
def test_a_coordinator_without_memory_asks_before_it_decides(told: list[ToldVersion], expected: SwitchStep) -> None:
    ears = Ears()
    coordinator = SwitchLeader(ears, retry_s=1.0)
    coordinator.resume(7, [1, 2])
    ears.said()
    coordinator.on_told(1, told[0])
    assert not ears.said()
    coordinator.on_told(2, told[1])
    assert ordered(ears).step is expected


class Recorder:
    """Planes that write down what is asked of them."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []

    def begin(self, version: int) -> bool:
        self.log.append(("begin", version))
        return True

    def work(self, version: int, step: SwitchStep) -> bool:
        self.log.append((step.name, version))
        return step is not SwitchStep.REPAIR

    def use(self, version: int) -> None:
        self.log.append(("use", version))

    def drop(self, version: int) -> None:
        self.log.append(("drop", version))


def test_orders_that_come_late_or_twice_change_nothing() -> None:
    planes = Recorder()
    switch = Switch(planes, 3)
    assert switch.on_order(Order(4, SwitchStep.INIT, 10, (1, 2))) == Done(4, 10)
    assert switch.on_order(Order(4, SwitchStep.INIT, 10, (1, 2))) == Done(4, 10)
    assert switch.on_order(Order(4, SwitchStep.OVERLAY, 11)) == Done(4, 11)
    assert switch.on_order(Order(4, SwitchStep.REPAIR, 13)) is None
    assert switch.on_order(Order(4, SwitchStep.OVERLAY, 11)) is None
    assert switch.done(4, SwitchStep.REPAIR) == Done(4, 13)
    assert switch.on_order(Order(4, SwitchStep.REPAIR, 13)) == Done(4, 13)
    assert switch.on_order(Order(4, SwitchStep.FINISH, 14)) == Done(4, 14)
    assert switch.on_order(Order(4, SwitchStep.RETIRE, 15)) == Done(4, 15)
    assert switch.on_order(Order(4, SwitchStep.RETIRE, 15)) == Done(4, 15)
    assert planes.log == [("begin", 4), ("OVERLAY", 4), ("REPAIR", 4), ("use", 4), ("drop", 3)]


def test_who_was_not_there_refuses_and_what_was_rolled_back_stays_so() -> None:
    switch = Switch(Recorder(), 3)
    assert switch.on_order(Order(4, SwitchStep.PUBSUB, 10)) == UnknownVersion(4)
    assert switch.on_order(Order(4, SwitchStep.ROLLBACK, 11)) == Done(4, 11)
    assert switch.on_order(Order(4, SwitchStep.INIT, 12)) == UnknownVersion(4)
    assert switch.on_order(Order(5, SwitchStep.INIT, 13)) == Done(5, 13)
