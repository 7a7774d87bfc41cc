"""What is kept of sessions, retained messages and events comes back exactly, and nothing is kept for nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coterie.broker.carried import EPOCH_S, TIME_BITS, TIME_MASK, decode_carried, encode_carried
from coterie.broker.counts import Counts
from coterie.broker.frames import Retained
from coterie.broker.housekeeping import Housekeeping
from coterie.broker.lastpublished import LastPublished
from coterie.broker.lastwords import LastWords
from coterie.broker.marks import Marks
from coterie.broker.settings import StoreSection
from coterie.broker.stored import StoredSessions
from coterie.broker.turn import Turn
from coterie.broker.writes import DELIVERIES, INCOMING, LOG, MARKS, MESSAGES, RETAINED, SESSIONS, SUBSCRIPTIONS
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import PubAck, Subscription, Will
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.retained import RetainedStore
from coterie.mqtt.session import SENT, Session
from tests.broker.shelf import MemoryShelf

OPTIONS = ServerOptions()


class Kept:
    """A turn, and the shelf its writes go to."""

    def __init__(self, shelf: MemoryShelf | None = None) -> None:
        self.turn, self.shelf = Turn(), shelf or MemoryShelf()
        self.stored = StoredSessions(self.turn)

    def session(self, client: str) -> Session:
        session = Session(client, OPTIONS)
        session.expiry_s = 100
        self.stored.keep(session)
        return session

    def end_turn(self, is_pressing: bool = False) -> int:
        self.stored.end_turn(is_pressing)
        writes, self.turn.writes = self.turn.writes, []
        self.shelf.write(writes)
        return len(writes)

    def count(self, *tables: str) -> list[int]:
        return [len(self.shelf.tables[table]) for table in tables]


def fill(kept: Kept) -> Session:
    session = Session("ann", OPTIONS)
    session.owner, session.expiry_s, session.will = "user of ann", 100, Will("gone", b"w")
    kept.stored.keep(session)
    session.subscribe(Subscription("a/#", 1, identifier=4))
    session.subscribe(Subscription("b", 2))
    session.unsubscribe("b")
    for number in range(3):
        session.deliver(SharedPublish(Message("a/x", b"%d" % number, 1, id=number + 1)), 1, False, (4,), 0.0)
    session.on_incoming(7)
    session.on_incoming(8)
    session.on_released(7)
    return session


def test_a_session_comes_back_as_it_was() -> None:
    kept = Kept()
    before = fill(kept)
    assert kept.end_turn()
    assert not kept.end_turn()
    (after,) = StoredSessions(Turn()).load(kept.shelf.saved(), OPTIONS)
    assert after.export() == before.export()


def test_an_ended_session_leaves_nothing() -> None:
    kept = Kept()
    session = fill(kept)
    kept.end_turn()
    session.end()
    kept.end_turn()
    assert kept.count(SESSIONS, SUBSCRIPTIONS, DELIVERIES, INCOMING, MESSAGES) == [0, 0, 0, 0, 0]
    again = fill(kept)  # and one that begins and ends within a turn leaves nothing either
    again.end()
    kept.end_turn()
    assert kept.count(SESSIONS, SUBSCRIPTIONS, DELIVERIES, INCOMING, MESSAGES) == [0, 0, 0, 0, 0]


def test_a_message_for_many_is_kept_once_until_the_last_has_it() -> None:
    kept = Kept()
    sessions = [kept.session(f"client {number}") for number in range(50)]
    message = Message("a", b"x" * 1000, 1, id=9)
    for session in sessions:
        session.deliver(SharedPublish(message), 1, False, (), 0.0)
    kept.end_turn()
    assert kept.count(DELIVERIES, MESSAGES) == [50, 1]
    restored = Kept(kept.shelf)
    for number, session in enumerate(restored.stored.load(kept.shelf.saved(), OPTIONS)):
        session.forget(lambda topic: False)
        restored.end_turn(is_pressing=True)
        assert restored.count(DELIVERIES, MESSAGES) == [49 - number, int(number < 49)]


def test_what_begins_and_ends_within_a_turn_is_never_written_and_an_end_waits_for_company() -> None:
    kept = Kept()
    session = kept.session("ann")
    kept.end_turn()
    connection: Any = SimpleNamespace(
        output=[], window_max=10, is_congested=False, is_plain=True, version=4, write_publish=lambda *rest: True
    )
    session.attach(connection, 0.0)
    kept.end_turn()
    shared = SharedPublish(Message("a", b"x", 1, id=1))
    session.send_plain(shared.message, 1, False, b"")
    session.on_acknowledged(PubAck(1), 0.0)
    assert kept.end_turn() == 0
    session.send_plain(Message("a", b"x", 1, id=2), 1, False, b"")
    assert kept.end_turn() == 2
    (after,) = StoredSessions(Turn()).load(kept.shelf.saved(), OPTIONS)
    assert [one.state for one in after._inflight.values()] == [SENT]
    session.on_acknowledged(PubAck(2), 0.0)
    assert kept.end_turn() == 0
    session.subscribe(Subscription("b"))
    assert kept.end_turn() == 3
    assert kept.count(DELIVERIES, MESSAGES) == [0, 0]


def test_retained_messages_and_removals_come_back_and_removals_are_forgotten_in_time() -> None:
    turn, shelf, talk = Turn(), MemoryShelf(), Any
    words = LastWords(0, RetainedStore(), talk, turn)  # type: ignore[arg-type]
    words.speak(Message("kept", b"1", retain=True, id=5))
    words.hear(5, Message("old", b"2", retain=True, id=5))
    words.hear(6, Message("old", b"", retain=True, id=6))
    words.hear(4, Message("old", b"late", retain=True, id=4))  # an older word
    words.hear(50, Message("new", b"", retain=True, id=50))
    words.end_turn()
    shelf.write(turn.writes)
    turn.writes = []
    store = RetainedStore()
    again = LastWords(0, store, talk, turn)  # type: ignore[arg-type]
    again.load(shelf.saved())
    assert [one.payload for one in store] == [b"1"]
    assert [again.stamp(topic) for topic in ("kept", "old", "new")] == [5, 6, 50]
    again.trim(10)
    shelf.write(turn.writes)
    assert sorted(shelf.tables[RETAINED]) == ["kept", "new"]


def test_a_later_word_counts_though_its_node_has_a_clock_that_is_behind() -> None:
    """Another node's clock is an hour ahead; when they met it said so, or a word of it did."""
    hour_us = 3_600_000_000
    for heard in ("when they met", "by a word"):
        turn, other = Turn(), 1 << TIME_BITS
        turn.now_s = EPOCH_S + 1000.0
        words = LastWords(0, RetainedStore(), Any, turn)  # type: ignore[arg-type]
        if heard == "by a word":
            words.hear(other | turn.now_us + hour_us, Message("x", b"1", retain=True))
        else:
            words.hear_time(turn.now_us + hour_us)
        unheard = other | turn.now_us + hour_us + 2_000_000
        turn.now_s += 5.0  # meanwhile it has said something that is not heard here yet
        words.speak(Message("t", b"later", retain=True, id=turn.now_us))
        assert not words.is_news("t", unheard)
        assert words.stamp("t") & TIME_MASK == turn.now_us + hour_us


