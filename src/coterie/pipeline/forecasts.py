"""From the stream's state to the workload expected for the next window, and an older plan brought to its ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model import Channels, Design, Placement, Publications, Relation, Workload
from coterie.pipeline.publishing import OUTSIDE
from coterie.pipeline.streamstate import StreamState

TOPICS, SUBSCRIBERS, NODES = "topics.parquet", "subscribers.parquet", "nodes.parquet"


@dataclass(frozen=True, eq=False)
class Forecast:
    """The workload of one window and what its ids mean; publishers who want nothing come after the subscribers."""

    workload: Workload
    topics: list[str]
    subscribers: list[str]
    nodes: list[str]

    def write_names(self, folder: Path) -> None:
        """What the ids of a plan mean, and where everybody was when it was made."""
        attached = pa.array(self.workload.attachment)
        pq.write_table(pa.table({"topic": pa.array(self.topics, pa.string())}), folder / TOPICS)
        pq.write_table(pa.table({"node": pa.array(self.nodes, pa.string())}), folder / NODES)
        people = {"subscriber": pa.array(self.subscribers, pa.string()), "attached": attached}
        pq.write_table(pa.table(people), folder / SUBSCRIBERS)


def forecast(state: StreamState) -> Forecast | None:
    """Interests as they stand and rates by eq. 8; None as long as nobody wants anything.

    Section 5.1: "a static S equal to S(t0)". Who publishes is taken from the sample of recent publications.
    """
    wanted = state.wanted()
    if not wanted:
        return None
    topics = sorted({topic for _, topic, _ in wanted})
    subscribers = sorted({client for client, _, _ in wanted})
    nodes = state.known_nodes()
    sample = state.closed_sample()
    publishing = _publishing(state, sample, topics)
    home = {client: node for client, _, node in wanted}
    outside = sorted({publisher for publisher, _, _ in publishing} - set(subscribers))
    at = _publishing_at(sample)
    people, node_id = subscribers + outside, {node: index for index, node in enumerate(nodes)}
    person_id = {name: index for index, name in enumerate(people)}
    topic_id = {name: index for index, name in enumerate(topics)}
    workload = Workload(
        "forecast",
        Relation.from_pairs(
            [person_id[client] for client, _, _ in wanted],
            [topic_id[topic] for _, topic, _ in wanted],
            len(people),
            len(topics),
        ),
        Publications.of(
            [person_id[publisher] for publisher, _, _ in publishing],
            [topic_id[topic] for _, topic, _ in publishing],
            [rate for _, _, rate in publishing],
        ),
        np.array([node_id[home.get(who) or at.get(who, nodes[0])] for who in people], np.int32),
        len(nodes),
    )
    return Forecast(workload, topics, people, nodes)


def _publishing(state: StreamState, sample: pa.Table, topics: Sequence[str]) -> list[tuple[str, str, float]]:
    """(publisher, topic, events per window): a topic's rate shared by its publishers in the sample."""
    seen: dict[str, Counter[str]] = {}
    for topic, publisher in zip(sample["topic"].to_pylist(), sample["publisher"].to_pylist(), strict=True):
        seen.setdefault(topic, Counter())[publisher or OUTSIDE] += 1
    rate_of = dict(zip(state.topics, state.rates.tolist(), strict=True))
    rows = []
    for topic in topics:
        rate = rate_of.get(topic, 0.0)
        if rate <= 0:
            continue
        counted = sorted(seen.get(topic, {OUTSIDE: 1}).items(), key=lambda entry: (-entry[1], entry[0]))
        total = sum(count for _, count in counted)
        rows += [(publisher, topic, rate * count / total) for publisher, count in counted]
    return rows


def _publishing_at(sample: pa.Table) -> dict[str, str]:
    """Where each publisher of the sample was seen last."""
    seen = zip(sample["publisher"].to_pylist(), sample["node"].to_pylist(), strict=True)
    return {publisher or OUTSIDE: node for publisher, node in seen}


def brought_over(design: Design, folder: Path, onto: Forecast) -> Design | str:
    """The design with the ids of a forecast, trees left as they were (adopting rebuilds them); or why it cannot be.

    New topics get a channel of their own. Whom the plan had moved is where it wanted them; all others are where they
    are now.
    """
    if not (folder / NODES).exists():
        return "the current plan was not made for these nodes"
    try:
        topics, nodes = (pq.read_table(folder / file).column(0).to_pylist() for file in (TOPICS, NODES))
        people = pq.read_table(folder / SUBSCRIBERS, columns=["subscriber", "attached"])
    except (OSError, pa.ArrowException) as error:
        raise InputError(str(folder), f"the names of the plan cannot be read ({error})") from None
    if nodes != onto.nodes:
        gone, new = sorted(set(nodes) - set(onto.nodes)), sorted(set(onto.nodes) - set(nodes))
        changes = [f"{name} is new" for name in new[:3]] + [f"{name} is gone" for name in gone[:3]]
        return f"the current plan is for other nodes ({', '.join(changes)})"
    node_of = onto.workload.attachment.copy()
    number = {name: index for index, name in enumerate(onto.subscribers)}
    was_moved = np.flatnonzero(people["attached"].to_numpy() != design.placement.node_of)
    names = people["subscriber"].take(pa.array(was_moved)).to_pylist()
    for row, name in zip(was_moved.tolist(), names, strict=True):
        if name in number:
            node_of[number[name]] = design.placement.node_of[row]
    renumbered = _renumbered(design.channels.topics, topics, onto.topics)
    return replace(design, placement=Placement(node_of, design.node_count), channels=Channels(renumbered))


def _renumbered(channels: Relation, before: Sequence[str], after: Sequence[str]) -> Relation:
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
