"""From how things stand to the workload expected for the next window, with the names of its ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.model import Publications, Relation, Wishes, Workload
from coterie.model.workload import PAYLOAD_BYTES
from coterie.pipeline.filters import FilterTrie, bodies_of, has_filters, is_shared, without_wildcards
from coterie.pipeline.views import StreamView
from coterie.pipeline.wishing import expanded
from coterie.plans.tables import OUTSIDE, NamedWorkload, write_tables


@dataclass(frozen=True, eq=False)
class Forecast:
    """The workload of one window and what its ids mean; clients who want nothing come after those who do."""

    workload: Workload
    topics: list[str]
    filters: list[str]  # the topics themselves where nobody asked for more
    clients: pa.Array
    nodes: list[str]

    @property
    def named(self) -> NamedWorkload:
        """As plans take it."""
        return NamedWorkload(
            self.workload,
            pa.array(self.topics, pa.string()),
            self.clients,
            tuple(self.nodes),
            pa.array(self.filters, pa.string()),
        )

    def write_names(self, folder: Path) -> None:
        """What the ids of a plan mean, who wants what, and where everybody was when it was made."""
        write_tables(self.named.tables(), folder)


def forecast(view: StreamView) -> Forecast | None:
    """Interests as they stand and rates by eq. 8, per second; None as long as nobody wants anything.

    Section 5.1: "a static S equal to S(t0)". Who publishes is taken from the sample of recent publications.
    """
    wanted = view.wanted
    if not len(wanted):
        return None
    asked = wanted.topics.to_pylist()
    matches, topics = _matched(asked, view.topics)
    nodes, publishing = view.nodes, _publishing(view, topics)
    publishers = pa.array(sorted({publisher for publisher, _, _, _ in publishing}), pa.string())
    outside = publishers.filter(pc.invert(pc.is_in(publishers, value_set=wanted.clients)))
    clients = pa.concat_arrays([wanted.clients, outside])
    topic_id = {name: index for index, name in enumerate(topics)}
    of = Relation.from_pairs(wanted.client, wanted.topic, len(clients), len(asked))
    interests, weights = of, None
    if matches is not None:
        interests, weights = expanded(of, matches, is_shared(wanted.topics))
    said_by = pa.array([publisher for publisher, _, _, _ in publishing], pa.string())
    workload = Workload(
        "forecast",
        interests,
        Publications.of(
            pc.index_in(said_by, value_set=clients).to_numpy(),
            [topic_id[topic] for _, topic, _, _ in publishing],
            [rate / view.window_s for _, _, rate, _ in publishing],
            [size for _, _, _, size in publishing],
        ),
        _attachment(view, of, outside.to_pylist()),
        len(nodes),
        topic_bytes=np.array([float(len(topic.encode())) for topic in topics]),
        weights=weights,
        wishes=None if matches is None else Wishes(of, matches),
    )
    return Forecast(workload, topics, asked, clients, nodes)


def _attachment(view: StreamView, of: Relation, outside: Sequence[str]) -> NDArray[np.int32]:
    """Where each client is by the last of its subscriptions; who has none, where it was seen publishing."""
    number = {node: index for index, node in enumerate(view.nodes)}
    at = _publishing_at(view.sample)
    last = of.indptr[1 : len(view.wanted.clients) + 1] - 1  # subscriptions lie client by client
    node_id = np.array([number[node] for node in view.wanted.nodes.to_pylist()], np.int32)
    publishing = np.array([number[at.get(publisher, view.nodes[0])] for publisher in outside], np.int32)
    return np.concatenate([node_id[view.wanted.node[last]], publishing])


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
    matches = by_body.taken(pc.index_in(bodies, value_set=distinct).to_numpy().astype(np.int64))
    return matches, [topic for topic, kept in zip(topics, is_wanted, strict=True) if kept]


def _publishing(view: StreamView, topics: Sequence[str]) -> list[tuple[str, str, float, float]]:
    """(publisher, topic, events per window, bytes): a topic's rate shared by its publishers in the sample."""
    seen: dict[str, Counter[str]] = {}
    sizes: dict[tuple[str, str], list[int]] = {}
    columns = [view.sample[name].to_pylist() for name in ("topic", "publisher", "bytes")]
    for topic, publisher, size in zip(*columns, strict=True):
        seen.setdefault(topic, Counter())[publisher or OUTSIDE] += 1
        if size is not None:
            sizes.setdefault((topic, publisher or OUTSIDE), []).append(size)
    rate_of = dict(zip(view.topics, view.rates.tolist(), strict=True))
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
