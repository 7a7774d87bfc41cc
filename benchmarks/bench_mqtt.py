"""What the MQTT hot path gains over the plain way: inline parse, cached lookup, shared encoding, whole broker turns.

Run `python benchmarks/bench_mqtt.py` (add `--json` for a machine). Each row is the best of several repetitions of both
ways on the same input in the same process, in CPU time; the ratio is what counts, the times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from time import process_time

from coterie.broker.commands import Setup
from coterie.broker.facts import Booted, Bytes, Opened
from coterie.broker.machine import Broker
from coterie.broker.orders import Write
from coterie.broker.settings import JournalSection
from coterie.broker.writes import Key, Saved
from coterie.model.plan import Slice
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.publish import Message, PublishRun, SharedPublish, scan_publishes
from coterie.mqtt.stream import Decoder
from coterie.mqtt.topics import TopicNames, filter_matches
from coterie.systems import system_named

NOW_S = 1_760_000_000.0
COUNT = 1000
PAYLOAD = b"x" * 64


def best_s(run: Callable[[], object], repeat: int = 7) -> float:
    found = float("inf")
    for _ in range(repeat):
        start_s = process_time()
        run()
        found = min(found, process_time() - start_s)
    return found


def parse(version: int) -> tuple[str, float, float]:
    raw = b"".join(encode_packet(p.Publish(f"site/{n % 50}/temp", PAYLOAD), version) for n in range(COUNT))
    names = TopicNames()
    for number in range(50):
        names.add(b"site/%d/temp" % number)

    def full() -> None:
        decoder = Decoder(version)
        decoder.feed(raw)
        while decoder.next_packet() is not None:
            pass

    def inline() -> None:
        out: list[p.Publish | PublishRun] = []
        assert scan_publishes(raw, 0, version, names, out)[0] == len(raw)

    name = "3.1.1" if version == p.MQTT_3 else "5"
    return f"parse PUBLISH {name}: inline vs codec", best_s(inline) / COUNT, best_s(full) / COUNT


def lookup() -> tuple[str, float, float]:
    filters = [f"site/{n}/+" for n in range(400)] + [f"+/{n}/temp" for n in range(400)] + ["#", "site/#"]
    topics = [f"site/{n % 400}/temp" for n in range(COUNT)]
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number, one in enumerate(filters):
        index.subscribe(number, p.Subscription(one))

    def cached() -> None:
        for topic in topics:
            index.matches(topic)

    def naive() -> None:
        for topic in topics[:10]:
            [one for one in filters if filter_matches(one, topic)]

    return "receivers of a topic, 802 filters: cached vs one by one", best_s(cached) / COUNT, best_s(naive) / 10


def lookup_cold() -> tuple[str, float, float]:
    filters = [f"site/{n}/+" for n in range(400)] + [f"+/{n}/temp" for n in range(400)] + ["#", "site/#"]
    topics = [f"site/{n % 400}/temp" for n in range(COUNT)]
    index: SubscriptionIndex[int] = SubscriptionIndex(topic_count_max=1)
    for number, one in enumerate(filters):
        index.subscribe(number, p.Subscription(one))

    def trie() -> None:
        for topic in topics:
            index.matches(topic)

    def naive() -> None:
        for topic in topics[:10]:
            [one for one in filters if filter_matches(one, topic)]

    return "receivers of a topic, 802 filters: trie vs one by one", best_s(trie) / COUNT, best_s(naive) / 10


def encode(qos: int) -> tuple[str, float, float]:
    message = Message("site/17/temp", PAYLOAD, qos)

    def shared() -> None:
        once = SharedPublish(message)
        for packet_id in range(1, COUNT + 1):
            if qos:
                head, tail = once.split(p.MQTT_5, qos, False, 0.0)
                head + packet_id.to_bytes(2, "big") + tail
            else:
                once.frame(p.MQTT_5, False, 0.0)

    def each() -> None:
        for packet_id in range(1, COUNT + 1):
            encode_packet(p.Publish(message.topic, message.payload, qos, packet_id=packet_id if qos else 0))

    return f"encode for 1000 receivers, QoS {qos}: shared vs codec", best_s(shared) / COUNT, best_s(each) / COUNT


class NoShelf:
    """Nothing is kept by a node alone whose sessions end with their connections."""

    def get(self, table: str, key: Key) -> bytes | None:
        return None

    def between(self, *rest: object, **more: object) -> list[tuple[int, bytes]]:
        return []

    def bytes_in(self, table: str) -> int:
        return 0


class Fleet:
    """A broker with publishers and subscribers in memory; `turn_s` times what a node does with one chunk."""

    def __init__(self, publishers: int, subscribers: int, qos: int) -> None:
        self.qos = qos
        self.broker = Broker(
            Setup(
                node=0, name="n", system_named=system_named, slice=Slice(version=0, system="flooding", node=0),
                journal=JournalSection(enabled=False),
                options=ServerOptions(receive_maximum=65_535, inflight_count_max=65_535, queue_count_max=1 << 20),
            ),
            NoShelf(),
        )  # fmt: skip
        self.broker.step(Booted(1, Saved()), NOW_S)
        self.publishers = [self._connect(n + 1, f"p{n}") for n in range(publishers)]
        self.subscribers = [self._connect(publishers + n + 1, f"s{n}") for n in range(subscribers)]
        for line in self.subscribers:
            self._say(line, encode_packet(p.Subscribe(1, (p.Subscription("site/+/temp", qos),))))
        self.broker.end_turn(NOW_S)
        packets = [p.Publish("site/1/temp", PAYLOAD, qos, packet_id=n + 1 if qos else 0) for n in range(100)]
        self.chunk = b"".join(encode_packet(one) for one in packets)

    def _say(self, line: int, data: bytes) -> None:
        self.broker.step(Bytes(line, data), NOW_S)

    def _connect(self, line: int, client_id: str) -> int:
        self.broker.step(Opened(line), NOW_S)
        self._say(line, encode_packet(p.Connect(client_id)))
        return line

    def turn_s(self) -> float:
        """CPU seconds of one turn: chunks in, output joined, and at QoS 1 the subscribers' answers taken."""
        start_s = process_time()
        for line in self.publishers:
            self._say(line, self.chunk)
        for order in self.broker.end_turn(NOW_S):
            if type(order) is Write:
                b"".join(order.chunks)
        spent_s = process_time() - start_s
        if not self.qos:
            return spent_s
        sessions = [self.broker.clients.lines[line].connection.session for line in self.subscribers]
        answers = [b"".join(b"\x40\x02" + n.to_bytes(2, "big") for n in one._inflight) for one in sessions if one]
        start_s = process_time()
        for line, raw in zip(self.subscribers, answers, strict=True):
            self._say(line, raw)
        return spent_s + process_time() - start_s

    @property
    def deliveries(self) -> int:
        return 100 * len(self.publishers) * len(self.subscribers)


