"""The picture of a whole network for the web page, put together from what each node says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.dashboard.rates import rates

CHANNELS_SHOWN = 500
Bill = Mapping[str, tuple[float | None, float]]  # column -> (predicted, measured)


@dataclass(frozen=True)
class NodeSays:
    """The documents of one node's admin interface (docs/NETWORK.md)."""

    health: Mapping[str, Any]
    topology: Mapping[str, Any]
    channels: Mapping[str, Any]
    totals: Mapping[str, float]


def picture(
    before: Sequence[NodeSays | None], now: Sequence[NodeSays | None], span_s: float, bill: Bill | None = None
) -> dict[str, Any]:
    """One document with nodes, links, channels and the bill; a node that did not answer is listed as down."""
    answering = [one for one in now if one is not None]
    nodes = [_node(place, old, new, span_s) for place, (old, new) in enumerate(zip(before, now, strict=True))]
    return {
        "system": _agreed([one.health["system"] for one in answering]),
        "plan": _agreed([one.health["plan_version"] for one in answering]),
        "nodes": nodes,
        "links": _links(answering),
        "channels": _channels(answering),
        "bill": [[name, *pair] for name, pair in (bill or {}).items()],
    }


def _node(place: int, old: NodeSays | None, new: NodeSays | None, span_s: float) -> dict[str, Any]:
    if new is None:
        known = old.health if old is not None else {"node": place, "name": f"node-{place}"}
        return {"node": known["node"], "name": known["name"], "status": "down"}
    totals = new.totals
    return {
        "node": new.health["node"],
        "name": new.health["name"],
        "status": new.health["status"] if new.health["ready"] else "joining",
        "position": new.topology["position"],
        "clients": totals["clients"],
        "subscriptions": totals["subscriptions"],
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
        node = one.topology["node"]
        connected |= {_pair(node, peer) for peer in one.topology["connected"]}
        wanted |= {_pair(node, peer) for peer in one.topology["neighbours"]}
        trees.update(_pair(node, parent) for _, parent in one.topology["parents"])
    return [
        {"ends": list(pair), "is_connected": pair in connected, "trees": trees[pair]}
        for pair in sorted(connected | wanted | set(trees))
    ]


def _channels(answering: Sequence[NodeSays]) -> list[dict[str, Any]]:
    """The channels with most members first; `edges` are tree edges (child, parent)."""
    members: dict[str, set[int]] = {}
    edges: dict[str, list[list[int]]] = {}
    for one in answering:
        node = one.topology["node"]
        for channel in one.channels["memberships"]:
            members.setdefault(str(channel), set()).add(node)
        for channel, parent in one.topology["parents"]:
            edges.setdefault(str(channel), []).append([node, parent])
    listed = [
        {"name": name, "members": sorted(members.get(name, ())), "edges": edges.get(name, [])}
        for name in sorted(members.keys() | edges.keys())
    ]
    listed.sort(key=lambda channel: -len(channel["members"]))
    return listed[:CHANNELS_SHOWN]


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
