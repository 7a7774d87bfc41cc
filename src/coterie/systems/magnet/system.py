"""Magnet, its strawman, and Magnet with paths that prefer the interested, as systems."""

from __future__ import annotations

from coterie.protocol.system import Ordered, Stages, System, beats_on_trees_and_links
from coterie.systems.magnet.interest import InterestNode
from coterie.systems.magnet.node import MagnetNode
from coterie.systems.magnet.orderings import likeness_ordering, likes_of
from coterie.systems.magnet.parameters import MagnetParameters, RingParameters
from coterie.systems.magnet.stages import (
    greedy_paths,
    interested_paths,
    join_order,
    ordered_overlay,
    ring_of_order,
    uniform_overlay,
    uniform_paths,
)
from coterie.systems.magnet.trees import TreeNode
from coterie.systems.magnet.wire import INTEREST_MESSAGES, MAGNET_MESSAGES, TREE_MESSAGES

SYSTEM = System(
    name="magnet",
    title="Magnet: trees on a ring ordered by interest",
    paper="Girdzijauskas et al., DEBS 2010",
    parameters=MagnetParameters,
    stages=Stages(overlay=ordered_overlay(join_order), trees=greedy_paths, upkeep=beats_on_trees_and_links),
    node=MagnetNode,
    messages=MAGNET_MESSAGES,
)

UNIFORM = System(
    name="magnet-uniform",
    title="Magnet's strawman: the same trees on a ring ordered by name",
    paper="Girdzijauskas et al., DEBS 2010 (baseline)",
    parameters=RingParameters,
    stages=Stages(overlay=uniform_overlay, trees=uniform_paths, upkeep=beats_on_trees_and_links),
    node=TreeNode,
    messages=TREE_MESSAGES,
)

INTEREST_RING = System(
    name="interest-ring",
    title="Magnet's rings in the order of likeness, with trees from one interested node to the next where they can",
    paper="(ours, after Girdzijauskas et al., DEBS 2010)",
    parameters=MagnetParameters,
    stages=Stages(
        overlay=ordered_overlay(likeness_ordering),
        trees=interested_paths,
        upkeep=beats_on_trees_and_links,
        ordered=Ordered(likes_of, ring_of_order),
    ),
    node=InterestNode,
    messages=INTEREST_MESSAGES,
)