def turns(publishers: int, subscribers: int, qos: int) -> tuple[str, float, float]:
    """Against the same deliveries with everything decoded, matched and encoded one by one (QoS 0, no state at all)."""
    fleet = Fleet(publishers, subscribers, qos)

    def plain() -> None:
        for _ in fleet.publishers:
            decoder = Decoder(p.MQTT_5)
            decoder.feed(fleet.chunk)
            while isinstance(packet := decoder.next_packet(), p.Publish):
                for _ in fleet.subscribers:
                    if filter_matches("site/+/temp", packet.topic):
                        encode_packet(packet)

    name = f"broker turn {publishers}:{subscribers} QoS {qos}, per delivery: ours vs plain codec"
    return name, min(fleet.turn_s() for _ in range(8)) / fleet.deliveries, best_s(plain) / fleet.deliveries


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="print the rows as JSON")
    wants_json = arguments.parse_args().json
    rows = [parse(p.MQTT_3), parse(p.MQTT_5), lookup(), lookup_cold(), encode(0), encode(1)]
    rows += [turns(*shape, qos) for qos in (0, 1) for shape in ((1, 1), (1, 100), (100, 1))]
    if wants_json:
        table = [{"what": name, "ours_us": ours * 1e6, "baseline_us": base * 1e6, "ratio": base / ours}
                 for name, ours, base in rows]  # fmt: skip
        json.dump(table, sys.stdout, indent=1)
        return
    print(f"{'':75} {'ours us':>8} {'base us':>8} {'ratio':>6}")
    for name, ours, base in rows:
        print(f"{name:75} {ours * 1e6:8.3f} {base * 1e6:8.3f} {base / ours:6.1f}")


if __name__ == "__main__":
    main()
