"""Newcomers: what a place costs, when a move pays, and what the journal tells of them."""

from __future__ import annotations

import json

import pytest

from coterie.errors import InputError
from coterie.fleets.admission import Places
from coterie.fleets.audience import Audience, JournalLine, JournalTail
from coterie.fleets.crossing import Copies, crossings_of
from coterie.fleets.export.target import LinkShape
from coterie.fleets.fleet import FleetLimits
from coterie.fleets.outlook import copies_per_s
from tests.fleets.plans import by_hand
from tests.fleets.test_crossing import layout_of

FRIENDS = by_hand(
    {"a1": "b1", "a2": "b1", "b1": "b2", "b2": "b2", "new": "b2", "press": "b0"},
    {"a1": ("a/#",), "a2": ("a/1",), "b1": ("b",), "b2": ("b",), "new": ("a/1", "a/2")},
    {"press": ("a/1", "a/2", "b")},
)


@pytest.mark.parametrize(("hub", "home"), [("", "b0"), ("b0", "b1")])  # with the publisher, or with its like
def test_a_newcomer_goes_where_its_topics_are(hub, home):
    admission = Places(FRIENDS, hub, FleetLimits(clients_max=2.0)).admit("new")
    assert admission is not None
    assert (admission.origin, admission.home, admission.saves_per_s) == ("b2", home, 2.0)


def test_only_when_it_pays_and_within_connections():
    assert Places(FRIENDS, "", FleetLimits(clients_max=2.0, move_price=7200.0, horizon_s=3600.0)).admit("new") is None
    assert (
        Places(FRIENDS, "", FleetLimits(clients_max=2.0, move_price=7199.0, horizon_s=3600.0)).admit("new") is not None
    )
    tight = Places(FRIENDS, "", FleetLimits(clients_max=1.0)).admit("new")  # b1 is full: at most two each
    assert tight is None or tight.home == "b0"


def test_a_publisher_goes_where_it_is_heard():
    layout = by_hand({"ann": "b1", "sensor": "b2"}, {"ann": ("t",)}, {"sensor": ("t",)})
    admission = Places(layout, "", FleetLimits(clients_max=3.0)).admit("sensor")
    assert admission is not None
    assert admission.home == "b1"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hub", ["", "b0"])
def test_what_is_said_to_be_saved_is_what_the_links_carry_less(seed, hub):
    layout = layout_of(seed)
    shape = LinkShape.STAR if hub else LinkShape.MESH

    def copies(home):
        moved = layout.moved(home)
        return copies_per_s(moved, Copies(crossings_of(shape, moved, hub), is_mesh=not hub))

    home = dict(layout.home)
    moved = 0
    for client in home:
        places = Places(layout.moved(home), hub, FleetLimits(clients_max=2.0, move_price=0.0))
        before = copies(home)
        admission = places.admit(client)
        if admission is not None:
            home[client] = admission.home
            moved += 1
            after = copies(home)
            assert before - after == pytest.approx(admission.saves_per_s)
    assert moved > 5


def test_the_audience_follows_the_journal():
    now = [10.0]
    audience = Audience(window_s=100.0, clock=lambda: now[0])
    audience.take(
        [
            JournalLine(0.0, "subscribe", "ann", "x", "b0"),
            JournalLine(1.0, "counters"),
            JournalLine(10.0, "publish", "bob", "x", "b1", 5),
            JournalLine(50.0, "publish", "bob", "x", "b1", 5),
        ]
    )
    assert audience.rates() == {"bob": {"x": pytest.approx(10 / 50)}}
    assert audience.clients["bob"].changed_s == 10.0
    now[0] = 11.0
    audience.take(
        [JournalLine(60.0, "subscribe", "ann", "y", "b2"), JournalLine(61.0, "unsubscribe", "ann", "x", "b2")]
    )
    layout = audience.layout(("b0", "b1", "b2"), {"bob": "b0"})
    assert layout.home == {"ann": "b2", "bob": "b0"}
    assert layout.wishes == {"ann": ("y",)}
    assert audience.clients["ann"].changed_s == 11.0
    audience.take([JournalLine(200.0, "publish", "bob", "z", "b1"), JournalLine(400.0, "publish", "bob", "z", "b1")])
    assert "x" not in audience.rates()["bob"]  # two windows ago


def test_a_tail_takes_whole_lines_once_and_counts_the_others(tmp_path):
    folder = tmp_path / "journal"
    (folder / "b0").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    path = folder / "b0" / "000000000001.jsonl"
    line = json.dumps({"t": 1.0, "kind": "subscribe", "client": 'a "b"\t', "topic": "x", "more": 1})
    path.write_text(line + "\nnonsense\n" + line[:20])
    tail = JournalTail(folder)
    assert [(one.client, one.node) for one in tail.lines()] == [('a "b"\t', "b0")]
    assert tail.malformed == 1
    with open(path, "a") as file:
        file.write(line[20:] + "\n")
    (folder / "b0" / "000000000002.jsonl").write_text(line + "\n")
    assert len(list(tail.lines())) == 2
    assert list(tail.lines()) == []
    with pytest.raises(InputError, match="no such journal folder"):
        JournalTail(tmp_path / "none")
