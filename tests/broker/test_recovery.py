"""Recovery by itself: who tells whom since when, and what counts as had."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coterie.broker.asking import Asking
from coterie.broker.carried import EPOCH_S, TIME_BITS, Identifiers, encode_carried
from coterie.broker.copies import HeldCopies
from coterie.broker.frames import Digest, Disturbed, LogCopies, Want
from coterie.broker.keeperlists import KeeperLists
from coterie.broker.links import PeerLinks
from coterie.broker.recovery import AUDIT_TIMER, ROUND_TIMER, Recovery
from coterie.broker.settings import LinkSection, RecoverySection
from coterie.broker.turn import Turn
from coterie.broker.writes import LOG, META, Saved
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


def made(said: Said, taking: Taking, turn: Turn) -> Recovery:
    talk: Any = said
    shelf, links = MemoryShelf(), PeerLinks(0, [1, 2], LinkSection(), turn)
    copies = HeldCopies(talk, shelf, turn)
    asking = Asking(0, links, talk, copies, KeeperLists(0, copies, talk, turn))
    return Recovery(
        0, [1, 2], RecoverySection(), Identifiers(0), links, talk, asking, copies, taking, shelf, turn
    )  # fmt: skip


@pytest.fixture
def parts() -> tuple[Recovery, Said, Taking, Turn]:
    said, taking, turn = Said(), Taking(), Turn()
    turn.now_s = EPOCH_S + 1000.0
    return made(said, taking, turn), said, taking, turn


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


def digests(said: Said) -> list[Digest]:
    return [one for one in said.flooded if isinstance(one, Digest)]


def test_an_audit_tells_what_was_before_a_disturbance_that_took_its_place(parts: Parts) -> None:
    recovery, said, _, turn = parts
    recovery.start(0, Saved())
    shelf = recovery._shelf
    assert isinstance(shelf, MemoryShelf)
    shelf.write([(LOG, 1_010_000_000, b"t")])
    turn.now_s += 30.0
    recovery.disturb(1_030_000_000)
    for _ in recovery._settings.rounds_s:
        turn.now_s += 8.0
        recovery.on_timer(AUDIT_TIMER)
        recovery.on_timer(ROUND_TIMER)
    assert not any(one.events for one in digests(said))
    recovery.on_timer(AUDIT_TIMER)
    assert [one.events for one in digests(said) if one.events] == [(("t", (1_010_000_000,)),)]
    told = len(digests(said))
    turn.now_s += 60.0
    recovery.on_timer(AUDIT_TIMER)
    assert len(digests(said)) == told  # once


def test_what_was_looked_for_when_a_life_ended_is_looked_for_in_the_next(parts: Parts) -> None:
    recovery, _, _, turn = parts
    recovery.disturb(500_000_000)
    kept = [(key, value) for table, key, value in turn.writes if table == META]
    again = made(Said(), Taking(), turn)
    again.start(999_000_000, Saved({META: kept}))  # type: ignore[dict-item]
    assert again.behind == {1: 500_000_000, 2: 500_000_000}


def test_who_was_asked_for_copies_is_not_done_with_before_they_came(parts: Parts) -> None:
    recovery, _, _, turn = parts
    recovery.behind = {1: 900_000_000}
    whole = (900_000_000, 1_000_000_000, True, True, 0)
    identifier = 1 << TIME_BITS | 950_000_000
    recovery.on_digest(1, Digest(1, 1, *whole, (("t", (950_000_000,)),)))
    assert recovery.behind == {1: 900_000_000}
    recovery.on_copies(LogCopies(((identifier, encode_carried(identifier, Message("t"), 1)),)))
    recovery.on_digest(1, Digest(1, 2, *whole, ()))
    assert recovery.behind == {}
    assert msgspec.msgpack.decode(turn.writes[-1][2] or b"") == {}
