"""What Prometheus (or any OpenMetrics reader) scrapes: every total of a node with what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

Shapes = Mapping[str, Mapping[str, Any]]
MEANING = {
    "admitted_here_total": "New clients let in where they came, by interest or because they do not follow",
    "admitted_sent_total": "New clients sent to where what they ask for is wanted already",
    "admitted_unmoved_total": "New clients that belong elsewhere and do not follow a server reference",
    "behind": "Other nodes whose events this node is still catching up with",
    "bridge_in_total": "Messages that bridges took from other brokers",
    "bridge_loops_total": "Messages that bridges did not take back where they had come from",
    "bridge_out_total": "Messages that bridges gave to other brokers",
    "bridge_refused_total": "Messages that a bridge passed on and the other side refused",
    "bridges_down": "Bridges to other brokers that are not connected",
    "bridges_up": "Bridges to other brokers that are connected",
    "bytes_in_total": "Payload bytes from clients",
    "bytes_out_total": "Payload bytes to clients",
    "clients": "Clients that are connected now",
    "clients_paced": "Clients that speak often and are read once per mqtt.latency_budget_ms",
    "clients_moved_total": "Clients that were sent to another node by a placement",
    "commits_total": "Batches written to the store",
    "connections_refused_total": "Connections turned away: too many, not allowed, or no MQTT",
    "connections_taken_total": "Connections accepted",
    "connects_limited_total": "CONNECTs refused by a limit on connects or failed logins",
    "copies_duplicate_total": "Copies between nodes of events that the receiver had already",
    "copies_filtered_total": "Copies between nodes that the receiver's local filter threw away",
    "copies_inbound_total": "Copies between nodes on their way to where spreading starts",
    "copies_relayed_total": "Copies between nodes that the receiver only passed on",
    "copies_wanted_total": "Copies between nodes that somebody at the receiver wanted",
    "copies_lacking": "Copies that acknowledged messages and sessions lack, because too few nodes are in reach",
    "cpu_seconds_total": "Processor time of the node",
    "disturbances_total": "Times that links or nodes were lost and logs had to be compared",
    "driver_bytes_total": "Bytes that nodes tell each other besides events: interests, logs, moves",
    "driver_messages_total": "Messages that nodes tell each other besides events: interests, logs, moves",
    "events_in_total": "Events from other nodes handed to local subscribers",
    "events_out_total": "Local publications handed to the network",
    "keep_bytes_total": "Bytes to nodes that keep copies for this one",
    "keep_messages_total": "Messages to nodes that keep copies for this one",
    "link_bytes_in_total": "Bytes from other nodes",
    "link_bytes_out_total": "Bytes to other nodes",
    "link_queue_bytes": "Bytes that wait for slow links",
    "link_shed_total": "Events given up for a link that is too slow; QoS 1 and 2 are recovered later",
    "links": "Other nodes that are connected now",
    "links_lost_total": "Links that broke",
    "links_refused_total": "Links refused: wrong key, version or node",
    "late_dropped_total": "Events at QoS 0 that came after a newer one of their topic",
    "log_dropped_total": "Own events that the log had no room for any more",
    "logins_busy_total": "Logins refused because too many were waiting to be checked",
    "logins_failed_total": "Logins with a wrong name or password",
    "memory_bytes_max": "The most memory that the node has had",
    "messages_in_total": "PUBLISH packets from clients",
    "messages_out_total": "PUBLISH packets to clients",
    "protocol_errors_total": "Connections ended because of what the client sent",
    "published_refused_total": "PUBLISH packets that the client had no right to",
    "publishers_paused_total": "Times that a client was not read for a while because what it published piled up",
    "publishers_waiting": "Clients that are not read at present because what they published piles up",
    "publishes_limited_total": "Connections ended for publishing too fast",
    "queued_messages": "Messages that wait for clients",
    "recovered_total": "Events that were missed at first and fetched from their origin's log",
    "retained": "Retained messages",
    "retained_refused_total": "Retained messages refused by a limit",
    "sessions": "Sessions, of clients that are connected and of those that are away",
    "shed_messages": "Messages given up for clients whose queue was full",
    "sockets_passed_total": "Clients given to the process of the same machine where what they publish is wanted",
    "stored_refused_total": "Publications refused because too much is stored already",
    "subscriptions": "Subscriptions of all sessions",
    "subscriptions_refused_total": "Subscriptions refused by a limit or for want of a right",
    "uptime_seconds": "Time since the node started",
}
HISTOGRAMS = {
    "delivery_latency_seconds": "From the PUBLISH to the receiver's connection, through other nodes or within this one",
    "fan_out": "Local receivers of a message that somebody here wants",
    "queue_age_seconds": "How long messages waited here that could not be sent to their client at once",
}
SENT = "Messages to other nodes, by what they are for"


class NodeCollector(Collector):
    """The totals of nodes at this moment: of one, or of all processes of a machine."""

    def __init__(self, totals: Mapping[str, Mapping[str, float]], shapes: Mapping[str, Shapes]) -> None:
        self._totals, self._shapes = totals, shapes

    def collect(self) -> Iterator[Metric]:
        sent = CounterMetricFamily("coterie_sent", SENT, labels=["node", "traffic"])
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for node, totals in self._totals.items():
            for name, value in sorted(totals.items()):
                if name.startswith("sent_"):
                    sent.add_metric([node, name.removeprefix("sent_").removesuffix("_total")], value)
                    continue
                if name not in families:
                    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                    text = MEANING.get(name, name)
                    families[name] = kind(f"coterie_{name.removesuffix('_total')}", text, labels=["node"])
                families[name].add_metric([node], value)
        yield from families.values()
        yield sent
        yield from self._histograms()

    def _histograms(self) -> Iterator[Metric]:
        for name, text in HISTOGRAMS.items():
            one = HistogramMetricFamily(f"coterie_{name}", text, labels=["node"])
            for node, shapes in self._shapes.items():
                if name in shapes:
                    one.add_metric([node], buckets_of(name, shapes[name]["counts"]), shapes[name]["sum"])
            yield one


def buckets_of(name: str, counts: Sequence[int]) -> list[tuple[str, float]]:
    """(upper bound, how many are not above it), as the format wants it; bins of nobody's interest are put together."""
    is_time = name.endswith("_seconds")
    first, last = (7, 27) if is_time else (0, 20)  # 127 microseconds to 67 seconds; 0 to half a million receivers
    found = []
    for bin_ in range(first, last):
        bound = (2**bin_ - 1) / 1e6 if is_time else float(2**bin_ - 1)
        found.append((f"{bound:g}", float(sum(counts[: bin_ + 1]))))
    return [*found, ("+Inf", float(sum(counts)))]


def exposition(totals: Mapping[str, Mapping[str, float]], shapes: Mapping[str, Shapes] | None = None) -> str:
    """By the nodes' names; `shapes` are the histograms (`views.histograms`)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(totals, shapes or {}))
    return generate_latest(registry).decode()
