"""Identifiers on a ring of 2^64 points: where nodes and topics sit, and what lies between what.

Clockwise means upwards, and after the largest identifier comes 0. An interval runs clockwise from `start` to `end`;
when the two coincide, half-open intervals go once around and hold everything, the open one everything but that point,
and the closed one that point alone.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

BITS = 64
MASK = (1 << BITS) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(value: int) -> int:
    """A bijection of 64-bit numbers that looks random: distinct inputs stay distinct."""
    mixed = (value + _GOLDEN) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)


def splitmix64_array(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`splitmix64` of every value."""
    mixed = values + np.uint64(_GOLDEN)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def node_position(address: int, seed: int) -> int:
    """Where the node with this address sits; distinct addresses never collide under one seed."""
    return splitmix64((address & MASK) ^ splitmix64(seed & MASK))


def node_positions(count: int, seed: int) -> NDArray[np.uint64]:
    """`node_position` of addresses 0 to count - 1."""
    return splitmix64_array(np.arange(count, dtype=np.uint64) ^ np.uint64(splitmix64(seed & MASK)))


def even_positions(count: int) -> NDArray[np.uint64]:
    """Positions with the same gap everywhere, node 0 at 0."""
    return np.array([(node << BITS) // count for node in range(count)], dtype=np.uint64)


def topic_key(topic: int | str) -> int:
    """The identifier a topic's root is found by."""
    if isinstance(topic, str):
        return int.from_bytes(blake2b(topic.encode(), digest_size=8).digest(), "big")
    return splitmix64(topic & MASK)


def topic_keys(count: int) -> NDArray[np.uint64]:
    """`topic_key` of topics 0 to count - 1."""
    return splitmix64_array(np.arange(count, dtype=np.uint64))


def clockwise(source: int, target: int) -> int:
    """Steps upwards from source to target."""
    return (target - source) & MASK


def ring_distance(one: int, other: int) -> int:
    """Steps between two identifiers the shorter way."""
    upwards = (other - one) & MASK
    return min(upwards, MASK + 1 - upwards)


def is_closer(key: int, one: int, other: int) -> bool:
    """Whether `one` is nearer to the key than `other`; of two at the same distance the clockwise one is nearer."""
    return (ring_distance(key, one), clockwise(key, one)) < (ring_distance(key, other), clockwise(key, other))
