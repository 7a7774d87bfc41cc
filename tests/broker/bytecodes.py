"""How many bytecodes a message runs in a broker, by the long way and the straight one.

`python -m tests.broker.bytecodes` prints them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from coterie.broker.facts import Bytes
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from tests.broker.driving import Driven

ROUNDS = 4  # the first ones find routes and lanes, the last is counted


def counted(run: Callable[[], object]) -> int:
    """The bytecodes of ours that `run` executes; the tests' driver does not count."""
    ran = 0

    def watch(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal ran
        if not frame.f_globals["__name__"].startswith("coterie."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        ran += event == "opcode"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        run()
    finally:
        sys.settrace(before)
    return ran


def message(qos: int, is_straight: bool) -> tuple[int, int]:
    """For a PUBLISH to one subscriber, and for the subscriber's PUBACK."""
    driven = Driven()
    publisher, subscriber = (driven.client(name, version=p.MQTT_3) for name in ("publisher", "subscriber"))
    driven.say(subscriber, p.Subscribe(1, (p.Subscription("a/b", qos),)))

    def heard(line: int, packet: p.Packet, is_last: bool) -> int:
        data = encode_packet(packet, p.MQTT_3)
        went = False

        def take() -> None:
            nonlocal went
            went = is_straight and driven.passes(line, data)
            if not went:
                driven.take(Bytes(line, data))

        ran = counted(take)
        assert went or not (is_straight and is_last), "it did not go straight"
        driven.wait(0.001)
        return ran

    published = acknowledged = 0
    for number in range(1, ROUNDS + 1):
        is_last = number == ROUNDS
        published = heard(publisher, p.Publish("a/b", bytes(64), qos, packet_id=number if qos else 0), is_last)
        if qos:
            acknowledged = heard(subscriber, p.PubAck(number), is_last)
    return published, acknowledged


if __name__ == "__main__":
    print("                long  straight")  # noqa: T201
    for qos in (0, 1):
        for what, long, straight in zip(("PUBLISH", "PUBACK"), message(qos, False), message(qos, True), strict=True):
            if long:
                print(f"QoS {qos} {what:8s}{long:7,}{straight:10,}")  # noqa: T201
