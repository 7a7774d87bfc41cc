"""What nodes say about clusters, besides Scribe's own messages."""

from __future__ import annotations

from typing import ClassVar

from coterie.model import Topic
from coterie.protocol.events import EventMessage
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic


class ClusterJoin(SystemMessage, frozen=True):
    """I want this cluster's events from you; these are its topics, as far as I know."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    cluster: str
    version: int
    topics: tuple[Topic, ...]


class ClusterAlive(SystemMessage, frozen=True):
    """I am still your parent in this cluster's tree, and know this version of it."""

    traffic: ClassVar[Traffic] = Traffic.TREE_KEEPALIVE
    cluster: str
    version: int


class AskCluster(SystemMessage, frozen=True):
    """Which topics does this cluster have?"""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    cluster: str


class TellCluster(SystemMessage, frozen=True):
    """These; passed down the tree when they change."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    cluster: str
    version: int
    topics: tuple[Topic, ...]


class Associate(SystemMessage, frozen=True):
    """From a cluster's root to the root of one of its topics, hop by hop: send me this topic's events."""

    traffic: ClassVar[Traffic] = Traffic.ASSOCIATION
    topic: Topic
    cluster: str
    topics: tuple[Topic, ...]  # all of the cluster's, for those who consult the topic's root


class Dissociate(SystemMessage, frozen=True):
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


CLUSTER_MESSAGES: tuple[type[SystemMessage], ...] = (
    ClusterJoin,
    ClusterAlive,
    AskCluster,
    TellCluster,
    Associate,
    Dissociate,
    ClusterPublish,
    ClusterMulticast,
)


# --- what adapts clusters (Tamara+) ---


class Consult(SystemMessage, frozen=True):
    """To a topic's root, hop by hop: this user has subscribed directly; which clusters have the topic?"""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    topic: Topic
    user: int


class Advice(SystemMessage, frozen=True):
    """From a topic's root: clusters with the topic, as (name, topics)."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    topic: Topic
    clusters: tuple[tuple[str, tuple[Topic, ...]], ...]


class SubscriberMoved(SystemMessage, frozen=True, tag="Moved"):
    """To a channel's root, hop by hop: a subscriber has come or gone, so many updates after a user's wish."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    channel: Topic
    is_coming: bool
    depth: int


class Notice(SystemMessage, frozen=True):
    """To a cluster's root, hop by hop: a member subscribed to this topic directly, or does not want it any more."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    cluster: str
    topic: Topic
    is_leaving: bool


class Survey(SystemMessage, frozen=True):
    """Down a channel's tree: with this probability, tell the root which channels you are on."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    channel: Topic
    number: int
    root: int
    probability: float


class Answer(SystemMessage, frozen=True):
    """To the root: my channels, and the topics I get from this one alone."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    channel: Topic
    number: int
    channels: tuple[Topic, ...]
    needed: tuple[Topic, ...]


class Propose(SystemMessage, frozen=True):
    """To a partner channel's root, hop by hop: so many subscribers in common; shall we merge?"""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    channel: Topic
    proposer: Topic
    root: int
    topics: tuple[tuple[Topic, float], ...]  # with their rates
    size: float
    shared: float
    depth: int


class MergeVerdict(SystemMessage, frozen=True, tag="Verdict"):
    """To the proposer's root: your subscribers are welcome in this cluster, or (empty name) nothing changes."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    channel: Topic
    cluster: str
    topics: tuple[Topic, ...]
    version: int
    depth: int


class Invite(SystemMessage, frozen=True):
    """Down a channel's tree: take the cluster instead."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    channel: Topic
    cluster: str
    topics: tuple[Topic, ...]
    version: int
    depth: int


ADAPTATION_MESSAGES: tuple[type[SystemMessage], ...] = (
    Consult,
    Advice,
    SubscriberMoved,
    Notice,
    Survey,
    Answer,
    Propose,
    MergeVerdict,
    Invite,
)
