"""All that can be said to a node and all that a node can order: facts in, orders out."""

from __future__ import annotations

import msgspec

from coterie.model.plan import Slice, Topic
from coterie.protocol.wire import SystemMessage

Timer = str | tuple[str | int, ...]


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A published event. `id` is unique in the network; the driver that publishes it makes it."""

    id: int
    topic: Topic
    payload: bytes = b""


class EventMessage(SystemMessage, frozen=True):
    """Base of the messages that carry an event: `hops` counts the links it has crossed when it arrives."""

    event: Event
    hops: int


# --- inputs: what happened, in the past tense -----------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True):
    """The node exists from now on; its slice of the first plan says where it sits and whom it knows."""

    slice: Slice


class Subscribed(msgspec.Struct, frozen=True, gc=False):
    """The first local subscriber of this topic arrived."""

    topic: Topic


class Unsubscribed(msgspec.Struct, frozen=True, gc=False):
    """The last local subscriber of this topic left."""

    topic: Topic


class Published(msgspec.Struct, frozen=True):
    """A local client published this event; it must reach every interested node exactly once."""

    event: Event


class Received(msgspec.Struct, frozen=True):
    """A peer sent this message."""

    source: int
    message: SystemMessage


class TimerFired(msgspec.Struct, frozen=True):
    """A timer set earlier is due; it is no longer set."""

    timer: Timer


class PeerLost(msgspec.Struct, frozen=True, gc=False):
    """What was last sent to this peer could not be handed over: it is down or out of reach."""

    peer: int


class Planned(msgspec.Struct, frozen=True):
    """A new plan is in force; this is the node's slice of it."""

    slice: Slice


class Stopping(msgspec.Struct, frozen=True, gc=False):
    """The node is about to stop in good order: what it sends now is its last word."""


Input = Started | Subscribed | Unsubscribed | Published | Received | TimerFired | PeerLost | Planned | Stopping


# --- effects: what shall be done, in the imperative -------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Send one message to each of these peers. One effect for many receivers, so drivers can encode it once."""

    to: tuple[int, ...]
    message: SystemMessage


class SetTimer(msgspec.Struct, frozen=True):
    """Wake me in `delay_s`. Setting a timer that is set moves it."""

    timer: Timer
    delay_s: float


class CancelTimer(msgspec.Struct, frozen=True):
    timer: Timer


class Deliver(msgspec.Struct, frozen=True):
    """Hand the event to the local subscribers of its topic; `hops` is how far it came."""

    event: Event
    hops: int = 0


class Discard(msgspec.Struct, frozen=True):
    """The event came through a channel this node is a member of, but nobody here wants its topic (a local filter)."""

    event: Event


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A topic that was subscribed to does not reach this node from everywhere yet; `Effective` will say when it does.

    A system whose subscription is over when all messages that it caused have been dealt with says neither.
    """

    topic: Topic


class Effective(msgspec.Struct, frozen=True, gc=False):
    """From now on whatever anybody publishes on this topic reaches this node."""

    topic: Topic


Effect = Send | SetTimer | CancelTimer | Deliver | Discard | Pending | Effective
