"""The codec against an independent one, against itself, and against garbage."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import mqtt5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import LocalProtocolError, RemoteProtocolError
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import MqttError, Reason, UnsupportedVersion
from coterie.mqtt.stream import Decoder
from tests.mqtt.packet_strategies import packets, publishes, to_oracle

VERSIONS = [p.MQTT_3, p.MQTT_5]


def decode_all(raw: bytes, version: int, cuts: list[int] | None = None) -> tuple[list[p.Packet], MqttError | None]:
    decoder = Decoder(version)
    found: list[p.Packet] = []
    edges = [0, *sorted(cuts or []), len(raw)]
    try:
        for start, stop in pairwise(edges):
            decoder.feed(raw[start:stop])
            while (packet := decoder.next_packet()) is not None:
                found.append(packet)
    except MqttError as error:
        return found, error
    return found, None


@given(packets(p.MQTT_5))
@settings(max_examples=200)
def test_mqtt5_reads_what_we_write(packet: p.Packet) -> None:
    raw = encode_packet(packet)
    read, size = mqtt5.read(memoryview(raw))
    assert size == len(raw)
    assert repr(read) == repr(to_oracle(packet))


@given(packets(p.MQTT_5))
@settings(max_examples=200)
def test_we_read_what_mqtt5_writes(packet: p.Packet) -> None:
    theirs = to_oracle(packet)
    found, error = decode_all(theirs.write(), p.MQTT_5)
    assert error is None
    assert len(found) == 1
    assert type(found[0]) is type(packet)
    assert repr(to_oracle(found[0])) == repr(theirs)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=150)
def test_a_packet_comes_back_as_it_was(version: int, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    assert decode_all(encode_packet(packet, version), version) == ([packet], None)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=40)
def test_any_split_gives_the_same_packets(version: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version), min_size=1, max_size=4))
    raw = b"".join(encode_packet(packet, version) for packet in sent)
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=12))
    assert decode_all(raw, version, cuts) == (sent, None)
    assert decode_all(raw, version, list(range(len(raw)))) == (sent, None)


def mutated(raw: bytes, draw: Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        index = draw.randrange(len(changed) + 1)
        action = draw.choice(("set", "insert", "delete"))
        if action == "insert":
            changed.insert(index, draw.randrange(256))
        elif action == "delete":
            del changed[index : index + 1]
        elif index < len(changed):
            changed[index] = draw.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize("version", [0, *VERSIONS])
@given(data=st.data())
@settings(max_examples=40)
def test_a_mutated_stream_gives_packets_or_a_protocol_error(version: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version or p.MQTT_5), min_size=1, max_size=3))
    raw = b"".join(encode_packet(packet, version or p.MQTT_5) for packet in sent)
    draw = Random(data.draw(st.integers(0, 1 << 32)))
    for _ in range(50):
        wrong = mutated(raw, draw)
        found, error = decode_all(wrong, version)
        again, error_again = decode_all(wrong, version, [draw.randrange(len(wrong) + 1) for _ in range(3)])
        assert found == again
        assert (error and error.code) == (error_again and error_again.code)
        assert error is None or isinstance(error, RemoteProtocolError)


@given(st.binary(max_size=200), st.sampled_from([0, *VERSIONS]))
@settings(max_examples=200)
def test_noise_gives_packets_or_a_protocol_error(raw: bytes, version: int) -> None:
    decode_all(raw, version)


CONNECT_5 = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00"

BAD = [
    ("remaining length of five bytes", 5, b"\xc0\x80\x80\x80\x80\x01", Reason.MALFORMED_PACKET),
    ("overlong remaining length", 5, b"\xc0\x80\x00", Reason.MALFORMED_PACKET),
    ("packet type 0", 5, b"\x00\x00", Reason.MALFORMED_PACKET),
    ("reserved flags of PINGREQ", 4, b"\xc1\x00", Reason.MALFORMED_PACKET),
    ("reserved flags of SUBSCRIBE", 4, b"\x80\x06\x00\x01\x00\x01a\x00", Reason.MALFORMED_PACKET),
    ("bytes behind PINGREQ", 5, b"\xc0\x01\x00", Reason.MALFORMED_PACKET),
    ("AUTH in 3.1.1", 4, b"\xf0\x00", Reason.PROTOCOL_ERROR),
    ("QoS 3", 5, b"\x36\x06\x00\x01a\x00\x01\x00", Reason.MALFORMED_PACKET),
    ("DUP at QoS 0", 5, b"\x38\x04\x00\x01a\x00", Reason.MALFORMED_PACKET),
    ("packet id 0", 5, b"\x32\x06\x00\x01a\x00\x00\x00", Reason.PROTOCOL_ERROR),
    ("wildcard in a topic name", 5, b"\x30\x04\x00\x01#\x00", Reason.TOPIC_NAME_INVALID),
    ("empty topic without alias", 5, b"\x30\x03\x00\x00\x00", Reason.TOPIC_NAME_INVALID),
    ("empty topic in 3.1.1", 4, b"\x30\x02\x00\x00", Reason.TOPIC_NAME_INVALID),
    ("U+0000 in a topic", 5, b"\x30\x04\x00\x01\x00\x00", Reason.MALFORMED_PACKET),
    ("surrogate in a topic", 5, b"\x30\x06\x00\x03\xed\xa0\x80\x00", Reason.MALFORMED_PACKET),
    ("topic longer than the packet", 5, b"\x30\x03\x00\x09a", Reason.MALFORMED_PACKET),
    ("unknown property", 5, b"\x30\x06\x00\x01a\x02\x7f\x00", Reason.MALFORMED_PACKET),
    ("property of another packet", 5, b"\x30\x07\x00\x01a\x03\x21\x00\x01", Reason.MALFORMED_PACKET),
    ("repeated property", 5, b"\x30\x08\x00\x01a\x04\x01\x00\x01\x00", Reason.PROTOCOL_ERROR),
    ("payload format 2", 5, b"\x30\x06\x00\x01a\x02\x01\x02", Reason.PROTOCOL_ERROR),
    ("payload that is not UTF-8", 5, b"\x30\x07\x00\x01a\x02\x01\x01\xff", Reason.PAYLOAD_FORMAT_INVALID),
    ("topic alias 0", 5, b"\x30\x07\x00\x01a\x03\x23\x00\x00", Reason.TOPIC_ALIAS_INVALID),
    ("properties past the end", 5, b"\x30\x04\x00\x01a\x05", Reason.MALFORMED_PACKET),
    ("wildcard in a response topic", 5, b"\x30\x08\x00\x01a\x04\x08\x00\x01+", Reason.PROTOCOL_ERROR),
    ("SUBSCRIBE without filters", 4, b"\x82\x02\x00\x01", Reason.PROTOCOL_ERROR),
    ("UNSUBSCRIBE without filters", 4, b"\xa2\x02\x00\x01", Reason.PROTOCOL_ERROR),
    ("subscription options", 4, b"\x82\x06\x00\x01\x00\x01a\x04", Reason.MALFORMED_PACKET),
    ("retain handling 3", 5, b"\x82\x07\x00\x01\x00\x00\x01a\x30", Reason.PROTOCOL_ERROR),
    ("subscription id 0", 5, b"\x82\x09\x00\x01\x02\x0b\x00\x00\x01a\x00", Reason.PROTOCOL_ERROR),
    ("misplaced wildcard", 4, b"\x82\x08\x00\x01\x00\x03a#b\x00", Reason.TOPIC_FILTER_INVALID),
    ("shared filter without a filter", 5, b"\x82\x0f\x00\x01\x00\x00\x09$share/ab\x00", Reason.TOPIC_FILTER_INVALID),
    ("no-local on a shared filter", 5, b"\x82\x11\x00\x01\x00\x00\x0b$share/ab/c\x04", Reason.PROTOCOL_ERROR),
    ("reason of another packet", 5, b"\x40\x03\x00\x01\x8c", Reason.PROTOCOL_ERROR),
    ("not CONNECT first", 0, b"\xc0\x00", Reason.PROTOCOL_ERROR),
    ("a web browser", 0, b"GET / HTTP/1.1\r\n", Reason.MALFORMED_PACKET),
    ("reserved flag of CONNECT", 0, CONNECT_5.replace(b"\x05\x02", b"\x05\x03"), Reason.MALFORMED_PACKET),
    ("will QoS without a will", 0, CONNECT_5.replace(b"\x05\x02", b"\x05\x0a"), Reason.MALFORMED_PACKET),
    ("wrong protocol name", 0, CONNECT_5.replace(b"MQTT", b"MQTX"), Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("CONNECT cut short inside", 0, CONNECT_5[:-1].replace(b"\x10\x0d", b"\x10\x0c"), Reason.MALFORMED_PACKET),
]  # fmt: skip


@pytest.mark.parametrize(("version", "raw", "code"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_the_specification_forbids(version: int, raw: bytes, code: Reason) -> None:
    found, error = decode_all(raw, version)
    assert found == []
    assert error is not None
    assert error.code == code


def test_the_connect_used_above_is_valid() -> None:
    assert decode_all(CONNECT_5, 0) == ([p.Connect(keep_alive_s=60)], None)


@pytest.mark.parametrize("level", [3, 6])
def test_other_versions_are_named(level: int) -> None:
    _, error = decode_all(CONNECT_5.replace(b"MQTT\x05", b"MQTT" + bytes((level,))), 0)
    assert isinstance(error, UnsupportedVersion)
    assert error.level == level


def test_clients_of_3_1_say_so_by_another_name() -> None:
    connect = p.Connect("old", p.MQTT_31, True, 60)
    raw = encode_packet(connect, p.MQTT_31)
    assert raw[2:11] == b"\0\6MQIsdp\3"
    assert decode_all(raw, 0) == ([connect], None)
    _, error = decode_all(raw.replace(b"MQIsdp\3", b"MQIsdp\4"), 0)
    assert isinstance(error, UnsupportedVersion)
    assert decode_all(b"\x6a\2\0\1", p.MQTT_31) == ([p.PubRel(1)], None)  # sent again
    assert decode_all(b"\x6a\2\0\1", p.MQTT_3)[1] is not None
    assert encode_packet(p.ConnAck(True, 0), p.MQTT_31) == b"\x20\2\0\0"  # no session present: the byte is reserved


def test_a_large_packet_is_refused_before_it_is_buffered() -> None:
    decoder = Decoder(p.MQTT_5, packet_bytes_max=1000)
    decoder.feed(b"\x30\xff\xff\x7f")
    with pytest.raises(MqttError) as caught:
        decoder.next_packet()
    assert caught.value.code == Reason.PACKET_TOO_LARGE
    assert decoder.buffered_bytes == 4


def test_packets_in_front_of_an_error_are_not_lost() -> None:
    found, error = decode_all(b"\xc0\x00\xd0\x00\x00\x00", p.MQTT_5)
    assert found == [p.PingReq(), p.PingResp()]
    assert error is not None


@given(publishes(p.MQTT_5))
def test_3_drops_what_only_5_can_say(packet: p.Publish) -> None:
    found, _ = decode_all(encode_packet(packet, p.MQTT_3), p.MQTT_3)
    assert found == [p.Publish(packet.topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.packet_id)]


WRONG = [
    p.Publish("", b""),
    p.Publish("a", b"", qos=1),
    p.Publish("a", b"", qos=3),
    p.Publish("a\0", b""),
    p.Publish("a" * 65_536, b""),
    p.Publish("a", b"", properties=Properties(receive_maximum=1)),
    p.PubAck(0, 0, Properties(reason_string="x")),
    p.Connect(version=p.MQTT_3, password=b"x"),
    p.ConnAck(properties=Properties(receive_maximum=0)),
]


@pytest.mark.parametrize("packet", WRONG, ids=range(len(WRONG)))
def test_asking_for_the_impossible_is_our_fault(packet: p.Packet) -> None:
    with pytest.raises(LocalProtocolError):
        encode_packet(packet)


def test_auth_does_not_exist_in_3() -> None:
    with pytest.raises(LocalProtocolError):
        encode_packet(p.Auth(), p.MQTT_3)
