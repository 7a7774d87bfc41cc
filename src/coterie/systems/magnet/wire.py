"""What Magnet's nodes say to each other.

Places in a tree are offsets: clockwise distances from the tree's root on the skewed ring. A node is responsible for
the offsets from its own to its `reach`, the last one included.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from coterie.model import Topic
from coterie.protocol.wire import SystemMessage
from coterie.systems.group_multicast import Multicast, ToRoot
from coterie.systems.key_routing import KEY_ROUTING_MESSAGES
from coterie.trace import Traffic

SKEWED, CONTROL = 1, 2  # rings, as bits


class Follow(SystemMessage, frozen=True):
    """A ping to one's successor on these rings, who answers if it knows somebody in between."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE
    position: int
    rings: int


class TreeJoin(SystemMessage, frozen=True, tag="Join"):
    """Looks for the node from which the way to this member leaves the tree (Algorithm 2, phases 1 and 2)."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic
    member: int
    position: int
    is_climbing: bool  # up the tree; else towards the topic's home
    hops: int


class Graft(SystemMessage, frozen=True):
    """You are my child in this tree and reach so far; pass it on towards the member (Algorithm 2, phase 3)."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic
    root: int  # the root's place on the skewed ring
    reach: int
    member: int
    position: int
    place: int  # the sender's, who may not know that the receiver has moved to somewhere before it
    stamp: int  # rises with every graft of the sender
    is_first: bool = False  # from the home to the subscriber that its tree begins with (interest-ring)


class Bound(SystemMessage, frozen=True):
    """You are still my child, but the root or your reach is another now."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic
    root: int
    reach: int


class TreeLeave(SystemMessage, frozen=True, tag="Leave"):
    """You are not my parent, whatever your grafts up to this one said; -1: nor any other. Or not for long: those below
    me are still to get another."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic
    stamp: int
    is_soon: bool = False


class Drop(SystemMessage, frozen=True):
    """You are not my child: join again. Until you leave you get events from me."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic


class ChildAlive(SystemMessage, frozen=True, tag="TreeAlive"):
    """You are my parent, and I believe this of my place (the heartbeat of section 3.3)."""

    traffic: ClassVar[Traffic] = Traffic.TREE_KEEPALIVE
    topic: Topic
    root: int
    reach: int


class Walk(SystemMessage, frozen=True):
    """A walker that samples the ring clockwise from its origin's place up to `reach` (section 2.2)."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    origin: int
    position: int
    reach: int
    hops: int
    turn: int


class Walked(SystemMessage, frozen=True):
    """Your walker has ended here; this is where I sit, what I want and what that weighs."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    turn: int
    position: int
    interest: tuple[Topic, ...]
    weight: float


class Subscriber(msgspec.Struct, frozen=True, array_like=True):
    """Who wants a topic: where it sits, what it wants, and what all that weighs (section 2.1)."""

    node: int
    position: int
    interest: tuple[Topic, ...]
    weight: float


class Sample(SystemMessage, frozen=True):
    """Subscribers of a topic and their interests, on the way up the control tree (section 3.4)."""

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP
    topic: Topic
    subscribers: tuple[Subscriber, ...]


class View(SystemMessage, frozen=True):
    """The sample that the home has settled on, on the way down the control tree, or to somebody who asked."""

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP
    topic: Topic
    rate: float  # events per interval, as the home has counted
    subscribers: tuple[Subscriber, ...]


class AskView(SystemMessage, frozen=True):
    """To the home: whom should I know of those who want this topic?"""

    traffic: ClassVar[Traffic] = Traffic.MEMBERSHIP
    topic: Topic
    origin: int
    hops: int


class AskPlace(SystemMessage, frozen=True):
    """I would like to sit behind you (section 3.2)."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    position: int


class TellPlace(SystemMessage, frozen=True):
    """I sit here and my successor there; these would be your neighbours."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    position: int
    successor: int
    successor_position: int
    contacts: tuple[tuple[int, int], ...]


class AskLikes(SystemMessage, frozen=True):
    """You are a link of mine: tell me what you want, now and whenever it changes."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY


class Wants(SystemMessage, frozen=True, tag="Likes"):
    """What I want."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    topics: tuple[Topic, ...]


TREE_MESSAGES: tuple[type[SystemMessage], ...] = (
    Follow,
    Walk,
    Walked,
    TreeJoin,
    Graft,
    Bound,
    TreeLeave,
    Drop,
    ChildAlive,
    ToRoot,
    Multicast,
    *KEY_ROUTING_MESSAGES,
)
MAGNET_MESSAGES: tuple[type[SystemMessage], ...] = (Sample, View, AskView, AskPlace, TellPlace, *TREE_MESSAGES)
INTEREST_MESSAGES: tuple[type[SystemMessage], ...] = (AskLikes, Wants, *MAGNET_MESSAGES)
