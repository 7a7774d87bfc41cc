"""Sets of nodes as bits, and how often each node is in some of them: 64 nodes at a time.

The counts are kept bit by bit: plane i holds bit i of every node's count, so that a set is added, and the highest count
found, by a few operations on words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Words = NDArray[np.uint64]
Sets = NDArray[np.uint64]  # set x word
Planes = NDArray[np.uint64]  # bit of the count x word


@kernel
def bit_count(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def size_of(members: Words) -> int:
    """
    >>> size_of(np.array([7, 1], np.uint64))
    4
    """
    count = 0
    for word in members:
        count += bit_count(word)
    return count


@kernel
def put_in(members: Words, node: int) -> None:
    members[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@kernel
def put_out(members: Words, node: int) -> None:
    members[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))


@kernel
def nth_of(members: Words, nth: int) -> int:
    """The member with this many before it; -1 if there are no more.

    >>> nth_of(np.array([5, 2], np.uint64), 0), nth_of(np.array([5, 2], np.uint64), 2)
    (0, 65)
    """
    for at in range(len(members)):
        word = members[at]
        count = bit_count(word)
        if nth >= count:
            nth -= count
            continue
        for _ in range(nth):
            word &= word - np.uint64(1)
        return 64 * at + bit_count((word & (~word + np.uint64(1))) - np.uint64(1))
    return -1


@kernel
def count_in(planes: Planes, used: int, members: Words, carry: Words) -> int:
    """One more for every member, to counts of `used` bits; returns how many bits they have then."""
    for at in range(len(members)):
        carry[at] = members[at]
    for plane in range(used):
        left = np.uint64(0)
        for at in range(len(members)):
            both = planes[plane, at] & carry[at]
            planes[plane, at] ^= carry[at]
            carry[at] = both
            left |= both
        if left == 0:
            return used
    for at in range(len(members)):
        planes[used, at] = carry[at]
    return used + 1


@kernel
def keep_counted(planes: Planes, used: int, kept: Words) -> None:
    """`kept` becomes whoever was counted at all."""
    kept[:] = 0
    for plane in range(used):
        for at in range(len(kept)):
            kept[at] |= planes[plane, at]


@kernel
def keep_highest(planes: Planes, used: int, kept: Words) -> None:
    """Leaves in `kept` those whose count is the highest among them."""
    for plane in range(used - 1, -1, -1):
        some = np.uint64(0)
        for at in range(len(kept)):
            some |= kept[at] & planes[plane, at]
        if some != 0:
            for at in range(len(kept)):
                kept[at] &= planes[plane, at]
