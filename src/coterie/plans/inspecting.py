"""A question about a network, put to all of its nodes, and the answer in sentences."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from coterie.plans.admin import LiveNetwork, ask, nobody_at

NEVER_S = 0xFFFFFFFF
LISTED_MAX = 10  # names in a line
WAYS_MAX = 30  # lines of a tree

Answers = list[dict[str, Any]]


def inspect(network: LiveNetwork, kind: str, name: str) -> tuple[Answers, list[str]]:
    """What each node knows of a client, a topic or a link; and where nobody answers, for a node may be down."""
    path = f"/inspect?{kind}={quote(name, safe='')}"
    found = [(place, ask(*place, path, network.token)) for place in network.places]
    silent = [f"{host}:{port}" for (host, port), said in found if said is None]
    if len(silent) == len(found):
        raise nobody_at(*network.places[0])
    return [said for _, said in found if said is not None], silent


def client_told(name: str, found: Answers, now_s: float | None = None) -> list[str]:
    """Where a client is, whose it is, what it wants, what waits for it, where it belongs, and why it was sent away."""
    here = [one for one in found if one["session"] is not None]
    told = [] if here else [f"{name}: no node has a session of this client"]
    for one in here:
        told += _session_told(name, one)
    placed = next(((one["placed_at"], one["placement_version"]) for one in found if one["placed_at"] is not None), None)
    if placed is None:
        told.append("  no placement names it: it stays where it connects")
    elif any(one["node"] == placed[0] for one in here):
        told.append(f"  placement {placed[1]} wants it there")
    else:
        told.append(f"  placement {placed[1]} wants it at node {placed[0]}: it is sent there if it follows references")
    now_s = time.time() if now_s is None else now_s
    for one in sorted((one for one in found if one["sent_away"]), key=lambda one: one["sent_away"]["at_s"]):
        left = one["sent_away"]
        ago = _span(now_s - left["at_s"])
        told.append(f"  {one['name']} sent it to {left['server'] or 'any other node'} {ago} ago: {left['why']}")
    return told


def _session_told(name: str, one: dict[str, Any]) -> list[str]:
    session = one["session"]
    state = "connected" if session["is_online"] else "away; its session waits"
    whose = f", user {session['user']}" if session["user"] else ""
    told = [f"{name}: {state} at {one['name']} (node {one['node']}){whose}"]
    wishes = [f"{filter_} (QoS {qos})" for filter_, qos in sorted(session["subscriptions"].items())]
    told.append(f"  subscribes to {_listed(wishes) or 'nothing'}")
    told.append(
        f"  {_count(session['queued'], 'message')} waiting, {session['unacknowledged']} not acknowledged, "
        f"{session['given_up']} given up"
    )
    if session["expiry_s"]:
        lasts = "for ever" if session["expiry_s"] >= NEVER_S else f"{_span(session['expiry_s'])} after it is gone"
        copies = f"; copies at node {', '.join(map(str, one['keepers']))}" if one["keepers"] else "; nobody has a copy"
        told.append(f"  its session lasts {lasts}{copies}")
    return told


def topic_told(name: str, found: Answers) -> list[str]:
    """Who subscribes in the whole network, and the way of an event."""
    total, nodes = sum(one["subscriber_count"] for one in found), sum(one["subscriber_count"] > 0 for one in found)
    kept = "; a message is retained" if any(one["is_retained"] for one in found) else ""
    told = [f"{name}: {_count(total, 'subscriber')} at {nodes} of {_count(len(found), 'node')}{kept}"]
    for one in found:
        names = [*one["subscribers"], *(f"{client} (shared, group {group})" for group, client in one["shared"])]
        if names:
            more = one["subscriber_count"] - len(names)
            told.append(f"  {one['name']} (node {one['node']}): {_listed(names, more)}")
    channels = sorted({channel for one in found for channel in one["channels"]}, key=lambda one: (one != name, one))
    if channels:
        system = found[0]["system"] if len({one["system"] for one in found}) == 1 else "several systems"
        told.append(f"its events go by {_count(len(channels), 'channel')} of {system}:")
    for channel in channels:
        told += _way_told(channel, {one["node"]: one["channels"].get(channel) for one in found})
    return told


def _way_told(channel: str, places: dict[int, dict[str, Any] | None]) -> list[str]:
    """A tree, line by line from its root; copies from wherever it is published; or a flood along links."""
    on = {node: place for node, place in places.items() if place is not None}
    wanting = ", ".join(str(node) for node, place in on.items() if place["is_wanted"]) or "nobody any more"
    has_tree = any(place["parent"] is not None for place in on.values())
    if not has_tree and any(place["children"] for place in on.values()):
        return [f"  {channel}: from where it is published, a copy to each of {wanting}"]
    if len(on) == 1:
        return [f"  {channel}: wanted at {wanting} alone"]
    if not has_tree:
        return [f"  {channel}: wanted at {wanting}; over the links of the system"]
    roots = [node for node, place in on.items() if place["parent"] is None and place["children"]]
    lines, turn = [], list(roots)
    while turn:
        node = turn.pop(0)
        children = on[node]["children"] if node in on else []
        if children:
            lines.append(f"    node {node} passes it to {', '.join(map(str, children))}")
        turn += [child for child in children if child not in turn and len(lines) < WAYS_MAX]
    more = ["    and so on"] if len(lines) >= WAYS_MAX else []
    return [f"  {channel}: wanted at {wanting}; from root {', '.join(map(str, roots))}", *lines, *more]


def link_told(peer: int, found: Answers) -> list[str]:
    """Every node's end of the links to one node."""
    told = [f"node {peer}:"]
    for one in found:
        if one["node"] == peer or not (one["is_planned"] or one["is_connected"]):
            continue
        state = "connected" if one["is_connected"] else "NOT connected"
        plan = "" if one["is_planned"] else ", though no plan asks for it"
        late = "; catching up with its log" if one["is_behind"] else ""
        full = f"; {one['waiting_bytes']:,} bytes wait" if one["waiting_bytes"] else ""
        told.append(f"  {one['name']} (node {one['node']}): {state}{plan}{late}{full}")
    return told if len(told) > 1 else [f"node {peer}: no other node has, or should have, a link to it"]


def _listed(names: list[str], more: int = 0) -> str:
    rest = len(names) - LISTED_MAX + more if len(names) > LISTED_MAX else more
    return ", ".join(names[:LISTED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _span(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(0, round(seconds))} s"
