"""What a node counts: totals since it started, the same names in metrics, journal, $SYS and the admin interface."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from coterie.mqtt.bins import Bins


@dataclass
class Counts:
    connections_taken: int = 0
    connections_refused: int = 0
    protocol_errors: int = 0
    messages_in: int = 0
    messages_out: int = 0  # deliveries to local subscribers
    bytes_in: int = 0
    bytes_out: int = 0
    published_refused: int = 0
    events_out: int = 0  # local publications handed to the network
    events_in: int = 0  # events from the network handed to local subscribers
    late_dropped: int = 0  # events at QoS 0 that came after a newer one of their topic
    log_dropped: int = 0
    logins_failed: int = 0
    logins_busy: int = 0  # refused because too many were waiting to be checked
    connects_limited: int = 0  # refused by a limit on connects or on failed logins
    publishes_limited: int = 0  # connections ended for publishing too fast
    subscriptions_refused: int = 0
    retained_refused: int = 0
    admitted_here: int = 0  # new clients let in, by interest or because they do not follow
    admitted_sent: int = 0  # new clients sent to where what they ask for is wanted
    admitted_unmoved: int = 0  # of those let in: belong elsewhere and do not follow
    stored_refused: int = 0  # publications refused because too much is stored already
    sockets_passed: int = 0  # clients given to the process of this machine where what they publish is wanted
    publishers_paused: int = 0  # times that a client was not read because what it published piled up

    fan_out: Bins = field(default_factory=Bins, compare=False)  # local receivers of a message, published here or not
    late_us: Bins = field(default_factory=Bins, compare=False)  # of events from other nodes, a delivery each

    def totals(self) -> dict[str, float]:
        return {one.name: float(getattr(self, one.name)) for one in fields(self) if one.type == "int"}
