"""What a person asks of one broker: who is this client, who wants this topic and where do its events go, this link.

Pure looks at a broker; a network's answer is put together from those of all its nodes (`plans.inspecting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.mqtt.topics import filter_matches, split_shared

if TYPE_CHECKING:
    from coterie.broker.machine import Broker
    from coterie.broker.plane import Plane
    from coterie.mqtt.index import Match
    from coterie.mqtt.session import Session

LISTED_MAX = 1000  # names in an answer; counts are whole


def client(broker: Broker, name: str) -> dict[str, Any]:
    """The session of a client here, if it has one, and where the placement wants it."""
    session = broker.sessions.of.get(name)
    home, left = broker.placing.of.get(name), broker.clients.departures.of.get(name)
    return {
        "node": broker.setup.node,
        "name": broker.setup.name,
        "session": None if session is None else _session(session),
        "keepers": [] if session is None or broker.keeping is None else sorted(broker.keeping.good),
        "placed_at": home,
        "placement_version": broker.placing.version if home is not None else 0,
        "sent_away": None if left is None else {"at_s": left.at_s, "server": left.server, "why": left.why},
    }


def _session(session: Session) -> dict[str, Any]:
    return {
        "is_online": session.is_online,
        "user": session.owner,
        "expiry_s": session.expiry_s,
        "subscriptions": {filter_: one.qos for filter_, one in session.subscriptions.items()},
        "queued": session.queue_count,
        "unacknowledged": session.inflight_count,
        "given_up": session.shed_count,
        "has_will": session.will is not None,
    }


def topic(broker: Broker, name: str) -> dict[str, Any]:
    """Who wants a topic here, and this node's place on each channel that its events go by."""
    match, plane = broker.sessions.index.matches(name), broker.planes.in_use
    wanting = [one.receiver.client_id for one in match.receivers]
    shared = sorted({(group, one.client_id) for one in _sharing(match) for group in _groups(one, name)})
    return {
        "node": broker.setup.node,
        "name": broker.setup.name,
        "system": plane.system.name,
        "subscribers": sorted(wanting)[:LISTED_MAX],
        "subscriber_count": len(wanting) + len(shared),
        "shared": shared[:LISTED_MAX],
        "is_retained": broker.sessions.retained.get(name, broker.turn.now_s) is not None,
        "channels": _channels(plane, name),
    }


def _sharing(match: Match[Session]) -> list[Session]:
    return [one for group in match.groups for one in group.members]


def _groups(session: Session, name: str) -> list[str]:
    """By which groups a client takes part in a topic."""
    parts = (split_shared(one) for one in session.subscriptions)
    return [group for group, filter_ in parts if group and filter_matches(filter_, name)]


def _channels(plane: Plane, name: str) -> dict[str, dict[str, Any]]:
    """The topic's own channel, and those of filters that hold it (decision 6), as far as this node is on them."""
    state = plane.state()
    known = {str(one) for one in (*plane.wanting, *(channel for channel, _ in (*state.parents, *state.children)))}
    return {
        channel: {
            "is_wanted": channel in plane.wanting,
            "parent": next((node for one, node in state.parents if one == channel), None),
            "children": sorted(node for one, node in state.children if one == channel),
        }
        for channel in sorted(known)
        if channel == name or filter_matches(channel, name)
    }


def link(broker: Broker, peer: int) -> dict[str, Any]:
    """A link to another node, whether it is there, and whether the plan wants it."""
    return {
        "node": broker.setup.node,
        "name": broker.setup.name,
        "peer": peer,
        "is_connected": broker.links.is_connected(peer),
        "is_planned": peer in broker.planes.links(),
        "is_behind": peer in broker.recovery.behind,
        "waiting_bytes": broker.links.waiting_bytes(peer),
    }
