"""A broker looked at: its part of the bill, its health, its place, its totals. Nothing here changes anything."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.accounting.tally import COPIES, Standing
from coterie.broker.leaf import LEAF
from coterie.broker.machine import Broker
from coterie.model.ledger import Control, Distribution, Ledger, Load, Maintenance, State
from coterie.model.wires import COTERIE
from coterie.trace import Traffic

UPKEEP = (Traffic.TREE_KEEPALIVE, Traffic.LINK_KEEPALIVE, Traffic.ASSOCIATION)
CONTROL = tuple(kind for kind in Traffic if kind not in (*UPKEEP, Traffic.EVENT, Traffic.INBOUND))


def ledger(broker: Broker) -> Ledger:
    """The node's own part of the bill, per second since its plan is in force; parts add up (distributions do not)."""
    plane = broker.planes.in_use
    state = plane.state()
    span_s = max(broker.planes.in_force_s, 1e-9)

    def rate(*kinds: Traffic) -> float:
        return sum(plane.sent[kind] for kind in kinds) / span_s

    def volume(*kinds: Traffic) -> float:
        return sum(plane.sent_bytes[kind] for kind in kinds) / span_s

    links, tree_entries = float(len(state.links)), float(len(state.parents) + len(state.children))
    counted = plane.tally.ledger(
        Standing(
            maintenance=Maintenance(
                tree_keepalives=rate(Traffic.TREE_KEEPALIVE),
                link_keepalives=rate(Traffic.LINK_KEEPALIVE),
                associations=rate(Traffic.ASSOCIATION),
            ),
            control=Control(
                subscription=rate(Traffic.SUBSCRIPTION),
                overlay=rate(Traffic.OVERLAY),
                membership=rate(Traffic.MEMBERSHIP),
                acknowledgement=rate(Traffic.ACKNOWLEDGEMENT),
                clustering=rate(Traffic.CLUSTERING),
                reconfiguration=rate(Traffic.RECONFIGURATION),
            ),
            state=State(
                degree=_point(links),
                links=links,
                channels=float(len(state.memberships)),
                trees=float(len({channel for channel, _ in (*state.parents, *state.children)})),
                entries=_point(links),
                tree_entries=_point(tree_entries),
            ),
        ),
        COTERIE,
        span_s,
    )
    # What was really written, in place of what the constants say.
    real = msgspec.structs.replace(counted.volume, upkeep=volume(*UPKEEP), control=volume(*CONTROL))
    handled = sum(getattr(plane.tally, name) for name in COPIES) + plane.sent[Traffic.EVENT]
    handled += plane.sent[Traffic.INBOUND] + deliveries(broker) + publications(broker)
    return msgspec.structs.replace(counted, volume=real, load=Load(messages=_point(handled / span_s)))


def _point(value: float) -> Distribution:
    return Distribution(mean=value, p50=value, p99=value, max=value)


def deliveries(broker: Broker) -> int:
    """To local clients since the plan is in force."""
    return broker.counts.messages_out - broker.planes.before.messages_out


def publications(broker: Broker) -> int:
    return broker.counts.messages_in - broker.planes.before.messages_in


def is_ready(broker: Broker) -> bool:
    """Whether clients should come: a node that should have peers has them, and is neither joining nor leaving."""
    if broker.is_alone:
        return True
    if broker.draining.phase or not broker.membership.is_settled:
        return False
    connected, peers = broker.links.connected, broker.links.peers
    return not peers or (bool(connected) and broker.planes.links() <= set(connected))


def members(broker: Broker) -> dict[str, Any]:
    """The list in force, what this node wants changed in it, and how far it is with leaving."""
    membership, draining = broker.membership, broker.draining
    return {
        "node": broker.setup.node,
        "plan": _plan_in_words(broker),
        "epoch": membership.members.epoch,
        "members": [msgspec.structs.asdict(one) | {"token": ""} for one in membership.members.entries],
        "changes": {str(number): text for number, text in membership.outcomes.items()},
        "drain": {
            "phase": draining.phase,
            "clients": len(broker.sessions.of) - sum(not one.is_online for one in broker.sessions.of.values()),
            "sessions": sum(bool(one.expiry_s) for one in broker.sessions.of.values()),
            "sent_away": draining.sent_away,
            "handed_over": draining.handed_over,
        },
    }


def _plan_in_words(broker: Broker) -> str:
    """By which plan a node works: somebody's, the network's own, or as a leaf of a node that has one."""
    planes = broker.planes
    if planes.in_use.system is LEAF:
        return "leaf"
    name = planes.in_use.system.name
    return f"{name}, plan {planes.in_use.slice.version}" if not planes.part.made_for else name


def cost_of_removing(broker: Broker, node: int) -> dict[str, Any]:
    """Who keeps copies for a node, as far as is known here: what nobody has goes with it."""
    keepers = list(broker.lists.keepers(node))
    there = [one for one in keepers if one == broker.setup.node or broker.links.is_connected(one)]
    return {"node": node, "keepers": keepers, "keepers_in_reach": there}


