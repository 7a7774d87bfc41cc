"""A question about a network, put to all of its nodes, and the answer in sentences."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from coterie.plans.admin import LiveNetwork


def inspect(network: LiveNetwork, kind: str, name: str) -> list[dict[str, Any]]:
    """What each node knows of a client, a topic or a link."""
    return network.ask(f"/inspect?{kind}={quote(name, safe='')}")


def client_told(name: str, found: list[dict[str, Any]]) -> list[str]:
    """Where a client is, whose it is, what it wants, what waits for it, and where it belongs."""
    here = [one for one in found if one["session"] is not None]
    told = [] if here else [f"{name}: no node has a session of this client"]
    for one in here:
        session = one["session"]
        state = "connected" if session["is_online"] else "away; its session waits"
        whose = f", user {session['user']}" if session["user"] else ""
        told.append(f"{name}: {state} at {one['name']} (node {one['node']}){whose}")
        wishes = ", ".join(f"{filter_} (QoS {qos})" for filter_, qos in sorted(session["subscriptions"].items()))
        told.append(f"  subscribes to {wishes or 'nothing'}")
        told.append(
            f"  {session['queued']} messages wait, {session['unacknowledged']} are not acknowledged, "
            f"{session['given_up']} were given up"
        )
    placed = next(((one["placed_at"], one["placement_version"]) for one in found if one["placed_at"] is not None), None)
    if placed is None:
        told.append("  no placement names it: it stays where it connects")
    elif any(one["node"] == placed[0] for one in here):
        told.append(f"  placement {placed[1]} wants it there")
    else:
        told.append(f"  placement {placed[1]} wants it at node {placed[0]}: it is sent there if it follows references")
    return told


def topic_told(name: str, found: list[dict[str, Any]]) -> list[str]:
    """Who subscribes in the whole network, and the way of an event."""
    total = sum(one["subscriber_count"] for one in found)
    told = [f"{name}: {total} subscribers at {sum(one['subscriber_count'] > 0 for one in found)} of {len(found)} nodes"]
    for one in found:
        if not one["subscriber_count"] and not one["shared_groups"] and one["parent"] is None and not one["children"]:
            continue
        names = ", ".join(one["subscribers"][:10])
        more = f" and {one['subscriber_count'] - 10} more" if one["subscriber_count"] > 10 else ""
        told.append(f"  {one['name']} (node {one['node']}): {names or 'nobody'}{more}")
        way = [] if one["parent"] is None else [f"gets it from node {one['parent']}"]
        way += [f"passes it to {', '.join(map(str, one['children']))}"] if one["children"] else []
        if way:
            told.append(f"    {'; '.join(way)}")
    if any(one["is_retained"] for one in found):
        told.append("  a message is retained")
    return told


def link_told(peer: int, found: list[dict[str, Any]]) -> list[str]:
    """Every node's end of the links to one node."""
    told = [f"node {peer}:"]
    for one in found:
        if one["node"] == peer or not (one["is_planned"] or one["is_connected"]):
            continue
        state = "connected" if one["is_connected"] else "NOT connected"
        plan = "" if one["is_planned"] else ", though no plan asks for it"
        late = "; catching up with its log" if one["is_behind"] else ""
        told.append(f"  {one['name']} (node {one['node']}): {state}{plan}{late}")
    return told if len(told) > 1 else [f"node {peer}: no other node has, or should have, a link to it"]
