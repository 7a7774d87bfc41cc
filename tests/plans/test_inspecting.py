"""What an operator reads about a client, a topic and a link."""

from __future__ import annotations

from typing import Any

from coterie.plans.inspecting import client_told, link_told, topic_told


def on_topic(node: int, channels: dict[str, Any], subscribers: list[str] | None = None, **more: Any) -> dict[str, Any]:
    names, shared = subscribers or [], more.get("shared", [])
    return {
        "node": node, "name": f"n{node}", "system": "scribe", "subscribers": names, "shared": shared,
        "subscriber_count": more.get("count", len(names) + len(shared)), "is_retained": node == 0, "channels": channels,
    }  # fmt: skip


def place(parent: int | None = None, children: tuple[int, ...] = (), is_wanted: bool = True) -> dict[str, Any]:
    return {"is_wanted": is_wanted, "parent": parent, "children": list(children)}


def test_a_topic_with_a_tree_a_wildcard_and_a_group():
    found = [
        on_topic(0, {"a/b": place(1)}, ["ann"]),
        on_topic(1, {"a/b": place(children=(0, 2), is_wanted=False)}),
        on_topic(2, {"a/b": place(1), "a/+": place()}, ["bob"], shared=[("g", "cat")]),
    ]
    assert topic_told("a/b", found) == [
        "a/b: 3 subscribers at 2 of 3 nodes; a message is retained",
        "  n0 (node 0): ann",
        "  n2 (node 2): bob, cat (shared, group g)",
        "its events go by 2 channels of scribe:",
        "  a/b: wanted at 0, 2; from root 1",
        "    node 1 passes it to 0, 2",
        "  a/+: wanted at 2 alone",
    ]


def test_copies_and_floods_and_long_lists():
    names = [f"c{number:02}" for number in range(1000)]
    mesh = [on_topic(0, {"t": place(children=(1,))}, names, count=1500), on_topic(1, {"t": place(children=(0,))})]
    told = topic_told("t", mesh)
    assert told[1].endswith("c09 and 1490 more")
    assert told[-1] == "  t: from where it is published, a copy to each of 0, 1"
    flood = [on_topic(node, {"t": place()}, ["x"]) for node in range(2)]
    assert topic_told("t", flood)[-1] == "  t: wanted at 0, 1; over the links of the system"
    assert topic_told("u", [on_topic(1, {})]) == ["u: 0 subscribers at 0 of 1 node"]


def test_a_client_that_was_sent_on_and_why():
    session = {
        "is_online": False, "user": "ann", "expiry_s": 7200, "subscriptions": {"a/#": 1}, "queued": 1,
        "unacknowledged": 0, "given_up": 0, "has_will": False,
    }  # fmt: skip
    left = {"at_s": 1000.0, "server": "10.0.0.2:1883", "why": "placement 3 wants it there"}
    found = [
        {"node": 0, "name": "n0", "session": None, "keepers": [], "placed_at": 1, "placement_version": 3,
         "sent_away": left},
        {"node": 1, "name": "n1", "session": session, "keepers": [2], "placed_at": 1, "placement_version": 3,
         "sent_away": None},
    ]  # fmt: skip
    assert client_told("ann", found, now_s=1300.0) == [
        "ann: away; its session waits at n1 (node 1), user ann",
        "  subscribes to a/# (QoS 1)",
        "  1 message waiting, 0 not acknowledged, 0 given up",
        "  its session lasts 2 h after it is gone; copies at node 2",
        "  placement 3 wants it there",
        "  n0 sent it to 10.0.0.2:1883 5 min ago: placement 3 wants it there",
    ]


def test_a_link_that_is_missing_and_one_that_is_slow():
    row = {"peer": 1, "is_behind": False, "waiting_bytes": 0, "is_planned": True}
    found = [
        {"node": 0, "name": "n0", **row, "is_connected": False},
        {"node": 2, "name": "n2", **row, "is_connected": True, "waiting_bytes": 70_000, "is_behind": True},
    ]
    assert link_told(1, found) == [
        "node 1:",
        "  n0 (node 0): NOT connected",
        "  n2 (node 2): connected; catching up with its log; 70,000 bytes wait",
    ]
    assert link_told(7, []) == ["node 7: no other node has, or should have, a link to it"]
