"""A simulated disk keeps batches up to some number: all that were safe, after a power cut all that were synced.

What is left of the next one is for the reader to refuse, the one that real files are read by.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker import batches as batch_files
from coterie.broker.batches import DamagedBatchesError
from coterie.broker.carried import encode_carried
from coterie.broker.writes import COPIED_BODIES, LOG, MESSAGES, Between, StoreWrite
from coterie.mqtt.publish import Message
from coterie.sim.world.chance import Chance
from coterie.sim.world.disk import Disk

KEYS = st.integers(0, 6)
WRITES = st.lists(
    st.tuples(st.just(LOG), KEYS, st.none() | st.binary(max_size=2))
    | st.builds(lambda first, more: (LOG, Between(first, first + more), None), KEYS, KEYS),
    max_size=5,
)


def applied(batches: list[list[StoreWrite]]) -> dict[object, bytes]:
    disk = Disk(Chance(0, "other"), True)
    for batch in batches:
        disk.hand_over(batch)
    return dict(disk.tables[LOG])


@given(st.lists(WRITES, max_size=8), st.integers(0, 8), st.booleans(), st.booleans(), st.integers(0, 99))
def test_a_crash_keeps_a_prefix(
    batches: list[list[StoreWrite]], safe: int, is_full: bool, with_power: bool, seed: int
) -> None:
    disk = Disk(Chance(seed, "disk"), is_full)
    safe = min(safe, len(batches))
    for number, batch in enumerate(batches, 1):
        disk.hand_over(list(batch))
        if number <= safe:
            disk.make_safe(number)
    assert dict(disk.tables[LOG]) == applied(batches)
    least = disk.synced if with_power else safe
    assert not is_full or disk.synced == safe
    disk.crash(1, with_power)
    assert least <= disk.handed <= len(batches)
    assert dict(disk.tables[LOG]) == applied(batches[: disk.handed])
    assert disk.between(LOG, 0, 99) == sorted(disk.tables[LOG].items())


def ended(seed: int, with_power: bool) -> tuple[Disk, bool]:
    """A disk with a file of an earlier life and one of this, of which the last batches were not safe yet."""
    disk = Disk(Chance(seed, "disk"), False)
    for number in range(1, 4):
        disk.hand_over([(LOG, number, b"first life")])
        disk.make_safe(number)
    disk.crash(1, False)
    for number in range(disk.handed + 1, disk.handed + 4):
        disk.hand_over([(LOG, number, b"second life"), (LOG, 100 + number, b"more of it")])
    return disk, disk.crash(2, with_power)


def many(seeds: int, with_power: bool) -> None:
    for seed in range(seeds):
        ended(seed, with_power)


def test_a_batch_is_torn_at_any_byte_and_nothing_of_it_counts() -> None:
    torn = 0
    for seed in range(60):
        disk, is_torn = ended(seed, seed % 2 == 0)
        torn += is_torn
        assert sorted(key for key in disk.tables[LOG] if key < 100) == list(range(1, disk.handed + 1))
        assert {key - 100 for key in disk.tables[LOG] if key > 100} == set(range(4, disk.handed + 1))
    assert 10 < torn < 60


def test_a_reader_that_trusts_what_is_torn_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_files.zlib, "crc32", lambda *_: 0)
    with pytest.raises((AssertionError, ValueError)):
        many(60, True)


def test_a_reader_that_forbids_what_a_power_cut_leaves_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = batch_files.read_files
    monkeypatch.setattr(
        "coterie.sim.world.disk.read_files", lambda files, after, boot: real(files, after, b"0".ljust(16, b"\0"))
    )
    with pytest.raises(DamagedBatchesError):
        many(60, True)


def test_a_reader_that_forgets_a_whole_batch_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = batch_files.read_file

    def forgetful(data: bytes) -> batch_files.Found | None:
        found = real(data)
        return found and found._replace(batches=found.batches[:-1])

    monkeypatch.setattr("coterie.broker.batches.read_file", forgetful)
    with pytest.raises(AssertionError):
        many(20, False)


def test_what_a_disk_had_is_dated() -> None:
    disk = Disk(Chance(0, "disk"), False)
    body = encode_carried(7, Message("t", b"x", 1, id=7), 1)
    disk.hand_over([(COPIED_BODIES, 7, body)])
    assert not disk.had(b"x", 0, 100)
    disk.make_safe(1, 50)
    assert disk.had(b"x", 0, 50)
    assert not disk.had(b"x", 0, 49)
    disk.hand_over([(COPIED_BODIES, 8, body)])  # again: it was there before
    while disk.handed:  # until a power cut takes it
        disk.crash(disk.handed, True, 90)
    assert disk.had(b"x", 90, 100)
    assert not disk.had(b"x", 91, 100)


def test_a_disk_knows_what_its_own_node_took_in() -> None:
    disk = Disk(Chance(0, "disk"), False)
    disk.hand_over([(COPIED_BODIES, 7, encode_carried(7, Message("t", b"x", 1, id=7), 1))])
    assert not disk.took_in(b"x")
    disk.hand_over([(MESSAGES, 8, encode_carried(8, Message("t", b"y", 1, id=8), 1))])
    assert disk.took_in(b"y")
