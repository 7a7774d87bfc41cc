"""Where clients go: with others who want the same, publishers counted, and nobody further than the limits allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array
from scipy.sparse.csgraph import shortest_path

from coterie.kernels.placement.arranging import arrange
from coterie.kernels.placement.search import MOVES
from coterie.kernels.placement.solve import SMALL_PINS, Start
from coterie.model import Placement, Publications, Relation, Workload
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index
from coterie.substrate.placing import Balance, Placed, Zoning, client_weights, placed, problem_of
from coterie.systems.coterie.parameters import CoterieParameters
from coterie.systems.dynatops.placement import place_by_similarity
from coterie.systems.star import had_anyway

ARRANGED_MAX = 2000  # nodes of a given network: beyond, trying all exchanges takes minutes
WILD_SHARE = 0.5  # of all events: who wants so much is a dashboard, a recorder, a bridge
WILD_MAX = 0.1  # of all clients; more are no exception


def place_together(workload: Workload, parameters: CoterieParameters, seed: int) -> Placement:
    """Clients by what they want and publish; a peer is its node and stays."""
    if parameters.placement == "given" or not workload.interests.pair_count or workload.is_peer_network:
        return Placement(workload.attachment, workload.node_count)
    node_of = placing(workload, parameters, seed).node_of
    if workload.graph is not None and parameters.moves_per_day < 0 and workload.node_count <= ARRANGED_MAX:
        node_of = near_each_other(workload, workload.graph, node_of)
    return Placement(node_of, workload.node_count)


def near_each_other(workload: Workload, graph: BrokerGraph, node_of: Index) -> Index:
    """The same groups of clients, those who share events at nodes near each other on the given network.

    What a tree over k nodes costs is counted as k - 1 times the mean way between two of them.
    """
    said, nodes, topics = workload.publications, workload.node_count, workload.topic_count
    wanted = workload.node_interests(node_of)
    at = np.concatenate([wanted.rows, node_of[said.publisher]])
    involved = Relation.from_pairs(at, np.concatenate([wanted.columns, said.topic]), nodes, topics)
    count = np.maximum(involved.transposed.lengths, 1)
    pairs = csr_matrix((np.ones(involved.pair_count), involved.columns, involved.indptr), (nodes, topics))
    together = (pairs @ diags_array(2 * workload.rates / count) @ pairs.T).toarray()
    links = csr_matrix((graph.cost, (graph.source, graph.target)), (nodes, nodes))
    distance = shortest_path(links, directed=False)
    distance[~np.isfinite(distance)] = 2 * distance[np.isfinite(distance)].max(initial=1.0)
    is_free = workload.zone_of is None or workload.is_anywhere
    region = np.zeros(nodes, np.int32) if is_free else np.asarray(workload.zone_of, np.int32)
    where = np.arange(nodes, dtype=np.int32)
    arrange(together, distance, region, where)
    return where[node_of]


def placing(workload: Workload, parameters: CoterieParameters, seed: int) -> Placed:
    """The placement with what it saves, who moves, and who makes the stated balance impossible."""
    balance = Balance(parameters.imbalance, parameters.message_imbalance)
    zoning = Zoning(parameters.across - 1, parameters.leaving != "never", parameters.leaving == "free")
    if parameters.moves_per_day >= 0:
        most = int(parameters.moves_per_day * workload.subscriber_count)
        return placed(workload, balance, seed, moves_max=most, zoning=zoning)
    found = placed(workload, balance, seed, starts=starts_of(workload), zoning=zoning)

    def others(without: Workload) -> Placed:
        return placed(without, balance, seed, starts=starts_of(without), zoning=zoning)

    return packed(workload, found, others, parameters.node_messages)


def place_in_blocks(
    workload: Workload, parameters: CoterieParameters, place: Callable[[Workload, Balance], Placed]
) -> Placed | None:
    """The same where a cluster places crowds, zone by zone; None where moves are limited or clients may leave."""
    has_choice = workload.zone_of is not None and not workload.is_anywhere and len(np.unique(workload.zone_of)) > 1
    if parameters.moves_per_day >= 0 or (has_choice and parameters.leaving != "never"):
        return None
    balance = Balance(parameters.imbalance, parameters.message_imbalance)
    found = place(workload, balance)
    return packed(workload, found, lambda rest: place(rest, balance), parameters.node_messages)


def starts_of(workload: Workload) -> list[Start]:
    """A placement worth improving; of use where interests have no groups."""
    if workload.interests.pair_count > SMALL_PINS:
        return []
    return [(place_by_similarity(workload, workload.node_count, load_weight=1.0, rounds=2), MOVES[2:])]


def packed(workload: Workload, found: Placed, place: Callable[[Workload], Placed], node_messages: float) -> Placed:
    """The same with those who want nearly everything on one node of their zone, where that saves copies.

    `place` says where all the others go then. Apart, each of them makes another node want everything. Together they
    weigh more than the balance allows, which is no harm as long as a node handles so many messages with ease.
    """
    wild = np.flatnonzero(_wanted_share(workload) >= WILD_SHARE)
    if not 2 <= len(wild) <= WILD_MAX * workload.subscriber_count:
        return found
    others = np.setdiff1d(np.arange(workload.subscriber_count), wild)
    without = _among(workload, others)
    seats = place(without).node_of
    had = had_anyway(without, Placement(seats, workload.node_count))
    node_of = workload.attachment.copy()
    node_of[others] = seats
    zone_of = np.zeros(workload.node_count, np.int32) if workload.zone_of is None else workload.zone_of
    if workload.is_anywhere:
        zone_of = np.zeros_like(zone_of)
    for zone in np.unique(zone_of[workload.attachment[wild]]):
        nodes = np.flatnonzero(zone_of == zone)
        node_of[wild[zone_of[workload.attachment[wild]] == zone]] = nodes[np.argmax(had[nodes])]
    weight = client_weights(workload)
    load = np.zeros(found.load.shape)
    np.add.at(load, node_of, weight)
    copies = problem_of(workload, weight, found.capacity).copies(node_of)
    is_easy = bool(np.all(load[node_of[wild], 1] <= np.maximum(found.capacity[node_of[wild], 1], node_messages)))
    if copies >= found.copies or not is_easy:
        return found
    moves = np.flatnonzero(node_of != workload.attachment).astype(np.int32)
    return replace(found, node_of=node_of, copies=copies, moves=moves, load=load)


def _among(workload: Workload, clients: NDArray[np.int64]) -> Workload:
    """As if there were nobody else."""
    number = np.full(workload.subscriber_count, -1, np.int32)
    number[clients] = np.arange(len(clients), dtype=np.int32)
    interests, publications = workload.interests, workload.publications
    kept, said = number[interests.rows] >= 0, number[publications.publisher] >= 0
    return replace(
        workload,
        interests=Relation.from_pairs(
            number[interests.rows[kept]], interests.columns[kept], len(clients), workload.topic_count
        ),
        publications=Publications(
            number[publications.publisher[said]],
            publications.topic[said],
            publications.rate[said],
            publications.size[said],
        ),
        attachment=workload.attachment[clients],
        weights=None if workload.weights is None else workload.weights[kept],
        modes=None,
        wishes=None,
        stays=None,
    )


def _wanted_share(workload: Workload) -> NDArray[np.float64]:
    """Of every client: the share of all events that it wants."""
    interests = workload.interests
    wanted = np.bincount(interests.rows, workload.rates[interests.columns], interests.row_count)
    return wanted / max(float(workload.rates.sum()), 1e-300)
