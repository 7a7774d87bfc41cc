"""The parts of a node that need no socket: frames, cascades, identifiers, access, interest, journal."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.carried import Identifiers, decode_carried, encode_carried, microseconds, origin_of
from coterie.broker.cascades import Cascades
from coterie.broker.frames import (
    BEAT,
    CONTROL,
    MESSAGE,
    FrameReader,
    WantedFilters,
    decode_control,
    encode_control,
    frame,
)
from coterie.broker.interest import RemoteFilters
from coterie.broker.journal import LINES_PER_S_MAX, Journal, PublishTally
from coterie.errors import RemoteProtocolError
from coterie.live.journal import JournalFiles
from coterie.mqtt.index import WatchedIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.publish import Message


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(MESSAGE, body) for body in bodies) + frame(BEAT, b"")
    reader = FrameReader()
    found = []
    position = index = 0
    while position < len(stream):
        step = cuts[index % len(cuts)]
        found += reader.feed(stream[position : position + step])
        position, index = position + step, index + 1
    assert found == [*((MESSAGE, body) for body in bodies), (BEAT, b"")]


@given(st.binary(min_size=1, max_size=200))
def test_garbage_on_a_link_is_the_peers_fault_and_nothing_else(raw: bytes) -> None:
    for read in (lambda: FrameReader(1000).feed(raw), lambda: decode_control(raw), lambda: decode_carried(raw)):
        with contextlib.suppress(RemoteProtocolError):
            read()


def test_a_frame_larger_than_allowed_is_refused_before_it_is_kept() -> None:
    with pytest.raises(RemoteProtocolError, match="at most 100"):
        FrameReader(100).feed(frame(CONTROL, b"x" * 101)[:5])


def test_control_messages_come_back_as_they_were() -> None:
    said = WantedFilters(3, 17, ("a/#", "+/b"))
    assert decode_control(encode_control(said)) == said


def test_a_cascade_is_over_when_all_it_caused_is() -> None:
    told: list[str] = []
    cascades = Cascades(limit_s=5.0)
    root = cascades.begin(lambda: told.append("done"), 0.0)
    first, second = cascades.number_for(1), cascades.number_for(2)
    assert first is not None
    assert second is not None
    cascades.end(root)
    assert cascades.number_for(3) is None
    cascades.done(1, second)  # the wrong peer's word counts for nothing
    cascades.done(1, first)
    assert told == []
    cascades.done(2, second)
    cascades.done(2, second)
    assert told == ["done"]
    assert len(cascades) == 0


def test_a_cascade_does_not_wait_for_the_lost_or_for_ever() -> None:
    told: list[str] = []
    cascades = Cascades(limit_s=5.0)
    for name in ("lost", "late"):
        root = cascades.begin(lambda name=name: told.append(name), 0.0)  # type: ignore[misc]
        assert cascades.number_for(1 if name == "lost" else 2) is not None
        cascades.end(root)
    cascades.lost(1)
    assert told == ["lost"]
    assert cascades.expire(4.9) == 0
    assert cascades.expire(5.0) == 1
    assert told == ["lost", "late"]
    assert len(cascades) == 0


def test_identifiers_rise_even_if_the_clock_does_not() -> None:
    ids = Identifiers(7, last=100)
    given_out = [ids.next(now) for now in (50, 50, 200, 150)]
    assert given_out == sorted(set(given_out))
    assert {origin_of(one) for one in given_out} == {7}
    assert microseconds(0.0) == 0


def test_a_message_survives_the_journey() -> None:
    message = Message("a/b", b"\x00\xff", 2, True, publisher="ann", expires_at_s=5.5, id=99)
    carried = decode_carried(encode_carried(99, message, 3))
    assert carried.message() == message
    assert (carried.id, carried.channels) == (99, 3)


def test_first_and_last_subscriber_of_a_filter_are_told() -> None:
    index: WatchedIndex[str] = WatchedIndex()

    def told() -> list[str]:
        return [one.filter for one in index.take_changes() if one.kind in ("first", "last")]

    index.subscribe("ann", Subscription("a/#"))
    index.subscribe("bob", Subscription("$share/g/a/#"))
    index.unsubscribe("ann", "a/#")
    assert told() == ["a/#"]
    index.unsubscribe("bob", "$share/g/a/#")
    assert [(one.kind, one.filter) for one in index.take_changes()] == [
        ("removed", "$share/g/a/#"), ("groups", ""), ("last", "a/#"),
    ]  # fmt: skip
    assert index.count == 0


def test_publications_go_to_every_announced_filter_that_matches() -> None:
    remote = RemoteFilters()
    assert remote.channels("a/b") == ("a/b",)
    assert remote.learn(WantedFilters(1, 5, ("a/#",)))
    assert remote.learn(WantedFilters(2, 1, ("a/#", "+/b")))
    assert set(remote.channels("a/b")) == {"a/b", "a/#", "+/b"}
    assert not remote.learn(WantedFilters(1, 5, ()))  # not newer
    assert remote.learn(WantedFilters(1, 6, ()))
    assert set(remote.channels("a/b")) == {"a/b", "a/#", "+/b"}
    assert remote.learn(WantedFilters(2, 2, ()))
    assert remote.channels("a/b") == ("a/b",)
    assert len(remote) == 0


def test_the_journal_rotates_begins_anew_after_a_restart_and_bounds_a_flood(tmp_path: Path) -> None:
    journal, files = Journal("n"), JournalFiles(tmp_path / "n", segment_bytes_max=200)
    for number in range(3):
        journal.published(PublishTally("ann", "a/b"), 1.0 + number, 10)
        journal.subscribed(1.0, "ann", "a/#")
        files.append(journal.take_lines())
    assert not journal.close(5.0)
    files.close()
    again, files = Journal("n"), JournalFiles(tmp_path / "n", 1 << 20)
    tally = PublishTally("bob", "x")
    again.published(tally, 10.0, 1, count=LINES_PER_S_MAX)
    again.published(tally, 10.5, 1, count=70)
    again.published(tally, 10.6, 1, count=30)
    again.counters(11.0, {"messages_in": 5.0})
    files.append(again.close(11.0))
    files.close()
    segments = sorted((tmp_path / "n").glob("*.jsonl"))
    assert [one.stem for one in segments] == ["000000000001", "000000000002", "000000000003"]
    last = [json.loads(line) for line in segments[-1].read_text().splitlines()]
    publications = [line for line in last if line["kind"] == "publish"]
    assert sum(line.get("count", 1) for line in publications) == LINES_PER_S_MAX + 100
    assert len(publications) == LINES_PER_S_MAX + 1
    assert last[-1]["counters"] == {"messages_in": 5.0}
