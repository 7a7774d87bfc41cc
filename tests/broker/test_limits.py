"""Limits by address, by client and in all."""

from __future__ import annotations

from coterie.broker.limits import ADDRESSES_MAX, Bucket, Gate, PerAddress, address_of
from coterie.broker.settings import LimitsSection
from coterie.mqtt.reasons import Reason

HERE, THERE = "192.0.2.1", "192.0.2.2"


def test_a_bucket_holds_a_burst_and_fills_at_its_rate() -> None:
    bucket = Bucket(2.0, 3.0, 0.0)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(0.5) for _ in range(2)] == [True, False]
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(200.0, 4)
    assert bucket.take(200.0, 3)
    assert all(Bucket(0.0, 0.0, 0.0).take(0.0) for _ in range(9))


def test_one_machine_is_one_address() -> None:
    assert address_of(HERE) == address_of(f"::ffff:{HERE}") == HERE
    assert address_of("2001:db8::1") == address_of("2001:db8::dead:beef") != address_of("2001:db8:0:1::1")
    assert address_of("fe80::1%eth0") == address_of("fe80::2")
    assert address_of("") == ""


def test_who_guesses_too_often_is_not_asked_any_more_and_others_are() -> None:
    gate = Gate(LimitsSection(failures_per_s_address=1.0, failures_burst_address=3.0), 0.0)
    for _ in range(3):
        assert gate.connect(HERE, 0.0) is Reason.SUCCESS
        gate.failed(HERE, 0.0)
    assert gate.connect(HERE, 0.0) is Reason.CONNECTION_RATE_EXCEEDED
    assert gate.connect(THERE, 0.0) is Reason.SUCCESS
    assert gate.connect(HERE, 1.0) is Reason.SUCCESS


def test_connects_and_connections() -> None:
    gate = Gate(LimitsSection(connects_per_s_address=1.0, connects_burst_address=2.0), 0.0)
    assert [gate.connect(HERE, 0.0) for _ in range(3)][1:] == [Reason.SUCCESS, Reason.CONNECTION_RATE_EXCEEDED]
    assert gate.connect(THERE, 0.0) is Reason.SUCCESS
    gate = Gate(LimitsSection(connects_per_s=1.0, connects_burst=2.0), 0.0)
    assert [gate.connect(one, 0.0) for one in (HERE, THERE, THERE)][2] is Reason.CONNECTION_RATE_EXCEEDED
    gate = Gate(LimitsSection(connections_address_max=1), 0.0)
    gate.opened(HERE)
    assert gate.connect(HERE, 0.0) is Reason.SUCCESS
    gate.opened(HERE)
    assert gate.connect(HERE, 0.0) is Reason.QUOTA_EXCEEDED
    gate.closed(HERE)
    gate.closed(HERE)
    assert not gate.connected
    gate = Gate(LimitsSection(failures_per_s=1.0, failures_burst=1.0), 0.0)
    assert gate.may_fail(0.0)
    gate.failed(HERE, 0.0)
    assert not gate.may_fail(0.0)
    assert gate.may_fail(1.0)


def test_publishes_are_counted_for_the_client_and_for_all() -> None:
    gate = Gate(LimitsSection(publishes_per_s_client=1.0, publishes_burst_client=5.0, publishes_per_s=1.0,
                              publishes_burst=8.0), 0.0)  # fmt: skip
    ann, bob = gate.new_client(0.0), gate.new_client(0.0)
    assert gate.publish(ann, 5, 0.0)
    assert not gate.publish(ann, 1, 0.0)
    assert not gate.publish(bob, 4, 0.0)  # three are left for all
    assert not Gate(LimitsSection(), 0.0).watches_publishes


def test_addresses_are_not_remembered_without_end() -> None:
    table = PerAddress(1.0, 1.0)
    for number in range(ADDRESSES_MAX + 10):
        assert table.take(str(number), 0.0)
    assert not table.is_empty("0", 0.0)
    assert table.is_empty(str(ADDRESSES_MAX), 0.0)
