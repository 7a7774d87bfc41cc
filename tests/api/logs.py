"""A small log that is in memory: four groups of clients, each with a taste of its own."""

from __future__ import annotations

from random import Random
from typing import Any

CLIENTS, GROUPS = 80, 4


def rows(seed: int = 1, events: int = 1500) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Subscriptions without times and publications with them."""
    draw = Random(seed)
    subscriptions = [
        {"subscriber": f"u{client:03d}", "topic": f"g{client % GROUPS}/{draw.randrange(10)}"}
        for client in range(CLIENTS)
        for _ in range(4)
    ]
    publications = [
        {
            "publisher": f"u{draw.randrange(CLIENTS):03d}",
            "topic": f"g{draw.randrange(GROUPS)}/{draw.randrange(10)}",
            "time": 1_700_000_000 + 10 * number,
            "bytes": draw.randrange(50, 200),
        }
        for number in range(events)
    ]
    return subscriptions, publications
