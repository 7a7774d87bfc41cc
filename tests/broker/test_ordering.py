"""What one node publishes on a topic is delivered in order, and a gap is asked for by the next event."""

from __future__ import annotations

from itertools import permutations

from coterie.broker.carried import TIME_BITS, Carried
from coterie.broker.interest import InterestBook
from coterie.broker.marks import AHEAD_MAX, Marks
from coterie.broker.ordering import ASK_AGAIN_S, GIVE_UP_S, Ordering
from coterie.broker.turn import Turn
from coterie.broker.writes import MARKS, Saved, Since

ORIGIN = 3 << TIME_BITS


def made() -> tuple[Ordering, Turn]:
    turn = Turn()
    turn.now_s = 1_760_000_000.0
    book = InterestBook(1)
    book.since["t"] = Since(turn.now_us - 1_000_000, {3: ORIGIN | 10})
    return Ordering(Marks(turn), book, turn), turn


def event(number: int, before: int, qos: int = 1) -> Carried:
    return Carried(ORIGIN | number, "t", b"%d" % number, qos, before=ORIGIN | before if before else 0)


CHAIN = [event(20, 9), event(30, 20), event(40, 30), event(50, 40)]


def test_any_order_of_arrival_is_the_same_order_of_delivery() -> None:
    for order in permutations(CHAIN):
        ordering, _ = made()
        got = [one.id for arrived in (*order, *order) for one in ordering.take(arrived)]
        assert got == [one.id for one in CHAIN]
        assert len(ordering) == 0


def test_what_is_missing_is_asked_for_and_what_was_before_the_subscription_is_not() -> None:
    ordering, _ = made()
    assert [one.id for one in ordering.take(CHAIN[0])] == [ORIGIN | 20]  # its predecessor was not wanted yet
    assert ordering.take(CHAIN[2]) == []
    assert ordering.take_asking() == {3: [ORIGIN | 30]}
    assert ordering.take(event(45, 0, qos=0)) == []  # behind what is held
    assert [one.id & 0xFF for one in ordering.take(CHAIN[1])] == [30, 40, 45]


def test_what_is_nowhere_any_more_and_who_does_not_answer_hold_up_nobody_for_ever() -> None:
    ordering, turn = made()
    ordering.take(CHAIN[0])
    ordering.take(CHAIN[2])
    assert [one.id & 0xFF for one in ordering.pass_over(ORIGIN | 30)] == [40]
    ordering, turn = made()
    ordering.take(CHAIN[0])
    ordering.take(CHAIN[3])
    turn.now_s += GIVE_UP_S
    assert [one.id & 0xFF for one in ordering.on_time()] == [50]
    assert ordering.gave_up_count == 1


def test_who_could_not_ask_yet_does_not_give_up_on_an_answer() -> None:
    ordering, turn = made()
    ordering.take(CHAIN[0])
    ordering.take(CHAIN[2])
    for _ in range(int(2 * GIVE_UP_S / ASK_AGAIN_S)):  # the node's own disk is slow: its question has not left
        turn.now_s += ASK_AGAIN_S
        assert ordering.on_time(is_heard=False) == []
        assert ordering.take_asking() == {3: [ORIGIN | 30]}
    turn.now_s += GIVE_UP_S - ASK_AGAIN_S
    assert ordering.on_time() == []
    turn.now_s += ASK_AGAIN_S
    assert [one.id & 0xFF for one in ordering.on_time()] == [40]


def test_what_was_given_up_is_still_owed_and_comes_late_rather_than_never() -> None:
    ordering, turn = made()
    ordering.take(CHAIN[0])
    ordering.take(CHAIN[3])
    turn.now_s += GIVE_UP_S
    ordering.on_time()
    assert not ordering.is_had("t", ORIGIN | 40)
    assert ordering.is_had("t", ORIGIN | 50)
    assert [one.id & 0xFF for one in ordering.take(event(60, 50))] == [60]  # nobody waits for the gap any more
    again, marks = Marks(turn), {key: value for table, key, value in turn.writes if table == MARKS}
    again.load(Saved({MARKS: list(marks.items())}))
    assert (again.has(3, "t", ORIGIN | 60), again.has(3, "t", ORIGIN | 40)) == (True, False)  # nor after a restart
    ordering.take_asking()
    assert ordering.take(CHAIN[2]) == []
    assert ordering.take_asking() == {3: [ORIGIN | 30]}
    assert [one.id & 0xFF for one in ordering.take(CHAIN[1])] == [30, 40]
    assert [one.id & 0xFF for one in ordering.take(event(70, 60))] == [70]
    assert [ordering.take(one) for one in (*CHAIN, event(60, 50))] == [[]] * 5  # each once


def test_what_need_not_wait_itself_goes_behind_what_does_and_comes_once() -> None:
    ordering, _ = made()
    ordering.take(CHAIN[0])
    ordering.take(CHAIN[2])  # waits for 30
    free = event(60, 9)  # names one from before the subscription
    assert ordering.take(free) == []
    assert [one.id & 0xFF for one in ordering.take(CHAIN[1])] == [30, 40, 60]
    assert ordering.take(free) == []
    assert ordering.take(CHAIN[2]) == []


def test_a_mark_never_goes_back() -> None:
    marks = Marks(Turn())
    marks.set(3, "t", ORIGIN | 50)
    marks.set(3, "t", ORIGIN | 40)
    assert marks.has(3, "t", ORIGIN | 50)


def test_a_gap_is_not_remembered_for_ever() -> None:
    turn = Turn()
    marks = Marks(turn)
    for number in range(AHEAD_MAX + 1):
        marks.set_ahead(3, "t", ORIGIN | 10 * number + 20, ORIGIN | 10 * number + 10)
    assert marks.has(3, "t", ORIGIN | 10)
    assert marks.has(3, "t", ORIGIN | 10 * AHEAD_MAX + 20)
    assert len(turn.writes[-1][2]) < 20
