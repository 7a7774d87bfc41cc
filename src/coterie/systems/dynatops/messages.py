"""What DYNATOPS brokers say to each other; everything about trees names the control plane it belongs to."""

from __future__ import annotations

from typing import ClassVar

from coterie.model.plan import Topic
from coterie.protocol.events import EventMessage
from coterie.protocol.wire import SystemMessage
from coterie.systems.dynatops.reconfiguration import RECONFIGURATION_MESSAGES
from coterie.systems.key_routing import AskState, TellState
from coterie.systems.reliable_events import RELIABLE_MESSAGES
from coterie.trace import Traffic

TREE_HOPS_MAX = 64  # a request that has come further runs in circles


class RootJoin(SystemMessage, frozen=True, tag="Join"):
    """On its way to the root: lead the topic's tree to this broker at this position."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    version: int
    topic: Topic
    member: int
    position: int
    back_s: float = 0.0  # how far back it wants the topic's events
    hops: int = 1


class TreeGraft(SystemMessage, frozen=True, tag="Graft"):
    """On its way down from the root to the member: you are my child from now on; `epoch` names the edge."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    version: int
    topic: Topic
    member: int
    position: int
    epoch: int
    back_s: float = 0.0
    hops: int = 1


class Prune(SystemMessage, frozen=True):
    """I am no longer your child; means the edge of this epoch and older ones only."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    version: int
    topic: Topic
    epoch: int


class Dissolve(SystemMessage, frozen=True):
    """I have lost my way to the root: whoever wants the topic must join again."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    version: int
    topic: Topic


class EdgeAlive(SystemMessage, frozen=True, tag="TreeAlive"):
    """From the root down, once per interval: this edge stands. Edges left over from a crash may form a ring, which has
    no root: `hops` lets the word that runs in it die, then its brokers hear nothing and join again."""

    traffic: ClassVar[Traffic] = Traffic.TREE_KEEPALIVE
    version: int
    topic: Topic
    epoch: int
    hops: int = 1


class Inbound(EventMessage, frozen=True):
    """An event on its way to the root."""

    traffic: ClassVar[Traffic] = Traffic.INBOUND
    version: int = 0


class TreeMulticast(EventMessage, frozen=True, tag="Multicast"):
    """An event on its way down the tree."""

    traffic: ClassVar[Traffic] = Traffic.EVENT
    version: int = 0


class VersionHere(SystemMessage, frozen=True, tag="Here"):
    """I use this version and sit at this position; `asks`: and you? `is_sure`: not freshly started.

    `near` are the peers next to me on the ring, so that neighbours who have missed each other meet (Chord's stabilise).
    """

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE
    version: int
    position: int
    asks: bool = False
    is_sure: bool = True
    near: tuple[tuple[int, int], ...] = ()


class OtherVersion(SystemMessage, frozen=True, tag="InForce"):
    """Another version than yours is in use; you had position `position` in it, if `is_known`."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    version: int
    position: int
    is_known: bool
    revoked: int


class Announce(SystemMessage, frozen=True):
    """In the new plane I sit here."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    position: int


class Handover(SystemMessage, frozen=True):
    """Step 3.1, on its way to whoever takes `position` in the new plane: topics and positions of their children."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    origin: int
    position: int
    table: tuple[tuple[Topic, tuple[int, ...]], ...]
    hops: int = 1


class HandoverTaken(SystemMessage, frozen=True):
    """I have your table."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int


class Adopt(SystemMessage, frozen=True):
    """In the new plane you are my child in these topics' trees (topic, epoch)."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    edges: tuple[tuple[Topic, int], ...]


class Adopted(SystemMessage, frozen=True):
    """I know."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int


MESSAGES: tuple[type[SystemMessage], ...] = (
    RootJoin,
    TreeGraft,
    Prune,
    Dissolve,
    EdgeAlive,
    Inbound,
    TreeMulticast,
    VersionHere,
    OtherVersion,
    Announce,
    Handover,
    HandoverTaken,
    Adopt,
    Adopted,
    AskState,
    TellState,
    *RECONFIGURATION_MESSAGES,
    *RELIABLE_MESSAGES,
)
