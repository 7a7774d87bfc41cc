"""Keepers of a node that is away: what one of them had last, the others take from it."""

from __future__ import annotations

from typing import Any

from coterie.broker.carried import EPOCH_S, TIME_BITS
from coterie.broker.copies import LATEST_BYTES_MAX, PASS_S, HeldCopies, pack_rows
from coterie.broker.frames import Keep, KeepAll, KeepFor, Kept
from coterie.broker.turn import Turn
from coterie.broker.writes import LOG, MESSAGES
from tests.broker.shelf import MemoryShelf

ORIGIN = 1


class Heard:
    """What a keeper says."""

    def __init__(self) -> None:
        self.flooded: list[KeepFor] = []
        self.told: list[Kept] = []

    def flood(self, message: KeepFor) -> None:
        self.flooded.append(message)

    def tell(self, peer: int, message: Kept) -> bool:
        self.told.append(message)
        return True


def keeper(now_s: float) -> tuple[HeldCopies, Heard, Turn]:
    heard, turn = Heard(), Turn()
    turn.now_s = EPOCH_S + now_s
    talk: Any = heard
    copies = HeldCopies(talk, MemoryShelf(), turn)
    copies.on_all(ORIGIN, KeepAll(1, 0, 0, pack_rows([]), ORIGIN << TIME_BITS, True, True))
    return copies, heard, turn


def batch(serial: int, size: int = 1) -> Keep:
    identifier = ORIGIN << TIME_BITS | serial
    rows = [(LOG, identifier, b"t"), (MESSAGES, identifier, b"x" * size)]
    return Keep(1, serial, 1_000_000 * serial, pack_rows(rows))


def test_another_keeper_takes_what_follows_and_knows_how_old_it_is() -> None:
    ahead, said, turn = keeper(100.0)
    behind, answers, there = keeper(300.0)
    behind.on_keep(ORIGIN, batch(1))
    for serial in (1, 2, 3):
        ahead.on_keep(ORIGIN, batch(serial))
    turn.now_s += 20.0
    ahead.pass_on(ORIGIN)
    for one in said.flooded:
        behind.on_keep_for(one)
    state = behind.of[ORIGIN].state
    assert (state.serial, state.log_last) == (3, ahead.of[ORIGIN].state.log_last)
    assert there.now_us - state.here_us == 20_000_000
    behind.on_keep(ORIGIN, batch(2))  # it was only cut off, and says it itself
    assert answers.told[-1].serial == 3


def test_who_keeps_nothing_for_it_takes_nothing_and_holes_are_not_taken() -> None:
    copies, _, _ = keeper(0.0)
    copies.on_keep_for(KeepFor(2, 0, 1, 1, 0, batch(1).rows))
    copies.on_keep_for(KeepFor(ORIGIN, 0, 1, 2, 0, batch(2).rows))
    copies.on_keep_for(KeepFor(ORIGIN, 0, 2, 1, 0, batch(1).rows))
    assert list(copies.of) == [ORIGIN]
    assert copies.of[ORIGIN].state.serial == 0


def test_it_is_passed_on_now_and_then_and_no_more_than_so_much() -> None:
    copies, said, turn = keeper(0.0)
    for serial in range(1, 9):
        copies.on_keep(ORIGIN, batch(serial, LATEST_BYTES_MAX // 4))
    copies.pass_on(ORIGIN)
    copies.pass_on(ORIGIN)
    assert [one.serial for one in said.flooded] == [6, 7, 8]
    turn.now_s += PASS_S
    copies.pass_on(ORIGIN)
    assert len(said.flooded) == 6
