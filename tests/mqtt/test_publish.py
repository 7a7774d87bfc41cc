"""The inline scan and the shared encoding give exactly what the full codec gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.properties import Properties
from coterie.mqtt.publish import Message, PublishRun, SharedPublish, message_of, scan_publishes
from coterie.mqtt.stream import Decoder
from coterie.mqtt.topics import TopicNames
from tests.mqtt.conversation import Network
from tests.mqtt.packet_strategies import packets, publishes, topics

VERSIONS = [p.MQTT_3, p.MQTT_5]


def scanned(
    raw: bytes, version: int, names: TopicNames, quota: int = 65_535
) -> tuple[int, int, list[p.Publish], list[p.Publish | PublishRun]]:
    """(where it ends, the quota left, the messages one by one, as they were found)."""
    out: list[p.Publish | PublishRun] = []
    pos, left = scan_publishes(raw, 0, version, names, out, quota=quota)
    single = [one for found in out for one in (found.publishes() if isinstance(found, PublishRun) else [found])]
    return pos, left, single, out


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=100)
def test_the_scan_agrees_with_the_codec_and_stops_at_what_it_leaves(version: int, data: st.DataObject) -> None:
    plain = st.builds(p.Publish, topics, st.binary(max_size=300), st.just(0))
    acknowledged = st.builds(p.Publish, topics, st.binary(max_size=300), st.just(1), packet_id=st.integers(1, 65_535))
    sent = data.draw(st.lists(st.one_of(plain, acknowledged, packets(version)), max_size=6))
    raw = b"".join(encode_packet(packet, version) for packet in sent)
    names = TopicNames()
    for packet in sent:
        if isinstance(packet, p.Publish):
            names.add(packet.topic.encode())
    pos, quota, out, found = scanned(raw, version, names, quota=3)
    assert out == sent[: len(out)]
    assert b"".join(encode_packet(packet, version) for packet in sent[: len(out)]) == raw[:pos]
    assert quota == 3 - sum(packet.qos for packet in out)
    for run in found:
        if isinstance(run, PublishRun):
            assert run.frames == b"".join(encode_packet(packet, version) for packet in run.publishes())
            assert run.payload_bytes == len(run.publishes()[0].payload)
    rest = sent[len(out) :]
    if rest and isinstance(rest[0], p.Publish):
        first = rest[0]
        is_common = not first.retain and not first.dup and first.properties == Properties()
        assert first.qos == 2 or not is_common or (first.qos == 1 and quota == 0)


@pytest.mark.parametrize("version", VERSIONS)
@given(raw=st.binary(max_size=60), length=st.integers(0, 255))
@settings(max_examples=300)
def test_the_scan_never_takes_what_the_codec_refuses(version: int, raw: bytes, length: int) -> None:
    names = TopicNames()
    for name in (b"a", b"b/c", b"\xc3\xa9"):
        names.add(name)
    stream = b"\x32" + bytes((length,)) + b"\x00\x01a" + raw + b"\x30\x05\x00\x01a\x00x" * 3
    decoder = Decoder(version)
    decoder.feed(stream)
    for packet in scanned(stream, version, names)[2]:
        assert decoder.next_packet() == packet


@pytest.mark.parametrize("version", VERSIONS)
def test_what_comes_in_a_row_on_one_topic_is_one_run_whatever_its_sizes(version: int) -> None:
    names = TopicNames()
    for name in (b"a", b"ab", b"\xc3\xa9"):
        names.add(name)
    sent = [
        p.Publish(topic, bytes(size)) for topic in ("a", "ab", "\xe9", "a") for size in (0, 5, 5, 5, 200, 200, 10_000)
    ]
    raw = b"".join(encode_packet(packet, version) for packet in sent)
    pos, _, single, found = scanned(raw, version, names)
    assert (pos, single) == (len(raw), sent)
    assert [one.count for one in found if isinstance(one, PublishRun)] == [7, 7, 7, 7]
    for end in range(len(raw) - 45, len(raw)):  # cut anywhere: whole packets only
        pos, _, single, _ = scanned(raw[:end], version, names)
        assert single == sent[: len(single)]
        assert raw[:pos] == b"".join(encode_packet(packet, version) for packet in single)


def test_a_packet_cut_off_or_too_large_is_left() -> None:
    names = TopicNames()
    names.add(b"topic")
    whole = encode_packet(p.Publish("topic", b"payload"), p.MQTT_5)
    for size in range(len(whole)):
        out: list[p.Publish | PublishRun] = []
        assert scan_publishes(whole[:size], 0, p.MQTT_5, names, out) == (0, 65_535)
        assert out == []
    assert scan_publishes(whole, 0, p.MQTT_5, names, [], packet_bytes_max=len(whole) - 1)[0] == 0
    assert scan_publishes(whole, 0, p.MQTT_5, names, [], packet_bytes_max=len(whole))[0] == len(whole)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=100)
def test_the_shared_encoding_is_the_codecs(version: int, data: st.DataObject) -> None:
    """Whatever differs between receivers, the bytes mean the packet that the codec would have written."""
    packet = data.draw(publishes(version))
    shared = SharedPublish(message_of(packet, now_s=100.0))
    properties = shared.message.properties
    qos, retain, dup = data.draw(st.integers(0, 2)), data.draw(st.booleans()), data.draw(st.booleans())
    packet_id = data.draw(st.integers(1, 65_535)) if qos else 0
    expected = p.Publish(packet.topic, packet.payload, qos, retain, False, packet_id, properties)
    if qos:
        head, tail = shared.split(version, qos, retain, 100.0)
        plain = head + packet_id.to_bytes(2, "big") + tail
    else:
        plain = shared.frame(version, retain, 100.0)
    assert decoded(plain, version) == expected
    if version < p.MQTT_5:
        assert plain == encode_packet(expected, version)
        return
    alias, identifiers = data.draw(st.integers(1, 9)), tuple(data.draw(st.lists(st.integers(1, 9), max_size=2)))
    special = shared.tailored(
        version, qos, retain, dup=dup and qos > 0, packet_id=packet_id, alias=alias, with_topic=False,
        identifiers=identifiers, now_s=100.0,
    )  # fmt: skip
    found = decoded(special, version)
    assert (found.topic, found.dup, found.payload) == ("", dup and qos > 0, packet.payload)
    assert found.properties.topic_alias == alias
    assert found.properties.subscription_identifiers == identifiers
    assert found.properties.user_properties == properties.user_properties


def decoded(raw: bytes, version: int) -> p.Publish:
    decoder = Decoder(version)
    decoder.feed(raw)
    packet = decoder.next_packet()
    assert isinstance(packet, p.Publish)
    assert decoder.buffered_bytes == 0
    return packet


def test_encodings_are_made_once() -> None:
    shared = SharedPublish(Message("a/b", b"x" * 100, qos=1))
    assert shared.frame(4, False, 0.0) is shared.frame(4, False, 1.0)
    assert shared.split(5, 1, False, 0.0) is shared.split(5, 1, False, 1.0)


def test_expiry_counts_down_on_delivery() -> None:
    packet = p.Publish("a", b"x", 1, packet_id=1, properties=Properties(message_expiry_s=10))
    shared = SharedPublish(message_of(packet, now_s=1000.0))
    for now_s, left_s in ((1000.0, 10), (1003.2, 7), (1009.9, 1), (1042.0, 0)):
        head, tail = shared.split(5, 1, False, now_s)
        assert decoded(head + b"\0\1" + tail, 5).properties.message_expiry_s == left_s
        assert decoded(shared.frame(5, False, now_s), 5).properties.message_expiry_s == left_s


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=150)
def test_a_connection_finds_the_same_messages_however_its_stream_is_cut(version: int, data: st.DataObject) -> None:
    """Whole packets, packets in a row, halves: the short ways of `receive` never change what was said."""
    name, body = st.sampled_from(["a", "a/b"]), st.sampled_from([b"", b"x", b"y", b"\0\0\0", bytes(130)])
    plain = st.builds(p.Publish, name, body)
    acknowledged = st.builds(p.Publish, name, body, st.just(1), packet_id=st.integers(1, 3))
    retained = st.builds(p.Publish, name, body, retain=st.just(True))
    sent = data.draw(st.lists(st.one_of(plain, plain, acknowledged, acknowledged, retained), max_size=12))
    broker = Network().broker
    connection = broker.open(0.0)
    broker.serve(connection, encode_packet(p.Connect("c", version), version), 0.0)
    found: list[p.Publish] = []
    stream = [encode_packet(packet, version) for packet in sent]
    while stream:
        chunk = b"".join(stream[: (count := data.draw(st.integers(1, 3)))])
        del stream[:count]
        cut = data.draw(st.one_of(st.none(), st.integers(0, len(chunk))))
        for piece in [chunk] if cut is None else [chunk[:cut], chunk[cut:]]:
            for fact in connection.receive(piece, 0.0):
                assert isinstance(fact, p.Publish | PublishRun)
                found += fact.publishes() if isinstance(fact, PublishRun) else [fact]
    assert found == sent
