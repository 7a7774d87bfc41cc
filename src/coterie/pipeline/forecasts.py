"""From the stream's state to the workload expected for the next window, and an older plan brought to its ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model import Channels, Design, Placement, Publications, Relation, Wishes, Workload
from coterie.model.workload import PAYLOAD_BYTES
from coterie.pipeline.filters import FilterTrie, bodies_of, has_filters, is_shared, taken_rows, without_wildcards
from coterie.pipeline.publishing import OUTSIDE, kinds_of
from coterie.pipeline.streamstate import StreamState
from coterie.pipeline.windows import WISHES
from coterie.pipeline.wishing import expanded

TOPICS, CLIENTS, NODES = "topics.parquet", "clients.parquet", "nodes.parquet"


@dataclass(frozen=True, eq=False)
class Forecast:
    """The workload of one window and what its ids mean; clients who want nothing come after those who do."""

    workload: Workload
    topics: list[str]
    filters: list[str]  # the topics themselves where nobody asked for more
    clients: list[str]
    nodes: list[str]

    def write_names(self, folder: Path) -> None:
        """What the ids of a plan mean, who wants what, and where everybody was when it was made."""
        wishes = self.workload.wishes.of if self.workload.wishes else self.workload.interests
        publishes = np.zeros(len(self.clients), bool)
        publishes[self.workload.publications.publisher] = True
        clients = pa.array(self.clients, pa.string())
        pq.write_table(pa.table({"topic": pa.array(self.topics, pa.string())}), folder / TOPICS)
        pq.write_table(pa.table({"node": pa.array(self.nodes, pa.string())}), folder / NODES)
        about = {"kind": kinds_of(publishes, wishes.lengths > 0), "attached": pa.array(self.workload.attachment)}
        pq.write_table(pa.table({"client": clients, **about}), folder / CLIENTS)
        held = pa.array(np.ones(wishes.pair_count, bool))
        wished = pa.array(self.filters, pa.string()).take(pa.array(wishes.columns))
        told = {"client": clients.take(pa.array(wishes.rows)), "filter": wished, "is_learned": held, "is_later": held}
        pq.write_table(pa.table(told), folder / WISHES)


def forecast(state: StreamState) -> Forecast | None:
    """Interests as they stand and rates by eq. 8, per second; None as long as nobody wants anything.

    Section 5.1: "a static S equal to S(t0)". Who publishes is taken from the sample of recent publications.
    """
    wanted = state.wanted()
    if not wanted:
        return None
    asked = sorted({wish for _, wish, _ in wanted})
    matches, topics = _matched(asked, state.topics)
    wanting = sorted({client for client, _, _ in wanted})
    nodes = state.known_nodes()
    sample = state.closed_sample()
    publishing = _publishing(state, sample, topics)
    home = {client: node for client, _, node in wanted}
    outside = sorted({publisher for publisher, _, _, _ in publishing} - set(wanting))
    at = _publishing_at(sample)
    clients, node_id = wanting + outside, {node: index for index, node in enumerate(nodes)}
    number = {name: index for index, name in enumerate(clients)}
    wish_id, topic_id = ({name: index for index, name in enumerate(names)} for names in (asked, topics))
    of = Relation.from_pairs(
        [number[client] for client, _, _ in wanted], [wish_id[wish] for _, wish, _ in wanted], len(clients), len(asked)
    )
    interests, weights = of, None
    if matches is not None:
        interests, weights = expanded(of, matches, is_shared(pa.array(asked, pa.string())))
    workload = Workload(
        "forecast",
        interests,
        Publications.of(
            [number[publisher] for publisher, _, _, _ in publishing],
            [topic_id[topic] for _, topic, _, _ in publishing],
            [rate / state.window_s for _, _, rate, _ in publishing],
            [size for _, _, _, size in publishing],
        ),
        np.array([node_id[home.get(who) or at.get(who, nodes[0])] for who in clients], np.int32),
        len(nodes),
        topic_bytes=np.array([float(len(topic.encode())) for topic in topics]),
        weights=weights,
        wishes=None if matches is None else Wishes(of, matches),
    )
    return Forecast(workload, topics, asked, clients, nodes)


def _matched(asked: Sequence[str], published: Sequence[str]) -> tuple[Relation | None, list[str]]:
    """Filter -> topics, and the topics; None where everybody asks for single topics."""
    names = pa.array(asked, pa.string())
    if not has_filters(names):
        return None, list(asked)
    bodies = bodies_of(names)
    topics = sorted(set(published) | set(without_wildcards(bodies).to_pylist()))
    distinct = pc.unique(bodies)
    body, topic = FilterTrie.of(distinct).matches(pa.array(topics, pa.string()))
    by_body = Relation.from_pairs(body, topic, len(distinct), len(topics))
    is_wanted = np.bincount(by_body.columns, minlength=len(topics)) > 0
    number = np.cumsum(is_wanted, dtype=np.int32) - 1
    by_body = Relation(by_body.indptr, number[by_body.columns].astype(np.int32), int(is_wanted.sum()))
    matches = taken_rows(by_body, pc.index_in(bodies, value_set=distinct).to_numpy().astype(np.int64))
    return matches, [topic for topic, kept in zip(topics, is_wanted, strict=True) if kept]


def _publishing(state: StreamState, sample: pa.Table, topics: Sequence[str]) -> list[tuple[str, str, float, float]]:
    """(publisher, topic, events per window, bytes): a topic's rate shared by its publishers in the sample."""
    seen: dict[str, Counter[str]] = {}
    sizes: dict[tuple[str, str], list[int]] = {}
    columns = [sample[name].to_pylist() for name in ("topic", "publisher", "bytes")]
    for topic, publisher, size in zip(*columns, strict=True):
        seen.setdefault(topic, Counter())[publisher or OUTSIDE] += 1
        if size is not None:
            sizes.setdefault((topic, publisher or OUTSIDE), []).append(size)
    rate_of = dict(zip(state.topics, state.rates.tolist(), strict=True))
    rows = []
    for topic in topics:
        rate = rate_of.get(topic, 0.0)
        if rate <= 0:
            continue
        counted = sorted(seen.get(topic, {OUTSIDE: 1}).items(), key=lambda entry: (-entry[1], entry[0]))
        total = sum(count for _, count in counted)
        for publisher, count in counted:
            told = sizes.get((topic, publisher))
            size = sum(told) / len(told) if told else PAYLOAD_BYTES
            rows.append((publisher, topic, rate * count / total, size))
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
        people = pq.read_table(folder / CLIENTS, columns=["client", "attached"])
    except (OSError, pa.ArrowException) as error:
        raise InputError(str(folder), f"the names of the plan cannot be read ({error})") from None
    if nodes != onto.nodes:
        gone, new = sorted(set(nodes) - set(onto.nodes)), sorted(set(onto.nodes) - set(nodes))
        changes = [f"{name} is new" for name in new[:3]] + [f"{name} is gone" for name in gone[:3]]
        return f"the current plan is for other nodes ({', '.join(changes)})"
    node_of = onto.workload.attachment.copy()
    number = {name: index for index, name in enumerate(onto.clients)}
    was_moved = np.flatnonzero(people["attached"].to_numpy() != design.placement.node_of)
    names = people["client"].take(pa.array(was_moved)).to_pylist()
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
