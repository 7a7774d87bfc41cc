"""What passed through a node between two looks at its totals, per second."""

from __future__ import annotations

from collections.abc import Mapping

Totals = Mapping[str, float]
COPIES = tuple(f"copies_{kind}_total" for kind in ("inbound", "wanted", "relayed", "filtered", "duplicate"))
EVENT_TRAFFIC = ("sent_event_total", "sent_inbound_total")


def rates(old: Totals, new: Totals, span_s: float) -> dict[str, float]:
    """A node that was restarted in between counts from zero again; then nothing is said rather than something wrong."""

    def rate(*names: str) -> float:
        return round(max(0.0, sum(new[name] - old[name] for name in names) / span_s), 1)

    control = [name for name in new if name.startswith("sent_") and name not in EVENT_TRAFFIC]
    return {
        "in": rate("messages_in_total"),
        "out": rate("messages_out_total"),
        "copies": rate(*COPIES),
        "control": rate(*control, "driver_messages_total"),
        "cpu_percent": round(100 * max(0.0, new["cpu_seconds_total"] - old["cpu_seconds_total"]) / span_s, 1),
    }
