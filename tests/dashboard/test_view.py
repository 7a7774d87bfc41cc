"""The picture behind the web page, from documents that nodes would give."""

from __future__ import annotations

from collections import Counter

import pytest

from coterie.dashboard.rates import rates
from coterie.dashboard.view import LISTED, NodeSays, picture
from coterie.live.overview import SAMPLE, sample_of


def totals(**values: float) -> dict[str, float]:
    names = ("inbound", "wanted", "relayed", "filtered", "duplicate")
    zero = {f"copies_{kind}_total": 0.0 for kind in names}
    zero |= {f"{name}_total": 0.0 for name in ("messages_in", "messages_out", "driver_messages", "cpu_seconds")}
    zero |= {"sent_event_total": 0.0, "sent_inbound_total": 0.0, "sent_overlay_total": 0.0, "link_shed_total": 0.0}
    gauges = ("clients", "subscriptions", "links", "queued_messages", "shed_messages", "behind")
    zero |= dict.fromkeys((*gauges, "memory_bytes_max", "uptime_seconds"), 0.0)
    return zero | values


def says(node: int, peers=(), parents=(), memberships=(), version=1, **values: float) -> NodeSays:
    channels = dict.fromkeys(memberships) | dict(parents)
    sample, below = sample_of(list(channels))
    overview = {
        "node": node,
        "name": f"node-{node}",
        "status": "ok",
        "ready": True,
        "system": "x",
        "plan_version": version,
        "position": None,
        "neighbours": list(peers),
        "connected": list(peers),
        "tree_links": sorted(Counter(parent for _, parent in parents).items()),
        "channel_count": len(channels),
        "sample": [[name, name in memberships, channels[name]] for name in sample],
        "sampled_below": below,
    }
    return NodeSays(overview, totals(**values))


def test_rates_are_differences_per_second_and_events_are_no_control():
    old = totals(messages_in_total=10, copies_wanted_total=5, sent_event_total=100, cpu_seconds_total=1.0)
    new = totals(messages_in_total=30, copies_wanted_total=6, copies_relayed_total=3, sent_event_total=900)
    new |= {"sent_overlay_total": 8.0, "driver_messages_total": 2.0, "cpu_seconds_total": 2.0}
    assert rates(old, new, 2.0) == {"in": 10.0, "out": 0.0, "copies": 2.0, "control": 5.0, "cpu_percent": 50.0}


def test_a_restarted_node_shows_no_negative_rate():
    assert rates(totals(messages_in_total=500), totals(messages_in_total=3), 1.0)["in"] == 0.0


def test_links_and_trees_of_all_nodes_make_one_picture():
    now = [
        says(0, peers=[1, 2], memberships=["a"]),
        says(1, peers=[0], parents=[["a", 0], ["b", 0]], memberships=["a", "b"]),
        says(2, parents=[["a", 0]]),
    ]
    made = picture(now, now, 1.0)
    assert made["links"] == [
        {"ends": [0, 1], "is_connected": True, "trees": 2},
        {"ends": [0, 2], "is_connected": True, "trees": 1},
    ]
    assert made["channels"] == [
        {"name": "a", "members": [0, 1], "edges": [[1, 0], [2, 0]]},
        {"name": "b", "members": [1], "edges": [[1, 0]]},
    ]
    assert (made["system"], made["plan"], made["bill"]) == ("x", 1, [])


def test_a_node_that_does_not_answer_is_down_and_its_links_are_broken():
    before = [says(0, peers=[1]), says(1, peers=[0])]
    cut = NodeSays({**before[0].overview, "connected": []}, before[0].totals)
    made = picture(before, [cut, None], 1.0)
    assert [node["status"] for node in made["nodes"]] == ["ok", "down"]
    assert made["nodes"][1]["name"] == "node-1"
    assert made["links"] == [{"ends": [0, 1], "is_connected": False, "trees": 0}]
    assert picture([None], [None], 1.0)["nodes"] == [{"node": 0, "name": "node-0", "status": "down"}]


def test_while_nodes_change_over_both_plans_are_named():
    now = [says(0, version=1), says(1, version=2)]
    assert picture(now, now, 1.0)["plan"] == "1 and 2"
    assert picture(now, now, 1.0, {"overall": (3.0, 4.0)})["bill"] == [["overall", 3.0, 4.0]]


@pytest.mark.parametrize("ready", [True, False])
def test_a_node_whose_links_are_not_up_is_joining(ready):
    one = says(0)
    made = picture([None], [NodeSays({**one.overview, "ready": ready}, one.totals)], 1.0)
    assert made["nodes"][0]["status"] == ("ok" if ready else "joining")


def test_the_totals_are_those_of_the_network_whatever_a_node_tells_of_its_channels():
    everywhere = [f"site/{number}/temp" for number in range(20_000)]
    now = [says(0, memberships=everywhere[:15_000], clients=3.0), says(1, memberships=everywhere[5_000:], clients=4.0)]
    made = picture(now, now, 1.0)
    assert made["channel_count"] == pytest.approx(20_000, rel=0.2)
    assert not made["is_channel_count_exact"]
    assert made["totals"]["clients"] == 7.0
    for channel in made["channels"]:  # a sample, and each of it with all its members
        number = int(channel["name"].split("/")[1])
        assert channel["members"] == [node for node, has in ((0, number < 15_000), (1, number >= 5_000)) if has]
    assert SAMPLE / 2 < len(made["channels"]) <= 2 * SAMPLE


def test_few_channels_are_counted_exactly():
    now = [says(0, memberships=["a", "b"]), says(1, memberships=["b", "c"])]
    made = picture(now, now, 1.0)
    assert (made["channel_count"], made["is_channel_count_exact"], len(made["channels"])) == (3, True, 3)


def test_a_picture_of_many_channels_lists_those_with_most_members_and_counts_all():
    count, nodes = 150, range(8)
    now = [says(node, memberships=["news", *(f"{node}/{number}" for number in range(count))]) for node in nodes]
    made = picture(now, now, 1.0)
    assert (made["channel_count"], made["is_channel_count_exact"]) == (8 * count + 1, True)
    assert len(made["channels"]) == LISTED
    assert made["channels"][0]["name"] == "news"
