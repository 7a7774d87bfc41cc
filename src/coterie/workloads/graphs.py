"""Broker networks made here: transit-stub graphs as GT-ITM draws them, and flat random graphs; always connected."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from coterie.model import BrokerGraph
from coterie.workloads.parameters import INT32_MAX, NETWORK, at_least, one_of, stream, within

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
COSTS = ("unit", "length")


@dataclass(frozen=True, eq=False)
class BrokerNetwork:
    """A broker graph and, where known, where its nodes are."""

    graph: BrokerGraph
    coordinates: Floats | None = None


class TransitStub(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GT-ITM's parameters. Stub domains share what the transit nodes leave of `nodes`; sizes differ by one at most."""

    nodes: int = 1000
    transit_domains: int = 0  # 0: one for every 100 nodes
    transit_nodes: int = 4  # per transit domain
    stubs: int = 3  # stub domains per transit node
    domain_probability: float = 1.0  # of a link between two transit domains
    transit_probability: float = 0.6  # of a link between two nodes of a transit domain
    stub_probability: float = 0.42  # of a link between two nodes of a stub domain
    transit_stub_links: int = 0  # extra ones
    stub_stub_links: int = 0  # extra ones
    cost: str = "unit"  # every link 1, or its length in the plane

    def __post_init__(self) -> None:
        within("nodes", self.nodes, 1, INT32_MAX)
        within("transit_domains", self.transit_domains, 0, self.nodes)
        at_least("transit_nodes", self.transit_nodes, 1)
        at_least("stubs", self.stubs, 0 if self.domain_count * self.transit_nodes >= self.nodes else 1)
        for key in ("domain_probability", "transit_probability", "stub_probability"):
            within(key, getattr(self, key), 0, 1)
        at_least("transit_stub_links", self.transit_stub_links, 0)
        at_least("stub_stub_links", self.stub_stub_links, 0)
        one_of("cost", self.cost, COSTS)

    @property
    def domain_count(self) -> int:
        return self.transit_domains or max(1, round(self.nodes / 100))


class Flat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A random tree and random links on top of it, up to the stated mean degree."""

    nodes: int = 1000
    degree: float = 10.0  # links per node on average, at least that of a tree
    cost: str = "unit"

    def __post_init__(self) -> None:
        within("nodes", self.nodes, 1, INT32_MAX)
        within("degree", self.degree, 0, self.nodes)
        one_of("cost", self.cost, COSTS)


def transit_stub(parameters: TransitStub, seed: int) -> BrokerNetwork:
    draw = stream(seed, NETWORK)
    domains = parameters.domain_count
    transit = np.arange(min(domains * parameters.transit_nodes, parameters.nodes))
    domain_of = transit % domains
    stub_sizes = _shares(parameters.nodes - len(transit), len(transit) * parameters.stubs)
    points = _domain_points(draw, domain_of, stub_sizes, parameters)
    links = [_between_domains(draw, domain_of, domains, parameters.domain_probability)]
    links += [_domain(draw, transit[domain_of == domain], parameters.transit_probability) for domain in range(domains)]
    bounds = len(transit) + np.concatenate([[0], np.cumsum(stub_sizes)])
    stubs = [np.arange(bounds[at], bounds[at + 1]) for at in range(len(stub_sizes)) if stub_sizes[at]]
    for at, stub in enumerate(stubs):
        links.append(_domain(draw, stub, parameters.stub_probability))
        links.append(np.array([[transit[at % len(transit)], draw.choice(stub)]]))
    outside = np.arange(len(transit), parameters.nodes)
    if len(outside):
        links.append(_extra(draw, transit, outside, parameters.transit_stub_links))
        links.append(_extra(draw, outside, outside, parameters.stub_stub_links))
    return _network(parameters.nodes, np.concatenate(links), points, parameters.cost)


def flat(parameters: Flat, seed: int) -> BrokerNetwork:
    draw = stream(seed, NETWORK)
    count = parameters.nodes
    points = draw.random((count, 2))
    label = draw.permutation(count)
    later = np.arange(1, count)
    tree = np.stack([label[later], label[(draw.random(len(later)) * later).astype(np.int64)]], axis=1)
    wanted = min(max(round(count * parameters.degree / 2), count - 1), count * (count - 1) // 2)
    return _network(count, _filled(draw, tree, count, wanted), points, parameters.cost)


def largest_component(graph: BrokerGraph) -> Longs:
    """The nodes of the largest component, ascending; of equal ones that with the lowest node."""
    links = coo_array((np.ones(graph.link_count), (graph.source, graph.target)), shape=(graph.node_count,) * 2)
    _, label = connected_components(links, directed=False)
    return np.flatnonzero(label == np.argmax(np.bincount(label)))


def is_connected(graph: BrokerGraph) -> bool:
    return len(largest_component(graph)) == graph.node_count


def _shares(total: int, parts: int) -> Longs:
    return np.diff(np.arange(parts + 1, dtype=np.int64) * total // max(parts, 1))


def _domain_points(draw: np.random.Generator, domain_of: Longs, stub_sizes: Longs, parameters: TransitStub) -> Floats:
    """Domains in the unit square, transit nodes around their domain's centre, stub nodes around their transit node."""
    centres = draw.random((parameters.domain_count, 2))
    transit = centres[domain_of] + (draw.random((len(domain_of), 2)) - 0.5) * 0.25
    owner = np.repeat(np.arange(len(stub_sizes)) % max(len(transit), 1), stub_sizes)
    return np.concatenate([transit, transit[owner] + (draw.random((len(owner), 2)) - 0.5) * 0.05])


