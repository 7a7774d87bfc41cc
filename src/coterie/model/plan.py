"""A plan: a versioned design cut into one slice per node, with its predicted ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from coterie.model.design import Design
from coterie.model.ledger import Ledger

Topic = int | str  # dense indices in the laboratory, MQTT topic names in the live network


class Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """A node to keep a link to, and where it sits on the ring (0 where there is none)."""

    node: int
    position: int = 0


class ChannelPart(msgspec.Struct, frozen=True, array_like=True):
    """What a node has to know of a channel that carries several topics."""

    channel: int
    topics: tuple[Topic, ...]


class Slice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that one node is told by a plan; trees are not in it, the nodes build them."""

    version: int
    system: str
    node: int
    position: int = 0
    neighbours: tuple[Neighbour, ...] = ()
    channels: tuple[ChannelPart, ...] = ()
    settings: dict[str, float | int | str | bool] = {}


@dataclass(frozen=True, eq=False)
class Plan:
    """Version `version` of what the network should look like, and what that is predicted to cost."""

    version: int
    design: Design
    predicted: Ledger  # on the window it was learned from
    later: Ledger | None  # on a later window

    def slice_of(self, node: int) -> Slice:
        return slices(self.design, [node], self.version)[0]


def slices(design: Design, nodes: Sequence[int] | None = None, version: int = 0) -> list[Slice]:
    """The slices of these nodes (of all, by default): whom they know, and the channels of several topics they join."""
    overlay = design.overlay
    positions = [0] * design.node_count if overlay.positions is None else overlay.positions.tolist()
    everyone = tuple(Neighbour(node, position) for node, position in enumerate(positions))

    parts = {
        channel: ChannelPart(channel, tuple(design.channels.topics.row(channel).tolist()))
        for channel in np.flatnonzero(design.channels.topics.lengths > 1).tolist()
    }
    channels_of = design.trees.members.transposed if parts else None

    def channels(node: int) -> tuple[ChannelPart, ...]:
        if channels_of is None:
            return ()
        return tuple(parts[channel] for channel in channels_of.row(node).tolist() if channel in parts)

    def neighbours(node: int) -> tuple[Neighbour, ...]:
        if overlay.is_complete:
            return everyone[:node] + everyone[node + 1 :]
        return tuple(everyone[peer] for peer in overlay.links.row(node).tolist())

    return [
        Slice(
            version=version,
            system=design.system,
            node=node,
            position=positions[node],
            neighbours=neighbours(node),
            channels=channels(node),
        )
        for node in (range(design.node_count) if nodes is None else nodes)
    ]
