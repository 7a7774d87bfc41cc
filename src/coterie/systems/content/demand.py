"""What trees are computed from: documents, the classes of subscriptions they match, and where those sit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import groups as content
from coterie.model import Relation, Workload
from coterie.model.relation import Index

UNITS = ("keyword", "node")


@dataclass(frozen=True, eq=False)
class Demand:
    """A document sample and the outstanding subscriptions (D and S of section III).

    A class is what is never split between groups: the subscriptions to one keyword, or all of one node.
    """

    hosts: Relation  # class -> nodes: host(s)
    matches: Relation  # document -> classes that have hosts
    publisher: Index  # document -> node, host(d); -1 where it is not known
    weight: NDArray[np.float64]  # w_j: rate x size of each document

    @property
    def document_count(self) -> int:
        return self.matches.row_count

    @property
    def class_count(self) -> int:
        return self.hosts.row_count

    @cached_property
    def arrays(self) -> content.Documents:
        matches, hosts = self.matches, self.hosts
        return content.Documents(
            matches.indptr, matches.columns, hosts.indptr, hosts.columns, self.publisher, self.weight
        )

    @cached_property
    def documents_of(self) -> Relation:
        """Class -> documents that match it."""
        return self.matches.transposed

    def only(self, documents: NDArray[np.integer]) -> Demand:
        """The same subscriptions with some of the documents."""
        rows = [self.matches.row(int(document)) for document in documents]
        return replace(
            self,
            matches=Relation.from_rows(rows, self.class_count),
            publisher=self.publisher[documents],
            weight=self.weight[documents],
        )

    def sampled(self, probability: float, random: np.random.Generator) -> Demand:
        """Each document with this probability, as brokers do it (section VI); at least one."""
        if probability >= 1.0:
            return self
        kept = np.flatnonzero(random.random(self.document_count) < probability)
        return self.only(kept if len(kept) else np.arange(min(1, self.document_count)))

    def split(self, share: float, random: np.random.Generator) -> tuple[Demand, Demand]:
        """Documents to learn from and, `share` of them, to judge by."""
        order = random.permutation(self.document_count)
        held_out = round(self.document_count * share)
        return self.only(np.sort(order[held_out:])), self.only(np.sort(order[:held_out]))

    def with_prior(self, weight: float) -> Demand:
        """One more document for every class with hosts, from nobody knows where, of `weight` times the mean weight.

        Subscriptions are known even where no sampled document matches them; this says that one will.
        """
        wanted = np.flatnonzero(self.hosts.lengths)
        if weight <= 0 or len(wanted) == 0:
            return self
        indptr = self.matches.indptr[-1] + np.arange(1, len(wanted) + 1)
        columns = np.concatenate([self.matches.columns, wanted]).astype(np.int32)
        mean = float(self.weight.mean()) if len(self.weight) else 1.0
        return replace(
            self,
            matches=Relation(np.concatenate([self.matches.indptr, indptr]), columns, self.class_count),
            publisher=np.concatenate([self.publisher, np.full(len(wanted), -1)]).astype(np.int32),
            weight=np.concatenate([self.weight, np.full(len(wanted), weight * mean)]),
        )

    def targets(self, label: Index, group: int, document: int) -> Index:
        """Nodes with a matching subscription in the group."""
        wanted = [self.hosts.row(one) for one in self.matches.row(document).tolist() if label[one] == group]
        return np.unique(np.concatenate(wanted)).astype(np.int32) if wanted else np.zeros(0, np.int32)


def documents_of_workload(workload: Workload, node_of: Index, unit: str) -> Demand:
    """One document per publication; its weight is the publication's rate."""
    publications = workload.publications
    hosts, of_topic = _subscriptions(workload, node_of, unit)
    rows = of_topic.lengths[publications.topic]
    starts = np.repeat(of_topic.indptr[publications.topic] - (np.cumsum(rows) - rows), rows)
    columns = of_topic.columns[starts + np.arange(len(starts))]
    indptr = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    matches = Relation(indptr, columns, of_topic.column_count)
    return Demand(hosts, matches, node_of[publications.publisher].astype(np.int32), publications.rate)


def documents_from_interest(workload: Workload, node_of: Index, unit: str) -> Demand:
    """What a coordinator can assume before it has seen a document: each topic once, from nobody knows where."""
    hosts, of_topic = _subscriptions(workload, node_of, unit)
    wanted = np.flatnonzero(of_topic.lengths)
    matches = Relation.from_rows([of_topic.row(int(topic)) for topic in wanted], of_topic.column_count)
    return Demand(hosts, matches, np.full(len(wanted), -1, np.int32), np.ones(len(wanted)))


def _subscriptions(workload: Workload, node_of: Index, unit: str) -> tuple[Relation, Relation]:
    """Class -> hosts and topic -> classes with hosts."""
    node_interests = workload.node_interests(node_of)
    if unit == "node":
        return Relation.identity(workload.node_count), node_interests.transposed
    if workload.content is None:
        hosts = node_interests.transposed
        wanted = np.flatnonzero(hosts.lengths)
        return hosts, Relation.from_pairs(wanted, wanted, workload.topic_count, workload.topic_count)
    subscriptions, documents = workload.content.subscriptions, workload.content.documents
    keywords = documents.column_count
    hosts = Relation.from_pairs(subscriptions.columns, node_of[subscriptions.rows], keywords, workload.node_count)
    kept = hosts.lengths[documents.columns] > 0
    of_topic = Relation.from_pairs(documents.rows[kept], documents.columns[kept], documents.row_count, keywords)
    return hosts, of_topic
