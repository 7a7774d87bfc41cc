"""mosquitto's lines, as 2.0.11 and 2.1.2 write them."""

from __future__ import annotations

import pytest

from coterie.errors import ConfigError
from coterie.fleets.observe.gathering import Gathering
from coterie.fleets.observe.mosquitto import LogMemory, MosquittoLog
from coterie.fleets.observe.stamps import Stamps


def observe(*lines: str, memory: LogMemory | None = None, stamps: Stamps | None = None):
    gathering = Gathering()
    log = MosquittoLog("b", stamps or Stamps(), memory or LogMemory(), {}, gathering)
    for order, line in enumerate(lines):
        log.feed(order, line if stamps else f"1700000000: {line}")
    log.finish()
    wishes = [(one.kind, one.client, one.topic) for one in gathering.wishes({})]
    return gathering, wishes


def test_blocks_of_several_filters_belong_to_who_asked():
    _, wishes = observe(
        "Received SUBSCRIBE from ann", "\tx (QoS 1)", "\twith (QoS 9) in it (QoS 0)", "Sending SUBACK to ann",
        "Received UNSUBSCRIBE from ann", "\tx", "Sending UNSUBACK to ann",
    )  # fmt: skip
    assert wishes == [
        ("subscribe", "ann", "x"),
        ("subscribe", "ann", "with (QoS 9) in it"),
        ("unsubscribe", "ann", "x"),
    ]


def test_lines_of_log_type_subscribe_alone():
    _, wishes = observe("ann 1 x", "with space 0 t/1", "with space t/1", "nobody knows this")
    assert wishes == [
        ("subscribe", "ann", "x"),
        ("subscribe", "with space", "t/1"),
        ("unsubscribe", "with space", "t/1"),
    ]


@pytest.mark.parametrize("client", ["dev 1", "dev 1 0", "Client 7", "a  2"])
def test_identifiers_seen_connecting_are_told_apart_without_a_block(client):
    gathering, wishes = observe(
        "New client connected from 1.2.3.4:4 as dev (p2, c1, k60).",
        f"New client connected from 1.2.3.4:5 as {client} (p2, c1, k60).",
        f"{client} 0 t/0", "dev 2 t/2", f"{client} 2 1 t/1", f"{client} t/0",
    )  # fmt: skip
    assert wishes == [
        ("subscribe", client, "t/0"),
        ("subscribe", "dev", "t/2"),
        ("subscribe", client, "1 t/1"),
        ("unsubscribe", client, "t/0"),
    ]
    assert gathering.account("b").counts == {"connections": 2, "subscriptions": 3, "unsubscriptions": 1}


def test_who_gives_up_what_was_asked_for_before_the_log_began_does_not_subscribe():
    gathering, wishes = observe("New client connected from 1.2.3.4:5 as dev 1 (p2, c0, k60).", "dev 1 old")
    assert wishes == []
    assert gathering.account("b").counts == {"connections": 1, "unsubscriptions": 1}


@pytest.mark.parametrize("client", ["a 1 b", "Client 7", "New day", "quo'te", "tab\there", "ünï", "x (p2, c1, k60)."])
def test_identifiers_that_look_like_something_else_are_told_apart_by_their_block(client):
    gathering, wishes = observe(
        f"New client connected from 1.2.3.4:5 as {client} (p2, c1, k60, u'us'er').",
        f"Received SUBSCRIBE from {client}", "\tt 2 t (QoS 1)", f"{client} 1 t 2 t",
        f"Received PUBLISH from {client} (d0, q1, r0, m1, 'it's (11 bytes))', ... (12 bytes))",
        f"Received UNSUBSCRIBE from {client}", "\tt 2 t", f"{client} t 2 t",
        f"Client {client} [1.2.3.4:5] disconnected: connection closed by client.",
    )  # fmt: skip
    assert wishes == [("subscribe", client, "t 2 t"), ("unsubscribe", client, "t 2 t")]
    assert [(one.client, one.topic, one.size) for one in gathering.publications] == [(client, "it's (11 bytes))", 12)]
    assert gathering.account("b").as_facts()["not_understood"] == 0


def test_what_was_asked_for_and_refused_is_no_wish():
    """2.0.11 writes the filter before it looks at the ACL, and the accepted ones once more afterwards."""
    _, wishes = observe(
        "Received SUBSCRIBE from ann", "\tyes (QoS 0)", "ann 0 yes", "\tno (QoS 0)", "Sending SUBACK to ann"
    )
    assert wishes == [("subscribe", "ann", "yes")]
    gathering, wishes = observe("Received SUBSCRIBE from ann", "\tyes (QoS 0)", "\tno (denied)")
    assert wishes == [("subscribe", "ann", "yes")]
    assert gathering.account("b").counts["refused"] == 1


def test_bridges_repetitions_and_the_brokers_own_topics_are_not_ours():
    gathering, wishes = observe(
        "Received PUBLISH from hub (d0, q0, r0, m0, 'x', ... (1 bytes))",  # before it says that it is a bridge
        "New bridge connected from 1.2.3.4:5 as hub (p2, c1, k60).",
        "hub 0 #", "local.near 0 #", "coterie-observe-b 0 #", "ann 0 $SYS/#",
        "Sending PUBLISH to hub (d0, q0, r0, m0, 'x', ... (1 bytes))",
        "Received PUBLISH from ann (d1, q1, r0, m4, 'x', ... (1 bytes))",
        "Will message specified (4 bytes) (r0, q1).", "\twill/topic",
    )  # fmt: skip
    assert wishes == []
    assert not gathering.publications
    counts = gathering.account("b").counts
    assert counts == {"bridges": 6, "own topics": 1, "repetitions": 1, "other": 2}


def test_every_line_is_in_the_account_and_three_puzzles_are_shown():
    gathering, _ = observe(*["what is this?"] * 5, "", "ann 0 x")
    facts = gathering.account("b").as_facts()
    assert (facts["lines"], facts["used"], facts["not_understood"], len(facts["examples"])) == (7, 1, 5, 3)


@pytest.mark.parametrize(
    ("time_format", "zone", "line"),
    [
        (None, "UTC", "1700000000: ann 0 x"),
        (None, "UTC", "2023-11-14T22:13:20: ann 0 x"),
        (None, "Europe/Vienna", "2023-11-14 23:13:20: ann 0 x"),
        (None, "Europe/Vienna", "2023-11-14T22:13:20Z: ann 0 x"),
        (None, "UTC", "2023-11-14T17:13:20-05:00: ann 0 x"),
        ("%d.%m.%Y %H:%M:%S", "UTC", "14.11.2023 22:13:20: ann 0 x"),
        ("[%F %T %z]", "UTC", "[2023-11-14 23:13:20 +0100]: ann 0 x"),
        ("at %s", "UTC", "at 1700000000: ann 0 x"),
    ],
)
def test_times_however_they_are_written(time_format, zone, line):
    gathering, _ = observe(line, stamps=Stamps(time_format, zone))
    assert [(one.t_us, one.client) for one in gathering.sightings] == [(1_700_000_000_000_000, "ann")]


def test_a_time_format_that_names_no_moment_is_refused():
    with pytest.raises(ConfigError, match="year, month, day"):
        Stamps("%H:%M:%S")
    with pytest.raises(ConfigError, match="%Y"):
        Stamps("%Q")
    with pytest.raises(ConfigError, match="time zone"):
        Stamps(None, "Mars/Olympus")
