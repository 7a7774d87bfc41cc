"""What a person asks of one broker: who is this client, who wants this topic and where do its events go, this link.

Pure looks at a broker; a network's answer is put together from those of all its nodes (`plans.inspecting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.mqtt.topics import filter_matches

if TYPE_CHECKING:
    from coterie.broker.machine import Broker
    from coterie.mqtt.session import Session

LISTED_MAX = 1000  # names in an answer; counts are whole


def client(broker: Broker, name: str) -> dict[str, Any]:
    """The session of a client here, if it has one, and where the placement wants it."""
    session = broker.sessions.of.get(name)
    home = broker.placing.of.get(name)
    return {
        "node": broker.setup.node,
        "name": broker.setup.name,
        "session": None if session is None else _session(session),
        "placed_at": home,
        "placement_version": broker.placing.version if home is not None else 0,
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
    """Who wants a topic here, and this node's place in the tree of its channel."""
    match = broker.sessions.index.matches(name)
    wanting = [one.receiver.client_id for one in match.receivers]
    state = broker.planes.in_use.state()
    channels = {channel for channel, _ in (*state.parents, *state.children)} | set(state.memberships)
    own = name if name in channels else None
    return {
        "node": broker.setup.node,
        "name": broker.setup.name,
        "subscribers": sorted(wanting)[:LISTED_MAX],
        "subscriber_count": len(wanting),
        "shared_groups": len(match.groups),
        "is_retained": broker.sessions.retained.get(name, broker.turn.now_s) is not None,
        "parent": next((node for channel, node in state.parents if channel == own), None),
        "children": sorted(node for channel, node in state.children if channel == own),
        "wildcards_of": sorted(
            said.node
            for said in broker.book.remote.of_node.values()
            if any(filter_matches(one, name) for one in said.filters)
        ),
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
    }
