"""A bridge between two brokers in memory: acknowledged on one side means acknowledged on the other, and no circles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.mqtt.bridge import MARK, Bridge, BridgeCounts, BridgeRule, check_rules
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_5, ConnAck, Connect, PubAck, Publish, SubAck, Subscribe
from coterie.mqtt.properties import Properties
from coterie.mqtt.stream import Decoder
from coterie.mqtt.topics import filter_matches, filters_overlap

BOTH = (BridgeRule("a/#", True, True),)


class Side:
    """What one broker hears of the bridge and says to it."""

    def __init__(self, bridge: Bridge, name: str) -> None:
        self._client = getattr(bridge, name).client
        self._take = getattr(bridge, f"from_{name}")
        self._decoder = Decoder(MQTT_5)

    def say(self, packet: object) -> bool:
        told: bool = self._take(encode_packet(packet, MQTT_5), 0.0)  # type: ignore[arg-type]
        return told

    def heard(self) -> list[object]:
        self._decoder.feed(b"".join(self._client.output))
        self._client.output.clear()
        packets = []
        while (packet := self._decoder.next_packet()) is not None:
            packets.append(packet)
        return packets


def bridged(rules: tuple[BridgeRule, ...] = BOTH) -> tuple[Bridge, Side, Side]:
    bridge = Bridge("network ours", "old:1883", rules, Connect("near"), Connect("far"), BridgeCounts())
    near, far = Side(bridge, "near"), Side(bridge, "far")
    bridge.start(0.0)
    assert [type(one) for one in far.heard()] == [Connect]
    assert near.heard() == []  # nothing is asked of our own node until the other broker is there
    far.say(ConnAck(False))
    assert [type(one) for one in far.heard()] == ([Subscribe] if any(one.is_in for one in rules) else [])
    assert [type(one) for one in near.heard()] == [Connect]
    near.say(ConnAck(False))
    near.heard()
    assert bridge.is_up
    return bridge, near, far


def test_a_message_is_acknowledged_when_the_other_side_has_it() -> None:
    _, near, far = bridged()
    far.say(Publish("a/b", b"1", 1, packet_id=7))
    (passed,) = near.heard()
    assert isinstance(passed, Publish)
    assert (passed.topic, passed.payload, passed.qos) == ("a/b", b"1", 1)
    assert far.heard() == []
    near.say(PubAck(passed.packet_id))
    assert far.heard() == [PubAck(7)]


def test_names_change_with_the_prefixes_both_ways() -> None:
    _, near, far = bridged((BridgeRule("+/x", True, True, local="site/", remote="old/"),))
    far.say(Publish("old/b/x", b""))
    near.say(Publish("site/c/x", b""))
    assert [one.topic for one in near.heard() if isinstance(one, Publish)] == ["site/b/x"]
    assert [one.topic for one in far.heard() if isinstance(one, Publish)] == ["old/c/x"]


def test_what_no_rule_lets_through_is_acknowledged_and_goes_no_further() -> None:
    bridge, near, far = bridged((BridgeRule("a/#", True, False),))
    near.say(Publish("a/b", b"", 1, packet_id=3))  # an older configuration's subscription
    assert near.heard() == [PubAck(3)]
    assert far.heard() == []
    assert (bridge.passed.given, bridge.passed.loops) == (0, 0)


def test_a_second_bridge_does_not_take_back_what_the_first_gave() -> None:
    bridge, near, far = bridged()
    near.say(Publish("a/b", b""))
    (given,) = far.heard()
    assert isinstance(given, Publish)
    far.say(given)  # as it would reach another bridge of this network
    assert near.heard() == []
    far.say(Publish("a/b", b""))
    (taken,) = near.heard()
    assert isinstance(taken, Publish)
    assert taken.properties.user_properties == ((MARK, "old:1883"),)
    near.say(taken)
    assert far.heard() == []
    assert bridge.passed.loops == 2


def test_what_a_message_says_of_itself_goes_along() -> None:
    _, near, far = bridged()
    said = Properties(content_type="text", message_expiry_s=9, correlation_data=b"7", user_properties=(("k", "v"),))
    far.say(Publish("a/b", b"", 0, True, properties=said))
    (taken,) = near.heard()
    assert isinstance(taken, Publish)
    assert taken.retain
    kept = taken.properties
    assert (kept.content_type, kept.message_expiry_s, kept.correlation_data) == ("text", 9, b"7")
    assert kept.user_properties[0] == ("k", "v")


def test_a_refused_subscription_is_told() -> None:
    bridge, _, far = bridged()
    far.say(SubAck(1, (0x87,)))
    assert bridge.trouble == "the broker at old:1883 does not let it subscribe to a/#"


def test_without_marks_in_and_out_must_not_meet() -> None:
    with pytest.raises(ConfigError, match="would come back"):
        check_rules("old", (BridgeRule("a/#", True, False), BridgeRule("a/+", False, True)), 4)
    check_rules("old", (BridgeRule("a/#", True, False), BridgeRule("a/+", False, True, remote="ours/")), 4)
    check_rules("old", BOTH, MQTT_5)
    with pytest.raises(ConfigError, match="a topic filter"):
        check_rules("old", (BridgeRule("a/#/b", True, False),), MQTT_5)


LEVELS = st.lists(st.sampled_from(["a", "b", "+", "$x", ""]), min_size=1, max_size=3)
FILTERS = st.builds(lambda levels, many: "/".join(levels + ["#"] * many), LEVELS, st.booleans()) | st.just("#")
TOPICS = [
    "/".join(levels)
    for first in ("a", "b", "$x", "")
    for levels in (
        [first],
        *([first, s] for s in ("a", "b", "")),
        *([first, s, t] for s in ("a", "") for t in ("a", "b")),
    )
]


@given(FILTERS, FILTERS)
def test_filters_that_match_a_topic_together_overlap(one: str, other: str) -> None:
    if any(filter_matches(one, topic) and filter_matches(other, topic) for topic in TOPICS):
        assert filters_overlap(one, other)
    assert filters_overlap(one, other) == filters_overlap(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("a/b", "a/c"), ("a", "a/+"), ("$SYS/#", "#"), ("+/x", "$SYS/x"), ("a/+/c", "a/b/d")]
)
def test_filters_that_have_nothing_in_common(one: str, other: str) -> None:
    assert not filters_overlap(one, other)
