"""The state machine every system is: `step` takes one fact and returns the orders that follow.

`Node` is all that a driver knows. `OverlayNode` is what systems build on: it turns inputs into hooks (`on_subscribe`,
`on_receive`, ...) and gives the verbs (`send`, `deliver`, `set_timer`), so that a module reads like its paper. A node
has no clock, no randomness but its own `Random`, no I/O and no log; what it must remember is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

import msgspec

from coterie.model.plan import Slice, Topic
from coterie.protocol.events import (
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Effective,
    Event,
    Input,
    PeerLost,
    Pending,
    Planned,
    Published,
    Received,
    Send,
    SetTimer,
    Started,
    Stopping,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from coterie.protocol.wire import SystemMessage


class NodeState(msgspec.Struct, frozen=True):
    """What a node remembers of the structure, for the ledger and for people; never used by other nodes."""

    links: tuple[int, ...] = ()  # peers in its routing state
    parents: tuple[tuple[int | str, int], ...] = ()  # (channel, parent) of every tree it is on, but as root
    children: tuple[tuple[int | str, int], ...] = ()  # (channel, child)
    memberships: tuple[int | str, ...] = ()  # channels it is a member of


class Node(Protocol):
    """All that a driver knows of a node."""

    def step(self, event: Input, now_s: float) -> list[Effect]: ...

    def state(self) -> NodeState: ...


class OverlayNode:
    """Hooks and verbs. Subclasses override the hooks they need and call the verbs inside them."""

    def __init__(self, address: int, random: Random) -> None:
        self.address = address
        self.random = random
        self.now_s = 0.0
        self._effects: list[Effect] = []
        self._hooks: dict[type, Callable[[Any], None]] = {
            Subscribed: lambda event: self.on_subscribe(event.topic),
            Unsubscribed: lambda event: self.on_unsubscribe(event.topic),
            TimerFired: lambda event: self.on_timer(event.timer),
            PeerLost: lambda event: self.on_peer_lost(event.peer),
            Started: lambda event: self.on_start(event.slice),
            Planned: lambda event: self.on_plan(event.slice),
            Stopping: lambda event: self.on_stop(),
        }

    def step(self, event: Input, now_s: float) -> list[Effect]:
        self.now_s = now_s
        if type(event) is Received:
            self.on_receive(event.source, event.message)
        elif type(event) is Published:
            self.on_publish(event.event)
        else:
            self._hooks[type(event)](event)
        effects = self._effects
        self._effects = []
        return effects

    # --- verbs ---

    def send(self, to: int, message: SystemMessage) -> None:
        self._effects.append(Send((to,), message))

    def send_all(self, to: Iterable[int], message: SystemMessage) -> None:
        targets = tuple(to)
        if targets:
            self._effects.append(Send(targets, message))

    def deliver(self, event: Event, hops: int) -> None:
        self._effects.append(Deliver(event, hops))

    def discard(self, event: Event) -> None:
        self._effects.append(Discard(event))

    def pend(self, topic: Topic) -> None:
        self._effects.append(Pending(topic))

    def settle(self, topic: Topic) -> None:
        self._effects.append(Effective(topic))

    def set_timer(self, timer: Timer, delay_s: float) -> None:
        self._effects.append(SetTimer(timer, delay_s))

    def cancel_timer(self, timer: Timer) -> None:
        self._effects.append(CancelTimer(timer))

    # --- hooks ---

    def on_start(self, slice: Slice) -> None:
        """Take the position and the first neighbours."""

    def on_subscribe(self, topic: Topic) -> None:
        raise NotImplementedError

    def on_unsubscribe(self, topic: Topic) -> None:
        raise NotImplementedError

    def on_publish(self, event: Event) -> None:
        raise NotImplementedError

    def on_receive(self, source: int, message: SystemMessage) -> None:
        raise NotImplementedError

    def on_timer(self, timer: Timer) -> None:
        """A timer is due."""

    def on_peer_lost(self, peer: int) -> None:
        """The transport could not reach a peer."""

    def on_plan(self, slice: Slice) -> None:
        """By default a plan that arrives is taken like the first one."""
        self.on_start(slice)

    def on_stop(self) -> None:
        """Good-byes that save others from finding out."""

    def state(self) -> NodeState:
        raise NotImplementedError
