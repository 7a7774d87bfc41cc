"""The problem of placement as plain arrays: who wants and publishes what, and what brokers may hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import DUST, Crowd, Floats
from coterie.kernels.rings.chord import Index, Offset


@dataclass(frozen=True, eq=False)
class Problem:
    """Clients' wishes as CSR, publications as rows, room in one or more dimensions.

    Without publications it is not counted where events enter: each enters at a broker that wants it.
    """

    indptr: Offset
    topics: Index
    rate: Floats  # events of each topic
    weight: Floats  # [client, dimension]
    capacity: Floats  # [broker, dimension]
    publisher: Index
    said_topic: Index
    said_rate: Floats

    @classmethod
    def of(cls, indptr: Offset, topics: Index, rate: Floats, weight: Floats, capacity: Floats) -> Problem:
        """Nothing known of publishers."""
        nobody = np.zeros(0, np.int32)
        return cls(indptr, topics, rate, weight, capacity, nobody, nobody, np.zeros(0))

    @property
    def client_count(self) -> int:
        return len(self.indptr) - 1

    @property
    def broker_count(self) -> int:
        return len(self.capacity)

    @property
    def crowd(self) -> Crowd:
        """Wishes and publications of each client in one row."""
        pins = np.ones(len(self.topics), np.int32)
        if not len(self.publisher):
            return Crowd(self.indptr, self.topics, pins, np.zeros(len(self.topics)), self.weight)
        rows = np.repeat(np.arange(self.client_count), np.diff(self.indptr))
        key = np.concatenate([rows, self.publisher]) * len(self.rate) + np.concatenate([self.topics, self.said_topic])
        order = np.argsort(key, kind="stable")
        ascending = key[order]
        first = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]][: len(key)])
        pins = np.concatenate([pins, np.zeros(len(self.publisher), np.int32)])[order]
        said = np.concatenate([np.zeros(len(self.topics)), self.said_rate])[order]
        client, topic = np.divmod(ascending[first], len(self.rate))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(client, minlength=self.client_count))]).astype(np.int64)
        wishes = np.add.reduceat(pins, first).astype(np.int32)
        return Crowd(indptr, topic.astype(np.int32), wishes, np.add.reduceat(said, first), self.weight)

    def loads(self, part: Index) -> Floats:
        load = np.zeros(self.capacity.shape)
        np.add.at(load, part, self.weight)
        return load

    def is_within(self, part: Index) -> bool:
        return bool((self.loads(part) <= self.capacity * (1 + DUST)).all())

    def copies(self, part: Index) -> float:
        """Between brokers; without publications each event enters where it is wanted."""
        brokers = self.broker_count
        is_wanted = wanted_where(self.indptr, self.topics, part, len(self.rate), brokers)
        wanting = is_wanted.sum(axis=1, dtype=np.int64)
        if not len(self.publisher):
            return float((self.rate * np.maximum(wanting - 1, 0)).sum())
        is_home = is_wanted[self.said_topic, part[self.publisher]]
        return float(((wanting[self.said_topic] - is_home) * self.said_rate).sum())

    def among(self, clients: NDArray[np.int64], brokers: NDArray[np.int64]) -> Problem:
        """Some clients at some brokers; topics keep their numbers and rates."""
        indptr, topics = rows_of(self.indptr, self.topics, clients.astype(np.int64))
        number = np.full(self.client_count, -1, np.int32)
        number[clients] = np.arange(len(clients), dtype=np.int32)
        kept = number[self.publisher] >= 0
        return replace(
            self,
            indptr=indptr,
            topics=topics,
            weight=self.weight[clients],
            capacity=self.capacity[brokers],
            publisher=number[self.publisher[kept]],
            said_topic=self.said_topic[kept],
            said_rate=self.said_rate[kept],
        )

    def joined(self, clients: NDArray[np.int64]) -> tuple[Problem, Index]:
        """The same with these clients in one, which wants and weighs what they do together; and who is who then."""
        new = np.empty(self.client_count, np.int32)
        others = np.setdiff1d(np.arange(self.client_count), clients)
        new[others], new[clients] = np.arange(len(others), dtype=np.int32), len(others)
        rows = new[np.repeat(np.arange(self.client_count), np.diff(self.indptr))].astype(np.int64)
        key = np.unique(rows * len(self.rate) + self.topics)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(key // len(self.rate), minlength=len(others) + 1))])
        weight = np.concatenate([self.weight[others], self.weight[clients].sum(axis=0, keepdims=True)])
        topics = (key % len(self.rate)).astype(np.int32)
        whole = replace(
            self, indptr=indptr.astype(np.int64), topics=topics, weight=weight, publisher=new[self.publisher]
        )
        return whole, new


@kernel
def wanted_where(indptr: Offset, topics: Index, part: Index, topic_count: int, broker_count: int) -> NDArray[np.bool_]:
    """[topic, broker]: whether somebody there wants it."""
    found = np.zeros((topic_count, broker_count), np.bool_)
    for client in range(len(part)):
        for i in range(indptr[client], indptr[client + 1]):
            found[topics[i], part[client]] = True
    return found


@kernel
def rows_of(indptr: Offset, columns: Index, rows: Offset) -> tuple[Offset, Index]:
    """Some rows of a CSR, in the order given."""
    starts = np.zeros(len(rows) + 1, np.int64)
    for at in range(len(rows)):
        starts[at + 1] = starts[at] + indptr[rows[at] + 1] - indptr[rows[at]]
    taken = np.empty(starts[-1], np.int32)
    for at in range(len(rows)):
        begin = indptr[rows[at]]
        for i in range(starts[at + 1] - starts[at]):
            taken[starts[at] + i] = columns[begin + i]
    return starts, taken
