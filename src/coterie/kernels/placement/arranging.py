"""Which group of clients sits at which node of a given network: those who share much belong near each other.

A quadratic assignment: what two groups share, times how far apart they are, summed over all pairs. Solved by exchanging
the nodes of two groups as long as that shortens the ways, which ends where no exchange does.
"""

from __future__ import annotations

from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import Floats
from coterie.kernels.rings.chord import Index

PASSES_MAX = 50
DUST = 1e-9


@kernel
def exchange_gain(together: Floats, distance: Floats, where: Index, one: int, other: int) -> float:
    """How much shorter all ways get if two groups exchange their nodes."""
    here, there = where[one], where[other]
    gain = 0.0
    for third in range(len(where)):
        if third != one and third != other:
            apart = distance[here, where[third]] - distance[there, where[third]]
            gain += (together[one, third] - together[other, third]) * apart
    return gain


@kernel
def arrange(together: Floats, distance: Floats, region: Index, where: Index) -> int:
    """Exchange until nothing gets shorter; `where` (group -> node) changes in place. Returns how many exchanges.

    Both tables are symmetric; groups stay in their node's region.
    """
    largest = 0.0
    for one in range(len(where)):
        for other in range(len(where)):
            largest = max(largest, together[one, other] * distance[where[one], where[other]])
    exchanges = 0
    for _ in range(PASSES_MAX):
        before = exchanges
        for one in range(len(where)):
            for other in range(one + 1, len(where)):
                if region[where[one]] != region[where[other]]:
                    continue
                if exchange_gain(together, distance, where, one, other) > DUST * largest:
                    where[one], where[other] = where[other], where[one]
                    exchanges += 1
        if exchanges == before:
            break
    return exchanges
