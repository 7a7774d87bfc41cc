"""CiteULike's articles as content: documents with words, readers who subscribe to the words of what they keep."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from coterie.model import Content, Relation, Workload
from coterie.workloads.content import OnNetwork, content_workload, network_of
from coterie.workloads.parameters import ATTACHMENT, INTERESTS, at_least, stream, within
from coterie.workloads.traces import trace_table, word_counts


class Articles(OnNetwork, frozen=True, kw_only=True):
    """How much of the collection, on which network."""

    topics: int = 5000  # documents, drawn evenly; 0: all 25,975
    subscribers: int = 1000  # readers, drawn evenly; 0: all 7,947
    subscriptions: int = 5  # words a reader subscribes to: the most telling ones of the articles kept

    def __post_init__(self) -> None:
        super().__post_init__()
        within("topics", self.topics, 0, 25_975)
        within("subscribers", self.subscribers, 0, 7947)
        at_least("subscriptions", self.subscriptions, 1)


def articles(parameters: Articles, seed: int) -> Workload:
    """Readers sit at nodes drawn evenly; a document is published by a reader drawn evenly."""
    draw = stream(seed, INTERESTS)
    documents, times = word_counts("citeulike_t_bow.txt.gz")
    kept = trace_table("citeulike_t_user_item.csv.gz", ("user", "item"))
    readers = np.unique(kept["user"].astype(np.int64), return_index=True)[0]
    chosen = np.sort(draw.permutation(readers)[: parameters.subscribers or None])
    subscriptions = _telling_words(documents, times, kept["user"], kept["item"], chosen, parameters.subscriptions)
    sample = np.sort(draw.permutation(documents.row_count)[: parameters.topics or None])
    matrix = csr_array(
        (times, documents.columns, documents.indptr), shape=(documents.row_count, documents.column_count)
    )[sample]
    published = Relation(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), documents.column_count)
    network = network_of(parameters, seed)
    places = stream(seed, ATTACHMENT).integers(network.graph.node_count, size=len(chosen))
    publisher = draw.integers(len(chosen), size=len(sample))
    return content_workload(parameters, network, Content(published, subscriptions), places, publisher, seed)


def _telling_words(
    documents: Relation, times: np.ndarray, user: np.ndarray, item: np.ndarray, readers: np.ndarray, count: int
) -> Relation:
    """Reader -> the words that weigh most in the articles kept: times used, against how many documents use them."""
    place = np.searchsorted(readers, user)
    mine = (place < len(readers)) & (readers[np.minimum(place, len(readers) - 1)] == user)
    shelf = csr_array((np.ones(int(mine.sum())), (place[mine], item[mine])), shape=(len(readers), documents.row_count))
    shape = (documents.row_count, documents.column_count)
    used = shelf @ csr_array((times.astype(np.float64), documents.columns, documents.indptr), shape=shape)
    rarity = documents.row_count / np.maximum(np.bincount(documents.columns, minlength=documents.column_count), 1)
    used = csr_array(used)
    used.sort_indices()
    row = np.repeat(np.arange(len(readers)), np.diff(used.indptr))
    order = np.lexsort([used.indices, -np.round(used.data * np.log(rarity[used.indices]), 6), row])
    rank = np.arange(len(order)) - used.indptr[row]
    best = order[rank < count]
    return Relation.from_pairs(row[best], used.indices[best], len(readers), documents.column_count)