def test_the_clock_furthest_ahead_goes_on_while_a_node_is_down() -> None:
    """It is known from the moment it is heard of; and if this node's own clock was set back, it does not go back."""
    for down_s, ahead_s in ((600.0, 40.0), (-600.0, 640.0)):
        turn, shelf = Turn(), MemoryShelf()
        turn.now_s = EPOCH_S + 1000.0
        words = LastWords(0, RetainedStore(), Any, turn)  # type: ignore[arg-type]
        words.hear_time(turn.now_us + 40_000_000)
        shelf.write(turn.writes)
        turn.writes = []
        turn.now_s += down_s
        again = LastWords(0, RetainedStore(), Any, turn)  # type: ignore[arg-type]
        again.load(shelf.saved())
        assert again.now_us == turn.now_us + int(ahead_s * 1e6)
        again.hear_time(again.now_us)
        assert bool(turn.writes) == (down_s < 0)


def test_a_log_is_forgotten_but_not_what_somebody_waits_for() -> None:
    kept = Kept()
    node = 5 << TIME_BITS
    now_us = 1_000_000_000
    kept.turn.now_s = 1_735_689_600 + now_us / 1e6
    words: Any = SimpleNamespace(trim=lambda before_us: None)
    marks, last = Marks(kept.turn), LastPublished(kept.turn)
    keeping = Housekeeping(
        5, [6], StoreSection(log_hours=100e6 / 3600e6), kept.stored, words, marks, last, words, words, Counts(),
        kept.shelf, kept.turn,
    )  # fmt: skip
    keeping.start(kept.shelf.saved())
    times_us = [now_us - age_us for age_us in (300_000_000, 200_000_000, 1_000)]
    for time_us in times_us:
        message = Message("t", b"x", 1, id=node | time_us)
        kept.turn.writes += [(LOG, message.id, b"t"), (MESSAGES, message.id, encode_carried(message.id, message, 1))]
        marks.set(6, f"t{time_us}", 6 << TIME_BITS | time_us)
    session = kept.session("ann")
    session.deliver(SharedPublish(Message("t", b"x", 1, id=node | times_us[1])), 1, False, (), 0.0)
    kept.end_turn()
    keeping.on_trim()
    kept.end_turn()
    assert kept.count(LOG, MARKS) == [1, 1]
    assert sorted(kept.shelf.tables[MESSAGES]) == [node | times_us[1], node | times_us[2]]
    session.forget(lambda topic: False)
    kept.end_turn(is_pressing=True)
    assert sorted(kept.shelf.tables[MESSAGES]) == [node | times_us[2]]


