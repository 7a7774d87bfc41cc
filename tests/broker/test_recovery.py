"""Recovery by itself: who tells whom since when, and what counts as had."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.carried import EPOCH_S, TIME_BITS, Identifiers, encode_carried
from coterie.broker.frames import Digest, Disturbed, LogCopies, Want
from coterie.broker.recovery import ROUND_TIMER, Recovery
from coterie.broker.settings import RecoverySection
from coterie.broker.turn import Turn
from coterie.mqtt.publish import Message
from tests.broker.shelf import MemoryShelf


class Said:
    """Stands for the talk with other nodes: what was flooded and told."""

    def __init__(self) -> None:
        self.flooded: list[Any] = []
        self.told: list[tuple[int, Any]] = []

    def flood(self, said: Any, but: int = -1) -> None:
        self.flooded.append(said)

    def tell(self, peer: int, said: Any) -> bool:
        self.told.append((peer, said))
        return True


class Taking:
    """Misses everything, and takes what comes."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def misses(self, topic: str, identifier: int, when_us: int) -> bool:
        return True

    def take_copy(self, body: bytes) -> None:
        self.taken.append(body)

    def pass_over(self, identifier: int) -> None:
        raise AssertionError("nothing is gone here")


@pytest.fixture
def parts() -> tuple[Recovery, Said, Taking, Turn]:
    said, taking, turn = Said(), Taking(), Turn()
    turn.now_s = EPOCH_S + 1000.0
    made = Recovery(
        0, [1, 2], RecoverySection(), Identifiers(0), said, taking, MemoryShelf(), turn,  # type: ignore[arg-type]
    )  # fmt: skip
    return made, said, taking, turn


Parts = tuple[Recovery, Said, Taking, Turn]


def disturbances(said: Said) -> list[int]:
    """Since when, by the clock of this node; others are told how long ago."""
    return [round(1000e6 - one.ago_us) for one in said.flooded if isinstance(one, Disturbed)]


def test_an_older_disturbance_is_news_a_younger_one_in_the_first_round_is_not(parts: Parts) -> None:
    recovery, said, _, _ = parts
    for since_us in (500, 700, 300):
        recovery.disturb(since_us)
    assert disturbances(said) == [500, 300]
    recovery.on_timer(ROUND_TIMER)
    recovery.disturb(800)  # the first round is over: it may have been missed
    assert disturbances(said) == [500, 300, 800]


def test_who_is_behind_remembers_the_earliest_moment(parts: Parts) -> None:
    recovery, _, _, _ = parts
    recovery.behind = {1: 200}
    recovery.disturb(500)
    assert recovery.behind == {1: 200, 2: 500}


def test_what_is_missing_is_asked_for_again_after_a_while_and_not_before(parts: Parts) -> None:
    recovery, said, _, turn = parts
    for number, later_s in ((1, 0.0), (2, 1.0), (3, 5.0)):
        turn.now_s += later_s
        recovery.on_digest(1, Digest(1, number, 1, 2, True, True, 0, (("t", (7,)),)))
    wants = [one for _, one in said.told if isinstance(one, Want)]
    assert wants == [Want((1 << TIME_BITS | 7,))] * 2


def test_a_digest_goes_on_an_answer_does_not(parts: Parts) -> None:
    recovery, said, _, _ = parts
    flooded, answer = Digest(1, 1, 1, 2, True, False, 0, ()), Digest(1, 2, 1, 2, True, True, 0, ())
    for one in (flooded, answer, flooded):
        recovery.on_digest(2, one)
    assert said.flooded == [flooded]


def test_a_copy_of_another_event_is_not_taken(parts: Parts) -> None:
    recovery, _, taking, _ = parts
    body = encode_carried(5, Message("t", b"x", 1), 1)
    recovery.on_copies(LogCopies(((6, body), (5, body))))
    assert taking.taken == [body]
