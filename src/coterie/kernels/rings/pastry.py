"""Pastry over plain arrays: routing tables of all nodes and the paths they give.

Everywhere: `positions` uint64[n] by node, distinct; `order` int32[n] the nodes by ascending position, `rank` its
inverse; `ascending` is `positions[order]`; a digit has `bits` bits, 64 is a multiple of `bits`; `half` leaves on each
side. `table` int32[n, rows, 2^bits] holds nodes, -1 where a slot is empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.kernels.jit import inlined, kernel
from coterie.kernels.rings.chord import Index, Offset, Words, walked

Table = Index  # three axes


@kernel
def highest_bit(value: np.uint64) -> int:
    """The place of the highest one bit, 0 for the lowest; -1 for 0."""
    place = -1
    for step in (32, 16, 8, 4, 2, 1):
        if value >> np.uint64(step) != 0:
            value >>= np.uint64(step)
            place += step
    return place + 1 if value != 0 else -1


@kernel
def shared_digits(one: np.uint64, other: np.uint64, bits: int) -> int:
    """How many leading digits two identifiers have in common."""
    return (63 - highest_bit(one ^ other)) // bits


@kernel
def table_rows(ascending: Words, bits: int) -> int:
    """Rows any table needs: one more than the longest prefix two nodes share."""
    longest = 0
    for rank in range(len(ascending) - 1):
        longest = max(longest, shared_digits(ascending[rank], ascending[rank + 1], bits) + 1)
    return longest


@kernel
def split_at(ascending: Words, low: int, high: int, bit: int) -> int:
    """In a range of ranks that agree above `bit`: the first rank with that bit set."""
    mask = np.uint64(1) << np.uint64(bit)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] & mask != 0:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def nearest_by_xor(ascending: Words, low: int, high: int, own: np.uint64) -> int:
    """The rank in [low, high) whose position has the smallest exclusive-or with `own`."""
    while high - low > 1:
        bit = highest_bit(ascending[low] ^ ascending[high - 1])
        middle = split_at(ascending, low, high, bit)
        if (own >> np.uint64(bit)) & np.uint64(1) != 0:
            low = middle
        else:
            high = middle
    return low


@kernel
def pastry_tables(ascending: Words, order: Index, rows: int, bits: int) -> Table:
    """Slot (row, digit) of a node: of the nodes sharing `row` digits with it and going on with `digit`, the one with
    the smallest exclusive-or; a choice that depends on nothing but identifiers and favours nobody.
    """
    count = len(ascending)
    width = 1 << bits
    table = np.full((count, rows, width), -1, np.int32)
    for rank in range(count):
        own = ascending[rank]
        low, high = 0, count
        for row in range(rows):
            if high - low <= 1:
                break
            shift = np.uint64(64 - bits * (row + 1))
            own_digit = np.int64((own >> shift) & np.uint64(width - 1))
            next_low, next_high = rank, rank + 1
            start = low
            while start < high:
                digit = np.int64((ascending[start] >> shift) & np.uint64(width - 1))
                end = end_of_digit(ascending, start, high, shift)
                if digit == own_digit:
                    next_low, next_high = start, end
                else:
                    table[order[rank], row, digit] = order[nearest_by_xor(ascending, start, end, own)]
                start = end
            low, high = next_low, next_high
    return table


@kernel
def end_of_digit(ascending: Words, start: int, high: int, shift: np.uint64) -> int:
    """The first rank after `start`, up to `high`, whose position differs from start's above `shift`."""
    prefix = ascending[start] >> shift
    low = start + 1
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] >> shift == prefix:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def around(one: np.uint64, other: np.uint64) -> np.uint64:
    """Distance the shorter way."""
    return min(one - other, other - one)


@kernel
def is_among_leaves(ascending: Words, rank_of: int, half: int, key: np.uint64) -> bool:
    """Whether the key lies between the outermost leaves; with fewer than 2 * half others, everything does."""
    count = len(ascending)
    if count - 1 < 2 * half:
        return True
    left = ascending[(rank_of - half) % count]
    right = ascending[(rank_of + half) % count]
    is_inside: bool = key - left <= right - left
    return is_inside


class Prefixes(NamedTuple):
    """What Pastry's paths need."""

    positions: Words
    ascending: Words
    order: Index
    rank: Index
    table: Table
    bits: int
    half: int


@kernel
def closest_known(prefixes: Prefixes, node: int, key: np.uint64) -> int:
    """The rare case: of all leaves and entries that share at least as many digits with the key as `node` does, the
    numerically closest to the key (the clockwise one of two); `node` itself if none is closer."""
    positions, _, order, rank, table, bits, half = prefixes
    shared = shared_digits(positions[node], key, bits)
    best = node
    count = len(order)
    for step in range(-half, half + 1):
        best = closer_of(positions, bits, shared, key, best, order[(rank[node] + step) % count])
    for row in range(shared, table.shape[1]):
        for digit in range(table.shape[2]):
            if table[node, row, digit] >= 0:
                best = closer_of(positions, bits, shared, key, best, table[node, row, digit])
    return best


@kernel
def closer_of(positions: Words, bits: int, shared: int, key: np.uint64, best: int, other: int) -> int:
    """The closer of two nodes to the key, `other` only if it shares enough digits."""
    if shared_digits(positions[other], key, bits) < shared:
        return best
    far, near = around(positions[best], key), around(positions[other], key)
    if near < far or (near == far and positions[other] - key < positions[best] - key):
        return other
    return best


@inlined
def pastry_hop(prefixes: Prefixes, node: int, key: np.uint64, owner: int) -> int:
    """The next node on the way from `node`, which is not the owner, to the key's owner (Pastry, figure 3)."""
    bits, table = prefixes.bits, prefixes.table
    if is_among_leaves(prefixes.ascending, prefixes.rank[node], prefixes.half, key):
        return owner  # the leaves are all nodes thereabouts, so the closest of them is the owner
    row = shared_digits(prefixes.positions[node], key, bits)
    if row < table.shape[1]:
        digit = np.int64((key >> np.uint64(64 - bits * (row + 1))) & np.uint64((1 << bits) - 1))
        entry: int = table[node, row, digit]
        if entry >= 0:
            return entry
    return closest_known(prefixes, node, key)


@kernel
def pastry_paths(prefixes: Prefixes, starts: Index, keys: Words, owners: Index) -> tuple[Offset, Index]:
    """Pastry's paths."""
    return walked(pastry_hop, prefixes, starts, keys, owners)
