"""How an event published outside of its topic finds a member: a depth-first walk over the overlay's links.

The walk is a function of the links and the interests of neighbours alone, so the bulk form and the nodes take the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

WALK_MAX = 64  # hops before a node uses its interest view instead


def next_hop(trail: Sequence[int], links: Iterable[int], is_member: Callable[[int], bool]) -> int | None:
    """From the last node of the trail: a member, else a node not yet visited (lowest numbers first), else back."""
    ahead = [peer for peer in links if peer not in trail]
    members = [peer for peer in ahead if is_member(peer)]
    if members or ahead:
        return min(members or ahead)
    way = unwound(trail)
    return way[-2] if len(way) > 1 else None


def unwound(trail: Iterable[int]) -> list[int]:
    """The trail without its detours: where it came back to a node, what lay between is gone."""
    way: list[int] = []
    for node in trail:
        if node in way:
            del way[way.index(node) + 1 :]
        else:
            way.append(node)
    return way
