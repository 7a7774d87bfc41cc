"""Slices that tell every node the clusters it is a member of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coterie.model import Design
from coterie.model.plan import ChannelPart, Slice
from coterie.model.plan import slices as plain_slices


def slices(design: Design, nodes: Sequence[int] | None = None, version: int = 0) -> list[Slice]:
    channels_of = design.trees.members.transposed
    topics = design.channels.topics

    def parts(node: int) -> tuple[ChannelPart, ...]:
        return tuple(
            ChannelPart(channel, tuple(topics.row(channel).tolist()))
            for channel in channels_of.row(node).tolist()
            if len(topics.row(channel)) > 1
        )

    return [msgspec.structs.replace(one, channels=parts(one.node)) for one in plain_slices(design, nodes, version)]