def _domain(draw: np.random.Generator, nodes: Longs, probability: float) -> Longs:
    """Links inside one domain: each with that probability, then one from every component to the first."""
    low, high = np.triu_indices(len(nodes), 1)
    kept = draw.random(len(low)) < probability
    low, high = low[kept], high[kept]
    label = connected_components(coo_array((np.ones(len(low)), (low, high)), shape=(len(nodes),) * 2), False)[1]
    joints = [
        [draw.choice(np.flatnonzero(label == 0)), draw.choice(np.flatnonzero(label == other))]
        for other in range(1, int(label.max(initial=0)) + 1)
    ]
    pairs = np.concatenate([np.stack([low, high], axis=1), np.array(joints, np.int64).reshape(-1, 2)])
    return np.asarray(nodes[pairs])


def _between_domains(draw: np.random.Generator, domain_of: Longs, domains: int, probability: float) -> Longs:
    """A link between transit nodes for every link of a connected random graph of the domains."""
    present = np.arange(min(domains, len(domain_of)))
    pairs = _domain(draw, present, probability)
    ends = [[draw.choice(np.flatnonzero(domain_of == domain)) for domain in pair] for pair in pairs.tolist()]
    return np.array(ends, np.int64).reshape(-1, 2)


def _extra(draw: np.random.Generator, first: Longs, second: Longs, count: int) -> Longs:
    return np.stack([draw.choice(first, count), draw.choice(second, count)], axis=1)


def _filled(draw: np.random.Generator, links: Longs, count: int, wanted: int) -> Longs:
    """The links and random others, without repeats, until there are as many as wanted."""
    key = np.sort(links, axis=1) @ np.array([count, 1])
    while len(key) < wanted:
        more = np.sort(draw.integers(count, size=(2 * (wanted - len(key)) + 8, 2)), axis=1)
        more = more[more[:, 0] != more[:, 1]]
        key = np.concatenate([key, more @ np.array([count, 1])])
        key = key[np.sort(np.unique(key, return_index=True)[1])][:wanted]
    return np.stack(np.divmod(key, count), axis=1)


def _network(count: int, links: Longs, points: Floats, cost: str) -> BrokerNetwork:
    lengths = np.sqrt(((points[links[:, 0]] - points[links[:, 1]]) ** 2).sum(axis=1))
    graph = BrokerGraph.of(count, links[:, 0], links[:, 1], 1.0 if cost == "unit" else np.round(lengths, 9))
    assert is_connected(graph)
    return BrokerNetwork(graph, points)