def copies_said(broker: Broker) -> int:
    """On so many disks is what the node acknowledges."""
    return 1 if broker.keeping is None else broker.keeping.need + 1


def health(broker: Broker) -> dict[str, Any]:
    planes, connected, keeping = broker.planes, broker.links.connected, broker.keeping
    return {
        "status": "outdated" if planes.outdated_by else "ok",
        "ready": is_ready(broker),
        "node": broker.setup.node,
        "name": broker.setup.name,
        "system": planes.in_use.system.name,
        "plan_version": planes.in_use.slice.version,
        "plan_generation": planes.generation,
        "links": sorted(connected),
        "behind": len(broker.recovery.behind),
        "copies": copies_said(broker),
        "copies_wanted": 1 if keeping is None else keeping.wanted + 1,
        "keepers": [] if keeping is None else sorted(keeping.good),
    }


def topology(broker: Broker) -> dict[str, Any]:
    plane = broker.planes.in_use
    state = plane.state()
    return {
        "node": broker.setup.node,
        "position": plane.slice.position,
        "neighbours": list(state.links),
        "connected": sorted(broker.links.connected),
        "parents": [list(pair) for pair in state.parents],
        "children": [list(pair) for pair in state.children],
    }


def channels(broker: Broker) -> dict[str, Any]:
    plane = broker.planes.in_use
    return {
        "node": broker.setup.node,
        "memberships": list(plane.state().memberships),
        "wanted": list(plane.wanting),
        "remote_filters": {str(one.node): list(one.filters) for one in broker.book.remote.of_node.values()},
        "subscriptions": broker.sessions.index.count,
    }


def ledger_document(broker: Broker) -> dict[str, Any]:
    plane = broker.planes.in_use
    return {
        "node": broker.setup.node,
        "columns": ledger(broker).columns(),
        "sent": {traffic.value: count for traffic, count in plane.sent.items()},
        "sent_bytes": {traffic.value: count for traffic, count in plane.sent_bytes.items()},
        "driver_messages": broker.talk.sent_count,
        "driver_bytes": broker.talk.sent_bytes,
        "keep_bytes": 0 if broker.keeping is None else broker.keeping.sent_bytes,
        "in_force_s": broker.planes.in_force_s,
        "deliveries": deliveries(broker),
        "publications": publications(broker),
    }


def totals(broker: Broker) -> dict[str, float]:
    """Everything that is counted, by name."""
    planes, links, sessions, recovery = broker.planes, broker.links, broker.sessions, broker.recovery
    table = {f"{name}_total": value for name, value in broker.counts.totals().items()}
    table |= {f"sent_{traffic.value}_total": float(planes.sent_total(traffic)) for traffic in Traffic}
    table |= {f"copies_{column}_total": float(planes.copies_total(column)) for column in COPIES}
    return table | {
        "clients": float(len(broker.clients.lines)),
        "sessions": float(len(sessions.of)),
        "subscriptions": float(sessions.index.count),
        "retained": float(len(sessions.retained)),
        "links": float(len(links.connected)),
        "links_lost_total": float(links.counts.lost),
        "link_queue_bytes": float(links.queue_bytes()),
        "link_shed_total": float(links.counts.shed),
        "driver_messages_total": float(broker.talk.sent_count),
        "driver_bytes_total": float(broker.talk.sent_bytes),
        "keep_messages_total": float(0 if broker.keeping is None else broker.keeping.sent_count),
        "keep_bytes_total": float(0 if broker.keeping is None else broker.keeping.sent_bytes),
        "copies_lacking": float(0 if broker.keeping is None else broker.keeping.wanted - broker.keeping.need),
        "disturbances_total": float(recovery.disturbance_count),
        "recovered_total": float(recovery.recovered_count),
        "behind": float(len(recovery.behind)),
        "clients_moved_total": float(broker.placing.moved_count),
        "publishers_waiting": float(len(broker.pressure.lines)),
        "queued_messages": float(sum(one.queue_count for one in sessions.of.values())),
        "shed_messages": float(sum(one.shed_count for one in sessions.of.values())),
    }


def histograms(broker: Broker) -> dict[str, dict[str, Any]]:
    """Numbers in powers of two (`mqtt.bins`). What is published and wanted at one node is handed on in one turn."""
    counts, waited = broker.counts, broker.sessions.budget.waited_us
    late = list(counts.late_us.counts)
    late[0] += max(0, counts.messages_out - counts.late_us.count)
    return {
        "delivery_latency_seconds": {"counts": late, "sum": counts.late_us.total / 1e6},
        "fan_out": {"counts": list(counts.fan_out.counts), "sum": float(counts.fan_out.total)},
        "queue_age_seconds": {"counts": list(waited.counts), "sum": waited.total / 1e6},
    }


def placement(broker: Broker) -> dict[str, Any]:
    """The clients that are connected, and how many of them belong elsewhere."""
    placing = broker.placing
    here = sorted(name for name, one in broker.sessions.of.items() if one.is_online)
    to_move = sum(placing.of.get(name, placing.node) != placing.node for name in here)
    return {"version": placing.version, "clients": here, "to_move": to_move}
