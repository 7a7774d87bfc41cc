"""Content-based workloads (Majumder et al., section VII-A): keywords wanted near a root node, documents from nearby."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from coterie.kernels.graphs.nearby import nearest_nodes
from coterie.model import Content, Publications, Relation, Workload
from coterie.workloads.graphfiles import read_network
from coterie.workloads.graphs import COSTS, BrokerNetwork, Flat, TransitStub, flat, transit_stub
from coterie.workloads.parameters import (
    INT32_MAX,
    INTERESTS,
    INTERVAL_S,
    PUBLICATIONS,
    WorkloadParameters,
    above,
    at_least,
    one_of,
    stream,
    within,
)
from coterie.workloads.rates import topic_rates
from coterie.workloads.traces import trace_file

Longs = NDArray[np.int64]
UNITS = ("keyword", "node")


class OnNetwork(WorkloadParameters, frozen=True, kw_only=True):
    """A workload of documents over a given broker network."""

    nodes: int = 500  # brokers, 500 to 5000 (n); a network from a file brings its own number
    network: str = "transit-stub"  # of brokers; or flat, file:PATH, zoo:NAME (Topology Zoo), gtitm:MEMBER
    degree: float = 10.0  # mean degree of a flat network
    cost: str = "unit"  # of a link: 1, or its length

    def __post_init__(self) -> None:
        super().__post_init__()
        within("nodes", self.nodes, 1, INT32_MAX)
        one_of("cost", self.cost, COSTS)
        kind = self.network.partition(":")[0]
        one_of("network", kind, ("transit-stub", "flat", "file", "zoo", "gtitm"))
        above("degree", self.degree, 0)


class Keywords(OnNetwork, frozen=True, kw_only=True):
    """Keywords, documents and how local interest is. The defaults are the data-set Localized1."""

    topics: int = 10_000  # documents: each is a topic of the workload (|D|)
    keywords: int = 1000  # different ones that documents and filters are made of
    locality: float = 2.0  # x: part of the network, in percent, around a keyword's root: 2, 15 or 100
    subscribers_per_keyword: int = 10  # nodes drawn from that neighbourhood, at most
    keywords_per_document: int = 3  # the text does not say; "about 5 documents per keyword" cannot be
    nearby_nodes: int = 5  # "a small subset of nearby nodes" whose keywords a document draws from
    unit: str = "keyword"  # what a subscriber is: one (node, keyword), or a node with all its keywords

    def __post_init__(self) -> None:
        super().__post_init__()
        within("topics", self.topics, 1, INT32_MAX)
        at_least("keywords", self.keywords, 1)
        above("locality", self.locality, 0)
        within("locality", self.locality, 0, 100)
        for key in ("subscribers_per_keyword", "keywords_per_document", "nearby_nodes"):
            at_least(key, getattr(self, key), 1)
        one_of("unit", self.unit, UNITS)


class Localized2(Keywords, frozen=True, kw_only=True):
    """Interest spread over 15 % of the network."""

    locality: float = 15.0


class Everywhere(Keywords, frozen=True, kw_only=True):
    """Interest without any locality."""

    locality: float = 100.0


def keywords(parameters: Keywords, seed: int) -> Workload:
    network = network_of(parameters, seed)
    draw = stream(seed, INTERESTS)
    wanted = _wanted_keywords(draw, parameters, network)
    documents = _documents(draw, parameters, network, wanted)
    publisher = draw.integers(network.graph.node_count, size=parameters.topics)
    if parameters.unit == "node":
        nodes = np.arange(network.graph.node_count)
        return content_workload(parameters, network, Content(documents, wanted), nodes, publisher, seed)
    # One subscriber per (node, keyword), then one without interests for every node that publishes.
    sources, publisher = np.unique(publisher, return_inverse=True)
    subscriptions = Relation.from_pairs(
        np.arange(wanted.pair_count), wanted.columns, wanted.pair_count + len(sources), parameters.keywords
    )
    attachment = np.concatenate([wanted.rows, sources])
    return content_workload(
        parameters, network, Content(documents, subscriptions), attachment, publisher + wanted.pair_count, seed
    )


def content_workload(
    parameters: WorkloadParameters,
    network: BrokerNetwork,
    content: Content,
    attachment: Longs,
    publisher: Longs,
    seed: int,
) -> Workload:
    """Interests follow from the content: a document goes to whoever subscribes to one of its keywords."""
    interests = matches(content)
    popularity = np.bincount(interests.columns, minlength=interests.column_count)
    rates = topic_rates(stream(seed, PUBLICATIONS), parameters, popularity)
    return Workload(
        name="content",
        interests=interests,
        publications=Publications.of(publisher, np.arange(interests.column_count), rates / INTERVAL_S),
        attachment=attachment.astype(np.int32),
        node_count=network.graph.node_count,
        coordinates=network.coordinates,
        graph=network.graph,
        content=content,
    )


def matches(content: Content) -> Relation:
    """Subscriber -> documents that share a keyword with its subscription."""
    common = _matrix(content.subscriptions) @ _matrix(content.documents).T
    common = csr_array(common)
    common.sort_indices()
    return Relation(common.indptr.astype(np.int64), common.indices.astype(np.int32), content.documents.row_count)


def network_of(parameters: OnNetwork, seed: int) -> BrokerNetwork:
    kind, _, name = parameters.network.partition(":")
    if kind == "transit-stub":
        return transit_stub(TransitStub(nodes=parameters.nodes, cost=parameters.cost), seed)
    if kind == "flat":
        return flat(
            Flat(nodes=parameters.nodes, degree=min(parameters.degree, parameters.nodes), cost=parameters.cost), seed
        )
    if kind == "zoo":
        return read_network(
            (trace_file("topology_zoo_graphml.tar.gz"), f"graphml/{name}.graphml"), cost=parameters.cost
        )
    if kind == "gtitm":
        return read_network((trace_file("gtitm_inet_topologies.tar.gz"), name), cost=parameters.cost)
    return read_network(name, cost=parameters.cost)


def _matrix(relation: Relation) -> csr_array:
    shape = (relation.row_count, relation.column_count)
    return csr_array((np.ones(relation.pair_count, np.int32), relation.columns, relation.indptr), shape=shape)


def _nearest(draw: np.random.Generator, network: BrokerNetwork, roots: Longs, count: int) -> NDArray[np.int32]:
    links, costs = network.graph.neighbours, network.graph.neighbour_costs
    return nearest_nodes(draw, links.indptr, links.columns, costs, roots.astype(np.int32), count)


def _wanted_keywords(draw: np.random.Generator, parameters: Keywords, network: BrokerNetwork) -> Relation:
    """Node -> keywords: for each keyword some nodes of the neighbourhood of a random root."""
    nodes = network.graph.node_count
    reach = min(nodes, max(1, round(nodes * parameters.locality / 100)))
    per_keyword = min(parameters.subscribers_per_keyword, reach)
    around = _nearest(draw, network, draw.integers(nodes, size=parameters.keywords), reach)
    chosen = np.take_along_axis(around, np.argsort(draw.random(around.shape), axis=1)[:, :per_keyword], axis=1)
    keyword = np.repeat(np.arange(parameters.keywords), per_keyword)
    return Relation.from_pairs(chosen.ravel(), keyword, nodes, parameters.keywords)


def _documents(draw: np.random.Generator, parameters: Keywords, network: BrokerNetwork, wanted: Relation) -> Relation:
    """Document -> keywords: drawn from what nodes near a random one want, or from all where they want nothing."""
    nodes, count = network.graph.node_count, parameters.topics
    centre = draw.integers(nodes, size=count)
    around = _nearest(draw, network, np.arange(nodes), min(parameters.nearby_nodes, nodes))
    near = Relation.from_pairs(np.repeat(np.arange(nodes), around.shape[1]), around.ravel(), nodes, nodes)
    pool = csr_array(_matrix(near) @ _matrix(wanted))
    sizes = np.diff(pool.indptr)[centre].astype(np.int64)
    document = np.repeat(np.arange(count), sizes)
    starts = np.cumsum(sizes) - sizes
    pool.sort_indices()
    place = np.arange(len(document)) + np.repeat(pool.indptr[centre] - starts, sizes)
    order = np.lexsort([draw.random(len(document)), document])
    is_taken = np.arange(len(document)) - np.repeat(starts, sizes) < parameters.keywords_per_document
    taken = order[is_taken]
    empty = np.flatnonzero(sizes == 0)
    spare = wanted.columns[draw.integers(wanted.pair_count, size=len(empty))]
    return Relation.from_pairs(
        np.concatenate([document[taken], empty]),
        np.concatenate([pool.indices[place[taken]], spare]),
        count,
        parameters.keywords,
    )
