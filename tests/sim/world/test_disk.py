"""A simulated disk keeps batches up to some number: all that were safe, after a power cut all that were synced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.writes import LOG, Between, StoreWrite
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
