"""One record of what happened, with the same columns in the simulator, the node, Spark and the console."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec


class Traffic(StrEnum):
    """What a message between nodes is for; the ledger's columns follow from it."""

    EVENT = "event"  # an event spreading inside its channel
    INBOUND = "inbound"  # an event on its way to where the channel takes over
    TREE_KEEPALIVE = "tree_keepalive"
    LINK_KEEPALIVE = "link_keepalive"
    ASSOCIATION = "association"
    SUBSCRIPTION = "subscription"
    OVERLAY = "overlay"
    MEMBERSHIP = "membership"
    ACKNOWLEDGEMENT = "acknowledgement"  # of events, and offers to send them again
    CLUSTERING = "clustering"
    RECONFIGURATION = "reconfiguration"


class TraceEvent(msgspec.Struct, frozen=True):
    """One line of a trace. `what` is sent, received, dropped, delivered, discarded, subscribed, crashed, ..."""

    time_us: int
    node: int
    what: str
    peer: int = -1
    traffic: str = ""
    topic: int | str = -1
    event: int = -1
    detail: str = ""


class Tracer(Protocol):
    """Whoever wants to watch. Called in order; must not change anything."""

    def __call__(self, event: TraceEvent) -> None: ...
