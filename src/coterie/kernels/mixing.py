"""Numbers that look random, from numbers that do not."""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel


@kernel
def mix(value: np.uint64) -> np.uint64:
    """The finaliser of splitmix64: every input bit reaches every output bit.

    >>> hex(mix(np.uint64(1)))
    '0x5692161d100b05e5'
    """
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
