"""A batch as lines of the journal (docs/JOURNAL.md). What we add to the format: `seen` and `estimated`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from coterie.fleets.observe.gathering import Gathering
from coterie.fleets.observe.journalstore import encode_line
from coterie.pipeline.histories import Wished


def render(gathering: Gathering, wishes: Sequence[Wished]) -> dict[str, list[bytes]]:
    """Lines by broker, each broker's by time."""
    timed: dict[str, list[tuple[int, int, bytes]]] = {}

    def add(node: str, t_us: int, rank: int, kind: str, **fields: object) -> None:
        line: dict[str, Any] = {"t": t_us / 1e6, "node": node, "kind": kind, **fields}
        timed.setdefault(node, []).append((t_us, rank, encode_line(line)))

    for node, t_us, totals in gathering.counters:
        add(node, t_us, -1, "counters", counters=totals)
    for node, t_us, client, origin in gathering.attached:
        add(node, t_us, 0, "attach", client=client, origin=origin)
    for rank, wish in enumerate(wishes, 1):  # equal times stay in their order
        seen = {"seen": wish.seen} if wish.seen else {}
        add(wish.node, wish.t_us, rank, wish.kind, client=wish.client, topic=wish.topic, **seen)
    for one, count in gathering.publications.items():
        fields: dict[str, object] = {} if one.client is None else {"client": one.client}
        fields |= {"topic": one.topic, "bytes": one.size}
        if count > 1:
            fields["count"] = count
        if one.is_estimated:
            fields["estimated"] = True
        add(one.node, one.t_us, len(wishes) + 1, "publish", **fields)
    return {node: [line for _, _, line in _by_time(lines)] for node, lines in timed.items()}


def _by_time(lines: Iterable[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    return sorted(lines, key=lambda one: one[:2])
