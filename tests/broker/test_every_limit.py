"""Every limit on its own: who goes beyond it is told the right reason, it is counted, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie.broker.settings import LimitsSection, MqttSection
from coterie.mqtt import packets as p
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.reasons import Reason
from tests.broker.driving import Driven, setup

BIG = b"x" * 600


def connects(node: Driven) -> list[int]:
    """Three clients of one address come, one after the other."""
    found = []
    for name in "abc":
        line = node.open("127.0.0.9")
        node.say(line, p.Connect(name))
        answer = node.hear(line)
        found.append(answer[0].reason if answer and isinstance(answer[0], p.ConnAck) else -1)
    return found


def said(*packets: p.Packet, **connect: Any) -> Callable[[Driven], list[int]]:
    """What a client hears of what it says, as reasons."""

    def story(node: Driven) -> list[int]:
        line = node.client("c", **connect)
        node.hear(line)
        node.say(line, *packets)
        reasons: list[int] = []
        for one in node.hear(line):
            reasons += one.reasons if isinstance(one, p.SubAck) else [getattr(one, "reason", -2)]
        return reasons

    return story


def retained(*sizes: int) -> tuple[p.Packet, ...]:
    return tuple(p.Publish(f"r/{n}", b"x" * size, 1, True, packet_id=n + 1) for n, size in enumerate(sizes))


def published(count: int, qos: int = 1) -> tuple[p.Packet, ...]:
    return tuple(p.Publish("a", b"x", qos, packet_id=n + 1) for n in range(count))


def to_somebody_away(node: Driven) -> list[int]:
    """Three large messages for a client that has gone."""
    away = node.client("away", clean_start=False, properties=p.Properties(session_expiry_s=999))
    node.say(away, p.Subscribe(1, (p.Subscription("big", 1),)))
    node.cut(away)
    return said(*(p.Publish("big", BIG, 1, packet_id=n + 1) for n in range(3)))(node)


@dataclass
class Case:
    """`told` is what the client hears; `counted` the total that says so."""

    story: Callable[[Driven], list[int]]
    told: list[int]
    counted: str
    limits: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    mqtt: dict[str, Any] = field(default_factory=dict)


OK, QUOTA, RATE = 0, Reason.QUOTA_EXCEEDED, Reason.CONNECTION_RATE_EXCEEDED
THREE = p.Subscribe(1, tuple(p.Subscription(f"s/{n}", 1) for n in range(3)))
CASES = {
    "mqtt.connections_max": Case(connects, [OK, OK, -1], "connections_refused", mqtt={"connections_max": 3}),
    "limits.connections_address_max": Case(
        connects, [OK, OK, QUOTA], "connects_limited", {"connections_address_max": 2}
    ),
    "limits.connects_per_s": Case(
        connects, [OK, RATE, RATE], "connects_limited", {"connects_per_s": 0.01, "connects_burst": 2.0}
    ),
    "limits.connects_per_s_address": Case(
        connects, [OK, OK, RATE], "connects_limited", {"connects_per_s_address": 0.01, "connects_burst_address": 2.0}
    ),
    "limits.publishes_per_s_client": Case(
        said(*published(3)), [OK, OK, Reason.MESSAGE_RATE_TOO_HIGH], "publishes_limited",
        {"publishes_per_s_client": 0.01, "publishes_burst_client": 2.0},
    ),
    "limits.publishes_per_s": Case(
        said(*published(3)), [OK, OK, Reason.MESSAGE_RATE_TOO_HIGH], "publishes_limited",
        {"publishes_per_s": 0.01, "publishes_burst": 2.0},
    ),
    "mqtt.limits.session_count_max": Case(
        connects, [OK, QUOTA, QUOTA], "connections_refused", options={"session_count_max": 2}
    ),
    "mqtt.limits.subscription_count_max": Case(
        said(THREE), [1, 1, QUOTA], "subscriptions_refused", options={"subscription_count_max": 2}
    ),
    "mqtt.limits.subscription_total_max": Case(
        said(THREE), [1, QUOTA, QUOTA], "subscriptions_refused", options={"subscription_total_max": 2}
    ),
    "mqtt.limits.retained_topics_max": Case(
        said(*retained(1, 1, 1)), [OK, OK, QUOTA], "retained_refused", options={"retained_topics_max": 2}
    ),
    "mqtt.limits.retained_topics_client_max": Case(
        said(*retained(1, 1)), [OK, QUOTA], "retained_refused", options={"retained_topics_client_max": 1}
    ),
    "mqtt.limits.retained_bytes_max": Case(
        said(*retained(600, 600)), [OK, QUOTA], "retained_refused", options={"retained_bytes_max": 1000}
    ),
    "mqtt.limits.stored_bytes_max": Case(
        to_somebody_away, [OK, QUOTA, QUOTA], "stored_refused", options={"stored_bytes_max": 1000}
    ),
    "mqtt.limits.packet_bytes_max": Case(
        said(p.Publish("a", BIG, 1, packet_id=1)), [Reason.PACKET_TOO_LARGE], "protocol_errors",
        options={"packet_bytes_max": 500},
    ),
    "mqtt.limits.receive_maximum": Case(
        said(*published(3, 2)), [Reason.RECEIVE_MAXIMUM_EXCEEDED], "protocol_errors",
        options={"receive_maximum": 2},
    ),
    "mqtt.limits.topic_alias_maximum": Case(
        said(p.Publish("a", b"x", 0, properties=p.Properties(topic_alias=9))), [Reason.TOPIC_ALIAS_INVALID],
        "protocol_errors", options={"topic_alias_maximum": 8},
    ),
    "mqtt.limits.queue_count_max": Case(
        to_somebody_away, [OK, OK, QUOTA], "stored_refused", options={"queue_count_max": 2, "shed": "nothing"}
    ),
    "mqtt.limits.queue_bytes_max": Case(
        to_somebody_away, [OK, OK, QUOTA], "stored_refused", options={"queue_bytes_max": 1200, "shed": "nothing"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_told_and_counted(name: str) -> None:
    case = CASES[name]
    node = Driven(
        setup(limits=LimitsSection(**case.limits), options=ServerOptions(**case.options), mqtt=MqttSection(**case.mqtt))
    )
    other = node.client("other")
    node.say(other, p.Subscribe(1, (p.Subscription("calm", 0),)))
    node.hear(other)
    assert case.story(node) == case.told
    assert node.broker.counts.totals()[case.counted] >= 1
    node.say(other, p.PingReq())
    assert node.hear(other) == [p.PingResp()]
