"""A node's figures for people and programs: documents for the admin interface, Prometheus text, $SYS topics."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.accounting.tally import COPIES, Standing
from coterie.model.ledger import Control, Distribution, Ledger, Load, Maintenance, State
from coterie.model.wires import COTERIE
from coterie.trace import Traffic

if TYPE_CHECKING:
    from coterie.runtime.node import LiveNode


UPKEEP = (Traffic.TREE_KEEPALIVE, Traffic.LINK_KEEPALIVE, Traffic.ASSOCIATION)
CONTROL = tuple(kind for kind in Traffic if kind not in (*UPKEEP, Traffic.EVENT, Traffic.INBOUND))


def ledger(node: LiveNode) -> Ledger:
    """The node's own part of the bill, per second since its plan is in force; parts add up (distributions do not)."""
    overlay = node.network.overlay
    state = overlay.state()
    span_s = max(node.network.planes.in_force_s, 1e-9)

    def rate(*kinds: Traffic) -> float:
        return sum(overlay.sent[kind] for kind in kinds) / span_s

    def volume(*kinds: Traffic) -> float:
        return sum(overlay.sent_bytes[kind] for kind in kinds) / span_s

    links, tree_entries = float(len(state.links)), float(len(state.parents) + len(state.children))
    counted = overlay.tally.ledger(
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
    handled = sum(getattr(overlay.tally, name) for name in COPIES) + overlay.sent[Traffic.EVENT]
    handled += overlay.sent[Traffic.INBOUND] + node.deliveries + node.publications
    return msgspec.structs.replace(counted, volume=real, load=Load(messages=_point(handled / span_s)))


def _point(value: float) -> Distribution:
    return Distribution(mean=value, p50=value, p99=value, max=value)


def health(node: LiveNode) -> dict[str, Any]:
    network = node.network
    wanted = network.planes.links()
    return {
        "status": "outdated" if network.planes.outdated_by else "ok",
        "ready": network.is_alone or wanted <= set(network.links.connected),
        "node": node.config.node.id,
        "name": node.config.name,
        "system": network.overlay.system.name,
        "plan_version": network.overlay.slice.version,
        "plan_generation": network.planes.generation,
        "uptime_s": round(node.uptime_s, 3),
        "pid": os.getpid(),
        "links": sorted(network.links.connected),
        "behind": len(network.recovery.behind),
    }


def topology(node: LiveNode) -> dict[str, Any]:
    state = node.network.overlay.state()
    return {
        "node": node.config.node.id,
        "position": node.network.overlay.slice.position,
        "neighbours": list(state.links),
        "connected": sorted(node.network.links.connected),
        "parents": [list(pair) for pair in state.parents],
        "children": [list(pair) for pair in state.children],
    }


def channels(node: LiveNode) -> dict[str, Any]:
    network = node.network
    return {
        "node": node.config.node.id,
        "memberships": list(network.overlay.state().memberships),
        "wanted": list(network.overlay.wanting),
        "remote_filters": {str(one.node): list(one.filters) for one in network.filters.of_node.values()},
        "subscriptions": node.broker.watched.count,
    }


def ledger_document(node: LiveNode) -> dict[str, Any]:
    overlay, network = node.network.overlay, node.network
    received, sent = network.links.traffic_bytes()
    return {
        "node": node.config.node.id,
        "columns": ledger(node).columns(),
        "sent": {traffic.value: count for traffic, count in overlay.sent.items()},
        "sent_bytes": {traffic.value: count for traffic, count in overlay.sent_bytes.items()},
        "driver_messages": network.control_sent,
        "driver_bytes": network.control_bytes,
        "link_bytes_in": received,
        "link_bytes_out": sent,
        "in_force_s": network.planes.in_force_s,
        "deliveries": node.deliveries,
        "publications": node.publications,
    }


def plan(node: LiveNode) -> dict[str, Any]:
    return node.network.planes.document()


def totals(node: LiveNode) -> dict[str, float]:
    """Everything that is counted, by name."""
    network, broker = node.network, node.broker
    received, sent = network.links.traffic_bytes()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    table = {f"{name}_total": value for name, value in node.counts.totals().items()}
    planes = network.planes
    table |= {f"sent_{traffic.value}_total": float(planes.sent_total(traffic)) for traffic in Traffic}
    for column in COPIES:
        table[f"copies_{column}_total"] = float(planes.copies_total(column))
    return table | {
        "uptime_seconds": node.uptime_s,
        "cpu_seconds_total": usage.ru_utime + usage.ru_stime,
        "memory_bytes_max": usage.ru_maxrss * 1024.0,
        "clients": float(len(node.server.clients)),
        "sessions": float(len(broker.sessions)),
        "subscriptions": float(broker.watched.count),
        "retained": float(len(broker.retained)),
        "links": float(len(network.links.connected)),
        "links_lost_total": float(network.links.counts.lost),
        "links_refused_total": float(network.links.counts.refused),
        "link_bytes_in_total": float(received),
        "link_bytes_out_total": float(sent),
        "link_queue_bytes": float(network.links.queue_bytes()),
        "link_shed_total": float(network.links.counts.shed),
        "driver_messages_total": float(network.control_sent),
        "driver_bytes_total": float(network.control_bytes),
        "disturbances_total": float(network.recovery.disturbance_count),
        "recovered_total": float(network.recovery.recovered_count),
        "behind": float(len(network.recovery.behind)),
        "clients_moved_total": float(node.placement.moved_count),
        "queued_messages": float(sum(one.queue_count for one in broker.sessions.values())),
        "shed_messages": float(sum(one.shed_count for one in broker.sessions.values())),
        "log_bytes": float(node.store.log_bytes),
    }


def prometheus(node: LiveNode) -> str:
    lines = []
    label = f'{{node="{node.config.name}"}}'
    for name, value in totals(node).items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE coterie_{name} {kind}", f"coterie_{name}{label} {value:.10g}"]
    return "\n".join(lines) + "\n"


def publish_sys(node: LiveNode, version: str) -> None:
    """The figures that clients look for under $SYS, and all of ours under $SYS/coterie."""
    table = totals(node)
    named = {
        "broker/version": f"coterie {version}",
        "broker/uptime": f"{int(table['uptime_seconds'])} seconds",
        "broker/clients/connected": f"{int(table['clients'])}",
        "broker/clients/total": f"{int(table['sessions'])}",
        "broker/messages/received": f"{int(table['messages_in_total'])}",
        "broker/messages/sent": f"{int(table['messages_out_total'])}",
        "broker/bytes/received": f"{int(table['bytes_in_total'])}",
        "broker/bytes/sent": f"{int(table['bytes_out_total'])}",
        "broker/subscriptions/count": f"{int(table['subscriptions'])}",
        "broker/retained messages/count": f"{int(table['retained'])}",
    }
    named |= {f"coterie/{name}": f"{value:.10g}" for name, value in table.items()}
    for name, text in named.items():
        node.server.publish_here(f"$SYS/{name}", text.encode())
