"""The picture of a whole network for the web page, put together from what each node says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.dashboard.rates import rates
from coterie.live.overview import SPACE, hash_of

SUMS = ("clients", "subscriptions", "in", "out", "copies", "control", "queued", "shed", "behind")
LISTED = 500  # channels in a picture, those with most members; a browser draws them anew every second


@dataclass(frozen=True)
class NodeSays:
    """The documents of one node's admin interface that a look asks for (docs/NETWORK.md)."""

    overview: Mapping[str, Any]
    totals: Mapping[str, float]


def picture(
    before: Sequence[NodeSays | None],
    now: Sequence[NodeSays | None],
    span_s: float,
    bill: Mapping[str, tuple[float | None, float]] | None = None,
) -> dict[str, Any]:
    """One document with nodes, links, channels and the bill; a node that did not answer is listed as down."""
    answering = [one for one in now if one is not None]
    nodes = [_node(place, old, new, span_s) for place, (old, new) in enumerate(zip(before, now, strict=True))]
    sample, count, is_exact = _channels([one.overview for one in answering])
    return {
        "system": _agreed([one.overview["system"] for one in answering]),
        "plan": _agreed([one.overview["plan_version"] for one in answering]),
        "nodes": nodes,
        "totals": {name: round(sum(node.get(name, 0.0) for node in nodes), 1) for name in SUMS},
        "links": _links(answering),
        "channels": sample[:LISTED],
        "channel_count": count,
        "is_channel_count_exact": is_exact,
        "bill": [[name, *pair] for name, pair in (bill or {}).items()],
    }


def _node(place: int, old: NodeSays | None, new: NodeSays | None, span_s: float) -> dict[str, Any]:
    if new is None:
        known = old.overview if old is not None else {"node": place, "name": f"node-{place}"}
        return {"node": known["node"], "name": known["name"], "status": "down"}
    totals = new.totals
    return {
        "node": new.overview["node"],
        "name": new.overview["name"],
        "status": new.overview["status"] if new.overview["ready"] else "joining",
        "position": new.overview["position"],
        "clients": totals["clients"],
        "subscriptions": totals["subscriptions"],
        "channels": new.overview["channel_count"],
        "links": totals["links"],
        "queued": totals["queued_messages"],
        "shed": totals["shed_messages"] + totals["link_shed_total"],
        "behind": totals["behind"],
        "memory_mb": round(totals["memory_bytes_max"] / 1e6),
        "uptime_s": round(totals["uptime_seconds"]),
        **rates((old or new).totals, totals, span_s),
    }


def _agreed(values: Sequence[Any]) -> Any:
    """What all nodes say; while they change over, everything that is said."""
    distinct = sorted(set(values), key=str)
    return distinct[0] if len(distinct) == 1 else " and ".join(map(str, distinct))


def _links(answering: Sequence[NodeSays]) -> list[dict[str, Any]]:
    """Every pair that is connected or wants to be, with the number of trees that use it."""
    connected: set[tuple[int, int]] = set()
    wanted: set[tuple[int, int]] = set()
    trees: Counter[tuple[int, int]] = Counter()
    for one in answering:
        node = one.overview["node"]
        connected |= {_pair(node, peer) for peer in one.overview["connected"]}
        wanted |= {_pair(node, peer) for peer in one.overview["neighbours"]}
        for parent, count in one.overview["tree_links"]:
            trees[_pair(node, parent)] += count
    return [
        {"ends": list(pair), "is_connected": pair in connected, "trees": trees[pair]}
        for pair in sorted(connected | wanted | set(trees))
    ]


def _channels(overviews: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int, bool]:
    """(channels with most members first, how many there are in all, whether that is exact).

    Each node tells its channels with hashes below a bound of its own; below the least of these bounds all nodes have
    told everything, and the share of the space that lies below it is the share of the channels.
    """
    below = min((int(one["sampled_below"]) for one in overviews), default=SPACE)
    rows = [(one["node"], *entry) for one in overviews for entry in one["sample"]]
    merged = merge(rows)
    if below >= SPACE:
        return merged, len(merged), True
    whole = [one for one in merged if hash_of(one["name"]) < below]
    most = max(int(one["channel_count"]) for one in overviews)
    return whole, max(round(len(whole) * SPACE / below), most), False


def merge(rows: Sequence[tuple[int, str, bool, int | None]]) -> list[dict[str, Any]]:
    """(node, channel, whether it is a member, its parent) of all nodes as channels; `edges` are (child, parent)."""
    members: dict[str, list[int]] = {}
    edges: dict[str, list[list[int]]] = {}
    for node, name, is_member, parent in rows:
        members.setdefault(name, [])
        if is_member:
            members[name].append(node)
        if parent is not None:
            edges.setdefault(name, []).append([node, parent])
    listed = [
        {"name": name, "members": sorted(members[name]), "edges": edges.get(name, [])} for name in sorted(members)
    ]
    listed.sort(key=lambda channel: -len(channel["members"]))
    return listed


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
