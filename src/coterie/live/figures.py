"""A live node's figures: what its broker shows (`broker.views`), with what only a process knows."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

from coterie.broker import views
from coterie.live.metrics import exposition

if TYPE_CHECKING:
    from coterie.live.node import LiveNode


def health(node: LiveNode) -> dict[str, Any]:
    return {**views.health(node.broker), "uptime_s": round(node.uptime_s, 3), "pid": os.getpid()}


def in_short(node: LiveNode) -> dict[str, Any]:
    """What anybody may know: whether the node is there and ready."""
    table = health(node)
    return {name: table[name] for name in ("status", "ready")}


def ledger_document(node: LiveNode) -> dict[str, Any]:
    return {
        **views.ledger_document(node.broker),
        "link_bytes_in": 0 if node.peers is None else node.peers.bytes_in,
        "link_bytes_out": 0 if node.peers is None else node.peers.bytes_out,
    }


def totals(node: LiveNode) -> dict[str, float]:
    """Everything that is counted, by name."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    peers = node.peers
    return {
        **views.totals(node.broker),
        "commits_total": float(node.driver.commits),
        "clients_paced": float(0 if node.pacer is None else node.pacer.count),
        "uptime_seconds": node.uptime_s,
        "cpu_seconds_total": usage.ru_utime + usage.ru_stime,
        "memory_bytes_max": usage.ru_maxrss * 1024.0,
        "links_refused_total": float(0 if peers is None else peers.refused),
        "link_bytes_in_total": float(0 if peers is None else peers.bytes_in),
        "link_bytes_out_total": float(0 if peers is None else peers.bytes_out),
        "bridges_up": float(sum(one.is_up for one in node.bridges)),
        "bridges_down": float(sum(not one.is_up for one in node.bridges)),
        "bridge_in_total": float(sum(one.counts.taken for one in node.bridges)),
        "bridge_out_total": float(sum(one.counts.given for one in node.bridges)),
        "bridge_loops_total": float(sum(one.counts.loops for one in node.bridges)),
        "bridge_refused_total": float(sum(one.counts.refused for one in node.bridges)),
    }


def prometheus(node: LiveNode) -> str:
    return exposition({node.config.name: totals(node)}, {node.config.name: views.histograms(node.broker)})


def system_topics(node: LiveNode, version: str) -> dict[str, str]:
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
    return {f"$SYS/{name}": text for name, text in named.items()}
