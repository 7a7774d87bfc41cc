"""A plan's design brought to the ids of another workload: by the names of its nodes, topics and clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.model import Channels, Design, Placement, Relation
from coterie.plans.plan import Plan
from coterie.plans.tables import CLIENTS, NamedWorkload


def brought_over(plan: Plan, onto: NamedWorkload) -> Design | str:
    """The design with the ids of `onto`, trees left as they were (adopting rebuilds them); or why it cannot be.

    New topics get a channel of their own. Whom the plan had moved is where it wanted them; all others are where they
    are now.
    """
    design, nodes = plan.design, list(onto.nodes)
    if nodes or plan.nodes is not None:
        if plan.nodes is None:
            return "the plan was not made for these nodes"
        if plan.nodes != nodes:
            gone, new = sorted(set(plan.nodes) - set(nodes)), sorted(set(nodes) - set(plan.nodes))
            changes = [f"{name} is new" for name in new[:3]] + [f"{name} is gone" for name in gone[:3]]
            return f"the plan is for other nodes ({', '.join(changes)})"
    elif design.node_count != onto.workload.node_count:
        return f"the plan is for {design.node_count} nodes, not for {onto.workload.node_count}"
    placement = Placement(_node_of(plan, onto), design.node_count)
    topics = onto.topics.to_pylist()
    if topics == plan.topics:
        return replace(design, placement=placement)
    return replace(
        design, placement=placement, channels=Channels(renumbered(design.channels.topics, plan.topics, topics))
    )


def _node_of(plan: Plan, onto: NamedWorkload) -> NDArray[np.int32]:
    node_of = onto.workload.attachment.copy()
    listed = plan.table(CLIENTS)
    assert listed is not None
    placed = plan.design.placement.node_of
    rows = np.arange(len(placed))
    if "attached" in listed.column_names:
        rows = np.flatnonzero(listed["attached"].to_numpy() != placed)
    names = listed["client"].combine_chunks().take(pa.array(rows))
    at = pc.fill_null(pc.index_in(names.cast(pa.string()), value_set=onto.clients.cast(pa.string())), -1).to_numpy()
    node_of[at[at >= 0]] = placed[rows[at >= 0]]
    return node_of


def renumbered(channels: Relation, before: Sequence[str], after: Sequence[str]) -> Relation:
    """Channels over new topic ids. Topic channels come first where there are any; channels left empty are gone."""
    number = {name: index for index, name in enumerate(after)}
    moved: NDArray[np.int64] = np.array([number.get(name, -1) for name in before], np.int64)
    count = len(after)
    if channels.row_count == 1:
        return Relation.from_rows([range(count)], count)
    has_topic_channels = channels.row_count >= len(before) and np.array_equal(
        channels.columns[: len(before)], np.arange(len(before))
    )
    first = len(before) if has_topic_channels else 0
    kept = [
        sorted(int(moved[topic]) for topic in channels.row(row) if moved[topic] >= 0)
        for row in range(first, channels.row_count)
    ]
    kept = [row for row in kept if row]
    covered = {topic for row in kept for topic in row}
    single = range(count) if has_topic_channels else [topic for topic in range(count) if topic not in covered]
    rows = [[topic] for topic in single]
    return Relation.from_rows(rows + kept if has_topic_channels else kept + rows, count)
