"""What brokers and their coordinator say to each other."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from coterie.model import Topic
from coterie.protocol.events import EventMessage
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Documents of this topic on this group's tree go over these links, and somebody here may subscribe to them.

    Where the topic is a filter, it is a conjunction of what is wanted beyond those links, covered and merged. Without
    links and subscriber the entry is to be forgotten.
    """

    group: int
    topic: Topic
    links: tuple[int, ...]
    is_host: bool

    @property
    def is_empty(self) -> bool:
        return not self.links and not self.is_host


class TreePlace(msgspec.Struct, frozen=True, array_like=True):
    """A node's place in a group's tree; the root's parent is -1."""

    group: int
    parent: int
    children: tuple[int, ...]


class Document(EventMessage, frozen=True):
    """A document on the tree of one group of one version of the strategy: one copy per link and tree."""

    traffic: ClassVar[Traffic] = Traffic.EVENT
    version: int
    group: int


class BrokerReport(SystemMessage, frozen=True, tag="Report"):
    """All that the coordinator has to know of a broker. `life` changes when it restarts, `number` with each report."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    life: int
    number: int
    version: int
    neighbours: tuple[int, ...]
    topics: tuple[Topic, ...]
    costs: tuple[float, ...] = ()  # of the links to the neighbours; without them, 1 each


class Known(SystemMessage, frozen=True):
    """Every broker that is up routes by this report."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    number: int


class AskReport(SystemMessage, frozen=True, tag="Tell"):
    """The coordinator does not know you: report."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY


class BrokerHere(SystemMessage, frozen=True, tag="Here"):
    """A broker is alive and routes by this version."""

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP
    life: int
    version: int


class Suspect(SystemMessage, frozen=True):
    """A broker could not reach its neighbour."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    peer: int


class Install(SystemMessage, frozen=True):
    """The routing tables of a version. It is used for documents marked with it, and for new ones after the switch."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    revision: int
    branches: tuple[TreePlace, ...]
    entries: tuple[Entry, ...]


class Amend(SystemMessage, frozen=True):
    """Entries of a version that changed because subscriptions came or went; holds everything not acknowledged yet."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    version: int
    revision: int
    entries: tuple[Entry, ...]


class Ready(SystemMessage, frozen=True):
    """The broker has applied everything up to this revision of this version."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int
    revision: int


class UseVersion(SystemMessage, frozen=True, tag="Switch"):
    """Everybody has this version: publish by it."""

    traffic: ClassVar[Traffic] = Traffic.RECONFIGURATION
    version: int


class DocumentSample(SystemMessage, frozen=True, tag="Sample"):
    """A document published at the sender, drawn with probability p (section VI); attributes only if filters exist."""

    traffic: ClassVar[Traffic] = Traffic.CLUSTERING
    topic: Topic
    attributes: dict[str, float | str] = msgspec.field(default_factory=dict)
    size_bytes: int = 0


class LinkAlive(SystemMessage, frozen=True, tag="Alive"):
    """The link between two brokers works; one per link and direction serves all trees."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE


MESSAGES: tuple[type[SystemMessage], ...] = (
    Document,
    BrokerReport,
    Known,
    AskReport,
    BrokerHere,
    Suspect,
    Install,
    Amend,
    Ready,
    UseVersion,
    DocumentSample,
    LinkAlive,
)
