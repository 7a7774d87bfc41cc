"""What nodes say about clusters, besides Scribe's own messages."""

from __future__ import annotations

from typing import ClassVar

from coterie.model import Topic
from coterie.protocol.events import EventMessage
from coterie.protocol.wire import Message
from coterie.trace import Traffic


class ClusterJoin(Message, frozen=True):
    """I want this cluster's events from you; these are its topics, as far as I know."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    cluster: str
    version: int
    topics: tuple[Topic, ...]


class ClusterAlive(Message, frozen=True):
    """I am still your parent in this cluster's tree, and know this version of it."""

    traffic: ClassVar[Traffic] = Traffic.TREE_KEEPALIVE
    cluster: str
    version: int


class AskCluster(Message, frozen=True):
    """Which topics does this cluster have?"""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    cluster: str


class TellCluster(Message, frozen=True):
    """These; passed down the tree when they change."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    cluster: str
    version: int
    topics: tuple[Topic, ...]


class Associate(Message, frozen=True):
    """From a cluster's root to the root of one of its topics, hop by hop: send me this topic's events."""

    traffic: ClassVar[Traffic] = Traffic.ASSOCIATION
    topic: Topic
    cluster: str


class Dissociate(Message, frozen=True):
    """The same way: no longer."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    topic: Topic
    cluster: str


class ClusterPublish(EventMessage, frozen=True):
    """From a topic's root on its way to a cluster's root."""

    traffic: ClassVar[Traffic] = Traffic.INBOUND
    cluster: str


class ClusterMulticast(EventMessage, frozen=True):
    """Down a cluster's tree."""

    traffic: ClassVar[Traffic] = Traffic.EVENT
    cluster: str


CLUSTER_MESSAGES: tuple[type[Message], ...] = (
    ClusterJoin,
    ClusterAlive,
    AskCluster,
    TellCluster,
    Associate,
    Dissociate,
    ClusterPublish,
    ClusterMulticast,
)
