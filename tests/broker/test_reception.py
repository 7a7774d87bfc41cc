"""Where a new client belongs: the pure rule, what nodes say of themselves, and the planner's kernel as its equal."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.broker.frames import Wanting, decode_control, encode_control
from coterie.broker.reception import Direction, EntryRules, Household, Reception, bare
from coterie.kernels.placement.admission import AdmissionRules, Asked, Seating, admit


def house(connections: int = 0, *filters: str, wishes: int = 0, messages_per_s: float = 0.0) -> Household:
    found = Household(connections=connections, wishes=wishes or 40, messages_per_s=messages_per_s)
    for one in filters:
        found.put(one)
    return found


def reception(own: Household, *others: Household, connections: float = 1.2, messages: float = 1.5) -> Reception:
    found = Reception(0, EntryRules(connections, messages))
    found.own, found.others = own, dict(enumerate(others, 1))
    return found


def test_goes_where_it_is_wanted_and_to_the_emptiest_of_those() -> None:
    desk = reception(house(50, "a"), house(50, "b"), house(49, "b"), house(49, "c"))
    assert desk.direct(["b"]) == Direction(2, 0, 1, "wanted there")
    assert desk.direct(["a"]) == Direction(0, 0, 0, "wanted here")
    assert desk.direct(["d"]) == Direction(0, 1, 1, "nowhere better")
    assert desk.direct(["b"], lambda node: node == 1) == Direction(1, 0, 1, "wanted there")
    assert desk.direct(["b", "c", "d"]).new_there == 2


def test_stays_where_it_is_if_nothing_is_gained() -> None:
    assert reception(house(9, "a"), house(9, "a")).direct(["a"]).node == 0
    assert reception(house(9, "a"), house(9, "b")).direct(["a", "b"]).node == 0


def test_a_node_with_too_many_clients_takes_no_more_and_sends_on() -> None:
    desk = reception(house(20, "a"), house(30, "b"), house(22, "c"))
    assert desk.direct(["b"]).node == 0  # (72 + 1) / 3 * 1.2 is less than 31
    full = reception(house(30, "a"), house(20, "b"), house(22, "c"))
    assert full.direct(["a"]) == Direction(1, 1, 0, "full here")
    assert full.direct(["x"]).node == 1


def test_messages_count_and_not_only_wishes() -> None:
    quiet = house(10, "b", wishes=40, messages_per_s=10.0)
    busy = house(10, "b", wishes=2, messages_per_s=80.0)
    assert reception(house(10, wishes=20, messages_per_s=30.0), busy, quiet).direct(["b"]).node == 2
    assert reception(house(10, wishes=20, messages_per_s=10.0), busy).direct(["b"]).node == 0
    silent = reception(house(10, wishes=20), house(10, "b", wishes=2), house(10, "b", wishes=40))
    assert silent.direct(["b"]).node == 1  # nothing is delivered yet: wishes stand for it


def test_wildcards_shares_and_own_topics() -> None:
    assert bare(["$share/g/a/b", "a/b", "$SYS/x", "c/#"]) == ["a/b", "c/#"]
    desk = reception(house(5), house(5, "site/+/temp"), house(5, "site/#"))
    assert desk.direct(["site/3/temp"]).new_there == 0
    assert desk.direct(["site/+/temp"]).node == 1
    assert desk.direct(["site/4/#"]).node == 2
    assert desk.direct([]).node == 0


def said(version: int, *added: str, node: int = 1, **more: object) -> Wanting:
    return Wanting(node, version, 3, 4, 5.0, added, **more)  # type: ignore[arg-type]


def test_words_in_order_again_and_with_a_gap() -> None:
    desk = Reception(0, EntryRules())
    assert desk.hear(said(7, "a")) == "gap"
    assert desk.hear(said(7, "a", is_whole=True)) == "new"
    assert desk.hear(said(7, "a", is_whole=True)) == "old"
    assert desk.hear(said(7, "b", is_whole=True, is_part=True)) == "new"
    assert desk.hear(said(7, "b", is_whole=True, is_part=True)) == "old"  # else a flood would never end
    assert desk.hear(said(8, "c", removed=("a",))) == "new"
    assert desk.hear(said(8, "c", removed=("a",))) == "old"
    assert desk.hear(said(10, "d")) == "gap"
    assert desk.others[1].filters() == ("b", "c")
    assert desk.hear(said(12, "z", is_whole=True)) == "new"
    assert desk.others[1].filters() == ("z",)
    assert desk.hear(said(99, "x", node=0)) == "old"


def test_whoever_is_on_its_way_counts() -> None:
    desk = reception(house(2, "a"), house(2, "b"))
    desk.sent(1, ["b", "e"])
    assert (desk.others[1].connections, desk.others[1].wishes, desk.others[1].wants("e")) == (3, 42, True)
    assert desk.hear(said(1, is_whole=True)) == "new"
    assert desk.others[1].connections == 3
    assert not desk.others[1].wants("e")


def test_words_travel() -> None:
    word = said(3, "a", "b/#", removed=("c",), reached_all=True)
    assert decode_control(encode_control(word)) == word


@pytest.mark.parametrize("seed", range(6))
def test_decides_as_the_planners_kernel(seed: int) -> None:
    """The same newcomers, one after another, at a node each: live rule and bulk rule choose the same nodes."""
    draw = np.random.default_rng(seed)
    nodes, topics, clients = 5, 30, 120
    asked = [sorted(set(draw.integers(topics, size=draw.integers(1, 4)).tolist())) for _ in range(clients)]
    home = draw.integers(nodes, size=clients).astype(np.int32)
    rows = [(client, topic) for client, wishes in enumerate(asked) for topic in wishes]
    client, topic = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    fleet = Seating(
        np.full(clients, -1, np.int32), np.zeros((topics, nodes), np.int32), np.zeros(nodes, np.int32), np.zeros(nodes)
    )
    rules = AdmissionRules(np.ones(topics), 0.0, 1.2, 1.5, np.zeros(nodes, np.int32), True)
    redirects = admit(Asked(client, topic, client), fleet, rules, home, np.empty(clients, np.int32), np.zeros(clients))
    desks = [Reception(node, EntryRules()) for node in range(nodes)]
    houses = [Household() for _ in range(nodes)]
    for node, desk in enumerate(desks):
        desk.own, desk.others = houses[node], {other: houses[other] for other in range(nodes) if other != node}
    seats = []
    for wishes, at in zip(asked, home, strict=True):
        seat = desks[at].direct([f"t/{one}" for one in wishes]).node
        seats.append(seat)
        houses[seat].connections += 1
        houses[seat].wishes += len(wishes)
        for one in wishes:
            houses[seat].put(f"t/{one}")
    assert seats == fleet.seat.tolist()
    assert redirects == sum(seat != at for seat, at in zip(seats, home, strict=True)) > 20
