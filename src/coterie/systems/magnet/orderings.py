"""Other ways to order the ring, by somebody who sees all interests at once: how much better could Magnet's order be?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import svds
from scipy.spatial.distance import squareform

from coterie.errors import ConfigError
from coterie.kernels.rings.bisection import bisect_order
from coterie.kernels.rings.likeness import Likes, likeness_order
from coterie.model import Placement, Relation, Workload
from coterie.model.relation import Index
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.stages import Ordering, join_order, topic_weights

LINKAGE_NODES_MAX = 6000  # all pairs of nodes
SWEEPS, LEAF_SIZE = 20, 4
SPECTRAL = 102  # stream of randomness
HILBERT_BITS = 16


def linkage_order(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    """The leaves of average-linkage clustering by similarity."""
    count = interests.row_count
    if count > LINKAGE_NODES_MAX:
        raise ConfigError("nodes", count, f"at most {LINKAGE_NODES_MAX} for all pairs of nodes")
    if count < 3:
        return np.arange(count, dtype=np.int32)
    weights = topic_weights(workload, parameters.is_rate_weighted)
    wants = _matrix(interests)
    both = np.asarray((wants @ diags(weights) @ wants.T).todense())
    own = both.diagonal()
    either = own[:, None] + own[None, :] - both
    distance = 1.0 - np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), "average")), np.int32)


def spectral_order(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    """By angle in the plane of the second and third singular vectors of the normalised interests."""
    weights = topic_weights(workload, parameters.is_rate_weighted)
    wants = _matrix(interests) @ diags(np.sqrt(weights))
    by_node = np.asarray(wants.sum(axis=1)).ravel()
    by_topic = np.asarray(wants.sum(axis=0)).ravel()
    scaled = diags(_inverse_root(by_node)) @ wants @ diags(_inverse_root(by_topic))
    if min(scaled.shape) < 5:
        return np.arange(interests.row_count, dtype=np.int32)
    start = np.random.default_rng([seed, SPECTRAL]).random(min(scaled.shape))
    left, strength, _ = svds(scaled, k=3, v0=start)
    second, third = np.argsort(-strength)[1:3]
    return np.argsort(np.arctan2(left[:, third], left[:, second]), kind="stable").astype(np.int32)


def hilbert_order(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    """Along Hilbert's curve, where nodes have coordinates."""
    if workload.coordinates is None:
        raise ConfigError("workload", workload.name, "one with coordinates for the Hilbert order")
    points = workload.coordinates
    low, high = points.min(axis=0), points.max(axis=0)
    scale = ((1 << HILBERT_BITS) - 1) / np.maximum(high - low, 1e-12)
    x, y = ((points - low) * scale).astype(np.int64).T
    index = np.zeros(len(points), np.int64)
    side = 1 << (HILBERT_BITS - 1)
    while side:
        right, up = (x & side) > 0, (y & side) > 0
        index += side * side * ((3 * right) ^ up)
        flips = ~up & right
        x, y = np.where(flips, side - 1 - x, x), np.where(flips, side - 1 - y, y)
        x, y = np.where(up, x, y), np.where(up, y, x)
        side >>= 1
    return np.argsort(index, kind="stable").astype(np.int32)


def likes_of(
    workload: Workload, placement: Placement, parameters: MagnetParameters
) -> tuple[Relation, NDArray[np.float64]]:
    """What the order by likeness looks at, wherever it is computed."""
    return workload.node_interests(placement.node_of), topic_weights(workload, parameters.is_rate_weighted)


def likeness_ordering(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    """Ours: average linkage of a sample, then of blocks, put together at their most similar ends."""
    weights = topic_weights(workload, parameters.is_rate_weighted)
    return likeness_order(Likes.of(interests.indptr, interests.columns, weights), seed)


def bisected_order(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    """Magnet's order, halved again and again so that the gaps between subscribers get short."""
    start = join_order(workload, interests, parameters, seed)
    weights = topic_weights(workload, parameters.is_rate_weighted)
    return bisect_order(start, SWEEPS, LEAF_SIZE, interests.indptr, interests.columns, weights)


ORDERINGS: dict[str, Ordering] = {
    "magnet": join_order,
    "linkage": linkage_order,
    "spectral": spectral_order,
    "hilbert": hilbert_order,
    "bisection": bisected_order,
    "likeness": likeness_ordering,
}


def _matrix(interests: Relation) -> csr_matrix:
    shape = interests.row_count, interests.column_count
    return csr_matrix((np.ones(interests.pair_count), interests.columns, interests.indptr), shape)


def _inverse_root(values: NDArray[np.float64]) -> NDArray[np.float64]:
    inverse: NDArray[np.float64] = np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)
    return inverse
