"""Slices: what one node is told of a design. The plan itself is in `coterie.plans`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from coterie.model.design import Bundles, Design
from coterie.model.relation import Relation

COORDINATOR = "coordinator"  # the setting of systems where one node tells the others what to do
Topic = int | str  # dense indices in the laboratory, MQTT topic names in the live network


class Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """A node to keep a link to, where it sits on the ring (0 where there is none), and what the link costs.

    `zone` is where it stands, if the plan has zones; `is_beside`: a link that zones add to those of the system below.
    """

    node: int
    position: int = 0
    cost: float = 1.0
    zone: int = 0
    is_beside: bool = False


class ChannelPart(msgspec.Struct, frozen=True, array_like=True):
    """What a node has to know of a channel that carries several topics."""

    channel: int
    topics: tuple[Topic, ...]
    is_member: bool = True


class HomePart(msgspec.Struct, frozen=True, array_like=True):
    """The topics whose home is this node."""

    node: int
    topics: tuple[Topic, ...]


class Slice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that one node is told by a plan; trees are not in it, the nodes build them."""

    version: int
    system: str
    node: int
    position: int = 0
    neighbours: tuple[Neighbour, ...] = ()
    channels: tuple[ChannelPart, ...] = ()
    homes: tuple[HomePart, ...] = ()
    zone: int = 0
    settings: dict[str, float | int | str | bool] = {}


def renumbered(part: Slice, numbers: Sequence[int]) -> Slice:
    """A slice whose design counts nodes from 0, in the words of a network: node -> its number there."""
    settings = dict(part.settings)
    if COORDINATOR in settings:  # a node of the plan, too
        settings[COORDINATOR] = numbers[int(settings[COORDINATOR])]
    neighbours = tuple(msgspec.structs.replace(one, node=numbers[one.node]) for one in part.neighbours)
    homes = tuple(HomePart(numbers[one.node], one.topics) for one in part.homes)
    return msgspec.structs.replace(
        part, node=numbers[part.node], neighbours=neighbours, homes=homes, settings=settings
    )  # fmt: skip


def named(part: Slice, names: Sequence[str]) -> Slice:
    """A slice whose design counts topics, in the words of a network, which knows them by name."""
    channels, homes = (
        tuple(
            msgspec.structs.replace(one, topics=tuple(names[topic] for topic in one.topics if isinstance(topic, int)))
            for one in told
        )
        for told in (part.channels, part.homes)
    )
    return msgspec.structs.replace(part, channels=channels, homes=homes)


def slices(design: Design, nodes: Sequence[int] | None = None, version: int = 0) -> list[Slice]:
    """The slices of these nodes (of all, by default): whom they know, and the channels of several topics they join."""
    overlay = design.overlay
    positions = [0] * design.node_count if overlay.positions is None else overlay.positions.tolist()
    zones = [0] * design.node_count if overlay.zone_of is None else overlay.zone_of.tolist()
    everyone = tuple(Neighbour(node, positions[node], zone=zone) for node, zone in enumerate(zones))
    channels, homes, chosen = _told(design), _homes(design), _chosen(design)

    def neighbours(node: int) -> tuple[Neighbour, ...]:
        if overlay.is_complete:
            return everyone[:node] + everyone[node + 1 :]
        found = [everyone[peer] for peer in overlay.links.row(node).tolist()]
        if overlay.costs is not None:
            costs = overlay.costs[overlay.links.indptr[node] : overlay.links.indptr[node + 1]].tolist()
            found = [msgspec.structs.replace(one, cost=cost) for one, cost in zip(found, costs, strict=True)]
        if overlay.beside is not None:
            beside = set(overlay.beside.row(node).tolist())
            found = [msgspec.structs.replace(one, is_beside=one.node in beside) for one in found]
        return tuple(found)

    return [
        Slice(
            version=version,
            system=design.system,
            node=node,
            position=positions[node],
            neighbours=neighbours(node),
            channels=channels(node),
            homes=homes,
            zone=zones[node],
            settings=chosen,
        )
        for node in (range(design.node_count) if nodes is None else nodes)
    ]


def _chosen(design: Design) -> dict[str, float | int | str | bool]:
    """What nodes must be told of what a system settled: the kind of its links, each of which has nodes of its own, and
    which node coordinates, for that has another number in a network."""
    links, coordinator = design.settings.get("links"), design.settings.get(COORDINATOR)
    told: dict[str, float | int | str | bool] = {"links": links} if isinstance(links, str) else {}
    return told | ({COORDINATOR: coordinator} if isinstance(coordinator, int) else {})


def _homes(design: Design) -> tuple[HomePart, ...]:
    """Every topic that is wanted or published by its home; about others nodes agree without being told."""
    if not design.trees.has_homes:
        return ()
    root, members = design.trees.root, design.trees.members
    used = members.lengths > 0
    used[design.entries.channel] = True
    topics = np.flatnonzero(used)
    topics = topics[np.argsort(root[topics], kind="stable")]
    nodes, first = np.unique(root[topics], return_index=True)
    groups = np.split(topics, first[1:]) if len(nodes) else []
    return tuple(HomePart(int(node), tuple(some.tolist())) for node, some in zip(nodes, groups, strict=True))


def _told(design: Design) -> Callable[[int], tuple[ChannelPart, ...]]:
    """Node -> the channels of several topics it joins; of bundles it is told all, since it may publish into each."""
    if design.bundles is not None:
        return _told_bundles(design.bundles)
    parts = _parts(design.channels.topics, 0)
    if not parts:
        return lambda node: ()
    channels_of = design.trees.members.transposed
    return lambda node: tuple(parts[channel] for channel in channels_of.row(node).tolist() if channel in parts)


def _told_bundles(bundles: Bundles) -> Callable[[int], tuple[ChannelPart, ...]]:
    """Bundles count on from the topics; those without members are not worth a copy."""
    first = bundles.topics.column_count
    used = (np.flatnonzero(bundles.members.lengths) + first).tolist()
    joined = _parts(bundles.topics, first)
    known = {channel: msgspec.structs.replace(part, is_member=False) for channel, part in joined.items()}
    bundles_of = bundles.members.transposed

    def channels(node: int) -> tuple[ChannelPart, ...]:
        own = {bundle + first for bundle in bundles_of.row(node).tolist()}
        return tuple(joined[channel] if channel in own else known[channel] for channel in used if channel in joined)

    return channels


def _parts(topics: Relation, first: int) -> dict[int, ChannelPart]:
    several = np.flatnonzero(topics.lengths > 1).tolist()
    return {first + row: ChannelPart(first + row, tuple(topics.row(row).tolist())) for row in several}
