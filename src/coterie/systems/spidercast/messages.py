"""What SpiderCast's nodes say to each other: Figure 4's messages, heartbeats, gossip, beacons and events."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from coterie.model.plan import Topic
from coterie.protocol.events import EventMessage
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic

Standing = tuple[int, int]  # degree and target of one task
ASK, JOIN, REPLY, HANDOVER = range(4)  # steps of a gossip exchange


class Descriptor(msgspec.Struct, frozen=True, array_like=True):
    """What one node says of itself; `version` rises when its interest changes, so the newest word wins."""

    node: int
    position: int = 0
    interest: tuple[Topic, ...] = ()
    version: int = 0
    age: int = 0


class Heartbeat(SystemMessage, frozen=True):
    """I am here; this is my standing in the greedy and the random task, and this is what I want (section 2.3)."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE

    greedy: Standing
    random: Standing
    interest: tuple[Topic, ...]


class InterestChange(SystemMessage, frozen=True, tag="Interest"):
    """What I want has changed (section 2.4), told at once so that no event goes astray until the next heartbeat."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION

    interest: tuple[Topic, ...]


class LinkConnect(SystemMessage, frozen=True, tag="Connect"):
    """Be my neighbour in this task. A repair must be accepted and is kept: it joins two parts of a topic."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    task: int
    standing: Standing
    interest: tuple[Topic, ...]
    is_repair: bool = False


class ConnectOk(SystemMessage, frozen=True):
    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    task: int
    standing: Standing
    interest: tuple[Topic, ...]
    is_repair: bool = False


class Redirect(SystemMessage, frozen=True):
    """I have enough; `node`, who wants much of what you want, may have room (-1: I know nobody)."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    task: int
    node: int


class LinkDisconnect(SystemMessage, frozen=True, tag="Disconnect"):
    """I can spare our link; can you?"""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    task: int


class DisconnectOk(SystemMessage, frozen=True):
    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    task: int


class LinkLeave(SystemMessage, frozen=True, tag="Leave"):
    """We are no neighbours (any more); if it is final, because I stop."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    is_final: bool = False


class Exchange(SystemMessage, frozen=True):
    """A handful of what I know, and for each topic I want the lowest member I can reach inside it (its label).

    Who has just come asks to JOIN; who has learned enough answers with a HANDOVER of much of its view.
    """

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP

    known: tuple[Descriptor, ...]
    labels: tuple[tuple[Topic, int], ...]
    step: int = ASK
    gone: tuple[tuple[int, int], ...] = ()  # who is gone, and milliseconds since that was found


class Beacon(SystemMessage, frozen=True):
    """(topic, lowest member, its count) for topics whose lowest member has just been heard of."""

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP

    heard: tuple[tuple[Topic, int, int], ...]


class Foreign(SystemMessage, frozen=True):
    """To the lowest member of one part of a topic: `node` belongs to another part, link to it."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY

    topic: Topic
    node: int


class TopicFlood(EventMessage, frozen=True, tag="Flood"):
    """An event inside its topic."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


class Enter(EventMessage, frozen=True):
    """An event from outside on its way to a member; `trail` is where it has been."""

    traffic: ClassVar[Traffic] = Traffic.INBOUND

    trail: tuple[int, ...]


MESSAGES = (
    Heartbeat,
    InterestChange,
    LinkConnect,
    ConnectOk,
    Redirect,
    LinkDisconnect,
    DisconnectOk,
    LinkLeave,
    Exchange,
    Beacon,
    Foreign,
    TopicFlood,
    Enter,
)
