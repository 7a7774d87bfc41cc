"""A node of whichever links were chosen: the plan's slice says it, and another plan may say something else."""

from __future__ import annotations

from random import Random

import msgspec

from coterie.model import Topic
from coterie.protocol.events import Effect, Input, Planned, Started, Subscribed, Unsubscribed
from coterie.protocol.node import Node, NodeState
from coterie.systems.content.node import ContentNode
from coterie.systems.coterie.links import KINDS, below
from coterie.systems.coterie.parameters import AUTO, LEAN, CoterieParameters


class CoterieNode:
    """Hands everything on to the node of its links; when a plan changes the kind, to a new one that is told all."""

    def __init__(self, address: int, parameters: CoterieParameters, random: Random) -> None:
        self._address, self._parameters, self._random = address, parameters, random
        self._topics: dict[Topic, None] = {}
        self._chosen = ("", 0)
        self._node: Node | None = None

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if isinstance(event, Started | Planned):
            told = event.slice.settings
            links = str(told.get("links", self._parameters.links))
            chosen = (LEAN if links == AUTO else links, int(told.get("coordinator", self._parameters.coordinator)))
            if chosen != self._chosen:
                self._chosen, self._node = chosen, self._made(*chosen)
                done = self._node.step(Started(event.slice), now_s)
                for topic in self._topics:
                    done += self._node.step(Subscribed(topic), now_s)
                return done
        elif isinstance(event, Subscribed):
            self._topics[event.topic] = None
        elif isinstance(event, Unsubscribed):
            self._topics.pop(event.topic, None)
        assert self._node is not None, "a node is started before anything else happens to it"
        return self._node.step(event, now_s)

    def _made(self, links: str, coordinator: int) -> Node:
        if links not in KINDS:
            parameters = msgspec.structs.replace(self._parameters, coordinator=coordinator)
            return ContentNode(self._address, parameters, self._random)
        return KINDS[links].node(self._address, below(self._parameters, links), self._random)

    def state(self) -> NodeState:
        return NodeState() if self._node is None else self._node.state()
