"""Whose wishes end when: clean and lasting sessions, moves, breaks, and clocks that go back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.histories import SessionRecord, Sighting, client_history, matches

S = 1_000_000


def history(*told: tuple, carried: dict | None = None, restarts: dict | None = None):
    """(node, second, kind, topic or clean) in the order of the log."""
    sightings = []
    for order, (node, second, kind, *rest) in enumerate(told):
        topic = rest[0] if rest and isinstance(rest[0], str) else ""
        clean = rest[0] if rest and isinstance(rest[0], bool) else True
        sightings.append(Sighting(node, order, second * S, kind, "ann", topic, clean))
    return client_history("ann", sightings, carried or {}, restarts or {})


def lines(told) -> list[tuple]:
    return [(one.node, one.t_us // S, one.kind, one.topic) for one in told.lines]


def test_a_clean_sessions_wishes_end_with_it_and_a_lasting_ones_do_not():
    clean = history(("a", 1, "connect", True), ("a", 2, "subscribe", "x"), ("a", 9, "end"))
    assert lines(clean) == [("a", 2, "subscribe", "x"), ("a", 9, "unsubscribe", "x")]
    assert clean.sessions == {}
    lasting = history(("a", 1, "connect", False), ("a", 2, "subscribe", "x"), ("a", 9, "end"))
    assert lines(lasting) == [("a", 2, "subscribe", "x")]
    assert lasting.sessions["a"].wishes == {"x": 2 * S}
    wiped = history(("a", 20, "connect", True), carried=lasting.sessions)
    assert lines(wiped) == [("a", 20, "unsubscribe", "x")]
    assert lines(history(("a", 20, "expire"), carried=lasting.sessions)) == [("a", 20, "unsubscribe", "x")]


def test_who_connected_before_the_log_began_is_taken_as_clean():
    told = history(("a", 2, "subscribe", "x"), ("a", 9, "end"))
    assert lines(told) == [("a", 2, "subscribe", "x"), ("a", 9, "unsubscribe", "x")]
    assert told.sessions == {}


def test_asking_again_and_giving_up_what_was_not_wanted_say_nothing():
    told = history(("a", 1, "subscribe", "x"), ("a", 2, "subscribe", "x"), ("a", 3, "unsubscribe", "y"))
    assert lines(told) == [("a", 1, "subscribe", "x")]


def test_who_was_there_before_the_log_shows_by_deliveries_until_it_connects_anew():
    told = history(
        ("a", 1, "deliver", "x"), ("a", 2, "subscribe", "t/+"), ("a", 3, "deliver", "t/1"),
        ("a", 4, "unsubscribe", "t/+"),
        ("a", 5, "deliver", "t/2"), ("a", 60, "connect", True), ("a", 61, "deliver", "z"),
    )  # fmt: skip
    assert [(*line[:3], line[3]) for line in lines(told)] == [
        ("a", 1, "subscribe", "x"),
        ("a", 2, "subscribe", "t/+"),
        ("a", 4, "unsubscribe", "t/+"),
        ("a", 60, "unsubscribe", "x"),
    ]
    assert [one.seen for one in told.lines] == ["delivery", "", "", ""]


def test_a_client_that_moves_keeps_what_it_asked_for_anew_and_loses_the_rest():
    told = history(
        ("a", 1, "connect", True), ("a", 1, "subscribe", "x"), ("a", 1, "subscribe", "y"),
        ("b", 5, "connect", True), ("b", 5, "subscribe", "x"),
        ("a", 95, "end"),  # it was lost without a word, and missed a minute and a half later
    )  # fmt: skip
    assert ("a", 95, "unsubscribe", "x") not in lines(told)
    assert ("a", 95, "unsubscribe", "y") in lines(told)
    assert list(told.sessions) == ["b"]


def test_a_break_of_a_second_is_none_wherever_it_comes_back():
    for place in "ab":
        told = history(
            ("a", 1, "connect", True), ("a", 1, "subscribe", "x"), ("a", 5, "end"),
            (place, 6, "connect", True), (place, 6, "subscribe", "x"),
        )  # fmt: skip
        assert not [line for line in lines(told) if line[2] == "unsubscribe"], place
        late = history(
            ("a", 1, "connect", True), ("a", 1, "subscribe", "x"), ("a", 5, "end"),
            (place, 7, "connect", True), (place, 7, "subscribe", "x"),
        )  # fmt: skip
        assert ("a", 5, "unsubscribe", "x") in lines(late), place


def test_a_broker_that_starts_again_ends_clean_sessions_of_clients_that_say_nothing_more():
    carried = {"a": SessionRecord(is_clean=True, wishes={"x": S}), "b": SessionRecord(is_clean=False, wishes={"y": S})}
    told = history(carried=carried, restarts={"a": [(7, 50 * S)], "b": [(7, 50 * S)]})
    assert lines(told) == [("a", 50, "unsubscribe", "x")]
    assert list(told.sessions) == ["b"]


def test_a_clock_that_goes_back_does_not_turn_things_round():
    told = history(("a", 100, "connect", True), ("a", 100, "subscribe", "x"), ("a", 40, "unsubscribe", "x"))
    assert lines(told) == [("a", 100, "subscribe", "x"), ("a", 100, "unsubscribe", "x")]
    assert told.backwards == {"a": 1}


where, when = st.sampled_from("ab"), st.integers(0, 30)
about = st.sampled_from(["subscribe", "unsubscribe", "deliver"])
kinds = st.one_of(
    st.tuples(where, when, about, st.sampled_from(["x", "y", "+"])),
    st.tuples(where, when, st.just("connect"), st.booleans()),
    st.tuples(where, when, st.sampled_from(["end", "expire"])),
)


@given(st.lists(kinds, max_size=30), st.integers(0, 30))
def test_stopping_in_between_forgets_nothing(told, cut):
    """Two runs end with the same wishes as one, and what is open in the lines is what is remembered as wanted."""
    whole = history(*told)
    first = history(*told[:cut])
    second = history(*told[cut:], carried=first.sessions)
    assert {n: s.wishes.keys() for n, s in whole.sessions.items()} == {
        n: s.wishes.keys() for n, s in second.sessions.items()
    }
    for node in "ab":
        alone = history(*[one for one in told if one[0] == node])
        is_open = {}
        for line in alone.lines:
            is_open[line.topic] = line.kind == "subscribe"
        wanted = alone.sessions[node].wishes if node in alone.sessions else {}
        assert {topic for topic, still in is_open.items() if still} == set(wanted)


def test_filters_match_as_mqtt_says():
    assert matches("t/+", "t/1")
    assert matches("t/#", "t")
    assert matches("$share/g/t/+", "t/1")
    assert not matches("#", "$SYS/x")
    assert not matches("t/+", "t/1/2")
