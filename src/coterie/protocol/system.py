"""A system: a named way to plan (bulk form) and to run (protocol), built from stages that compose.

A stage is a plain function from the workload and the columns to its left to its own column. `Stages.plan` runs all
four; `Stages.adopt` keeps what a design has learned (placement, channels, overlay) and only rebuilds the trees for
another workload, which is how a design is priced on a later window than the one it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model import Channels, Design, Entries, Overlay, Placement, Relation, Trees, Workload
from coterie.model.design import Upkeep
from coterie.model.parameters import configure
from coterie.model.relation import Index
from coterie.protocol.node import Node
from coterie.protocol.wire import Codec, SystemMessage


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of a system's parameters; `__post_init__` validates and raises ConfigError."""


def check_period(key: str, value: float) -> None:
    """How often something is said, in seconds; more than once a millisecond is a mistake."""
    if not 0.001 <= value < float("inf"):
        raise ConfigError(key, value, "seconds, at least 0.001")


def check_count(key: str, value: float) -> None:
    """How many of something there are, or may be."""
    if value < 1:
        raise ConfigError(key, value, "at least 1")


def attach_as_given(workload: Workload, parameters: Any, seed: int) -> Placement:
    """The placement of systems that do not place: everybody stays where they are."""
    return Placement(workload.attachment, workload.node_count)


def beats_on_links(parameters: Any) -> Upkeep:
    """Heartbeats on links alone: trees run on links, or there are none."""
    return Upkeep(tree=0.0, link=1 / parameters.link_heartbeat_s)


def beats_on_trees_and_links(parameters: Any) -> Upkeep:
    return Upkeep(1 / parameters.tree_heartbeat_s, 1 / parameters.link_heartbeat_s)


def one_channel_per_topic(workload: Workload, placement: Placement, parameters: Any, seed: int) -> Channels:
    return Channels.one_per_topic(workload.topic_count)


@dataclass(frozen=True)
class Ordered:
    """A ring whose order may be computed by somebody else, a cluster for example: by what, and the ring it makes."""

    likes: Callable[[Workload, Placement, Any], tuple[Relation, NDArray[np.float64]]]  # node -> topics; topic weights
    overlay: Callable[[Workload, Placement, Channels, Any, int, Index], Overlay]  # with the nodes in ring order


@dataclass(frozen=True)
class Stages:
    """The four columns of a design as functions; parameters are the system's own."""

    overlay: Callable[[Workload, Placement, Channels, Any, int], Overlay]
    trees: Callable[[Workload, Placement, Channels, Overlay, Any, int], tuple[Trees, Entries]]
    placement: Callable[[Workload, Any, int], Placement] = attach_as_given
    channels: Callable[[Workload, Placement, Any, int], Channels] = one_channel_per_topic
    upkeep: Callable[[Any], Upkeep] = lambda parameters: Upkeep()
    announcements: Callable[[Workload, Placement, Overlay, Any], float | None] | None = None
    """Messages by which nodes tell their wishes at first, where that is not one per tree edge (None)."""
    ordered: Ordered | None = None  # `overlay` in two halves, where the first takes long
    imbalance: Callable[[Any], float | None] = lambda parameters: None
    """How far above the mean load a node may be, where users may be placed by somebody else (a cluster) for the fewest
    copies between nodes; None: `placement` alone knows where they go."""
    in_blocks: Callable[[Workload, Any, Callable[[Workload, Any], Any]], Any] | None = None
    """The system's own placement by means of such a cluster: `place(workload, balance)` places a crowd. Where the
    result is None, one process does all of it."""

    def plan(
        self,
        system: str,
        workload: Workload,
        parameters: Parameters,
        seed: int,
        order: Index | None = None,
        node_of: Index | None = None,
    ) -> Design:
        """With an order of the ring and a placement, if they were computed elsewhere."""
        if node_of is None:
            placement = self.placement(workload, parameters, seed)
        else:
            placement = Placement(node_of, workload.node_count)
        channels = self.channels(workload, placement, parameters, seed)
        if order is None or self.ordered is None:
            overlay = self.overlay(workload, placement, channels, parameters, seed)
        else:
            overlay = self.ordered.overlay(workload, placement, channels, parameters, seed, order)
        return self._finish(system, workload, placement, channels, overlay, parameters, seed)

    def adopt(self, design: Design, workload: Workload, parameters: Parameters, seed: int) -> Design:
        """The same network under another workload; subscribers it never saw stay where they are attached."""
        if workload.topic_count != design.channels.topics.column_count or workload.node_count != design.node_count:
            raise ConfigError("workload", workload.name, "the topics and nodes that the design was made for")
        node_of = workload.attachment.copy()
        known = min(len(node_of), len(design.placement.node_of))
        node_of[:known] = design.placement.node_of[:known]
        placement = Placement(node_of, workload.node_count)
        return self._finish(design.system, workload, placement, design.channels, design.overlay, parameters, seed)

    def _finish(
        self,
        system: str,
        workload: Workload,
        placement: Placement,
        channels: Channels,
        overlay: Overlay,
        parameters: Parameters,
        seed: int,
    ) -> Design:
        trees, entries = self.trees(workload, placement, channels, overlay, parameters, seed)
        settings = {**msgspec.to_builtins(parameters), "seed": seed}
        told = None if self.announcements is None else self.announcements(workload, placement, overlay, parameters)
        return Design(
            system, placement, channels, overlay, trees, entries, settings, self.upkeep(parameters), announcements=told
        )


@dataclass(frozen=True)
class System:
    """One row of the table of systems. Drivers and planners know nothing else of a paper."""

    name: str
    title: str
    paper: str
    parameters: type[Parameters]
    stages: Stages
    node: Callable[[int, Any, Random], Node]  # address, parameters, randomness
    messages: tuple[type[SystemMessage], ...]
    fits: Callable[[Workload], bool] = lambda workload: True  # whether it can serve such a workload at all
    settles_s: float = 0.0  # how long a subscription takes whose end its nodes do not notice; 0: they do

    def plan(
        self,
        workload: Workload,
        parameters: Parameters | None = None,
        seed: int = 0,
        order: Index | None = None,
        node_of: Index | None = None,
    ) -> Design:
        return self.stages.plan(self.name, workload, parameters or self.parameters(), seed, order, node_of)

    def adopt(self, design: Design, workload: Workload, parameters: Parameters | None = None, seed: int = 0) -> Design:
        return self.stages.adopt(design, workload, parameters or self.parameters(), seed)

    def codec(self) -> Codec:
        return Codec(self.messages)

    def configure(self, settings: Mapping[str, object]) -> Parameters:
        return configure(self.parameters, settings, f"system {self.name}")


def node_random(seed: int, address: int) -> Random:
    """Each node's own randomness: independent between nodes, the same for the same seed anywhere."""
    return Random(int(np.random.SeedSequence([seed, address]).generate_state(1, np.uint64)[0]))