def test_marks_and_what_was_published_last_are_known_after_a_restart() -> None:
    turn, shelf = Turn(), MemoryShelf()
    first = 3 << TIME_BITS
    marks, last = Marks(turn), LastPublished(turn)
    marks.set(3, "t", first | 7)
    marks.hear(4 << TIME_BITS | 9)
    marks.keep_heads()
    assert last.follow("t", 5) == 0
    assert last.follow("t", 6) == 5
    shelf.write(turn.writes)
    again, later = Marks(Turn()), LastPublished(Turn())
    again.load(shelf.saved())
    later.load(shelf.saved())
    assert (again.get(3, "t"), again.get(3, "u")) == (first | 7, 0)
    assert again.heads == {3: first | 7, 4: 4 << TIME_BITS | 9}
    assert later.follow("t", 8) == 6


def test_whoever_comes_is_told_what_those_said_lately_who_are_not_there() -> None:
    turn, told = Turn(), list[tuple[int, str]]()

    class Noting:
        """A `Talk`."""

        def tell(self, peer: int, said: object) -> None:
            if isinstance(said, Retained) and said.is_spread:
                told.extend((peer, decode_carried(body).topic) for _, body in said.messages)

        def flood(self, said: object, but: int = -1) -> None:
            self.tell(-1, said)

    words = LastWords(0, RetainedStore(), Noting(), turn)  # type: ignore[arg-type]
    for origin in (0, 1, 2):
        words.hear(origin << TIME_BITS | 5, Message(f"of {origin}", b"x", retain=True, id=5))
    words.greet(1, [1])
    assert told == [(-1, "of 0"), (-1, "of 1"), (-1, "of 2")]  # the first since its start: it may have lost anybody
    told.clear()
    words.greet(3, [1, 3])
    assert told == [(3, "of 2")]
    told.clear()
    turn.now_s = EPOCH_S + 2 * 86_400.0
    words.greet(4, [1, 4])
    assert not told
