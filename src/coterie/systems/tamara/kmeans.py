"""The centralised baseline of section 5.2: K-means over the topics' subscriber vectors, disjoint clusters."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from coterie.kernels.clusters.covers import LinearCosts
from coterie.model import Relation
from coterie.systems.tamara.planner import UNIT_PRICES, ClusterSearch, PlannedClusters, cover_with

_CELLS_MAX = 50_000_000
_STARTS = 12


def kmeans_clusters(interests: Relation, cluster_count: int, seed: int) -> Relation:
    """Cluster -> topics; topics are points whose coordinates say which users want them."""
    users, topics = interests.row_count, interests.column_count
    if users * topics > _CELLS_MAX:
        raise ValueError(f"K-means on {users} users x {topics} topics does not fit")
    points = np.zeros((topics, users), np.float32)
    points[interests.columns, interests.rows] = 1.0
    best, labels = np.inf, np.zeros(topics, np.int64)
    for start in range(_STARTS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster is no cluster; nothing to warn about
            centres, found = kmeans2(points, cluster_count, minit="++", rng=np.random.default_rng([seed, start]))
        spread = float(((points - centres[found]) ** 2).sum())
        if spread < best:
            best, labels = spread, found
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=cluster_count)
    indptr = np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.int64)
    return Relation(indptr, order.astype(np.int32), topics)


def join_by_majority(
    clusters: Relation, interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES
) -> PlannedClusters:
    """Users join a cluster if they want more than half of its topics, whatever its events cost."""
    search = ClusterSearch(interests, rate, prices)
    search.topics = clusters
    shared = np.zeros((interests.row_count, clusters.row_count), np.int32)
    cluster_of = np.full(interests.column_count, -1, np.int64)
    cluster_of[clusters.columns] = clusters.rows
    known = cluster_of[interests.columns] >= 0
    np.add.at(shared, (interests.rows[known], cluster_of[interests.columns[known]]), 1)
    joined = 2 * shared > clusters.lengths[None, :]
    rows, columns = np.nonzero(joined)
    search.memberships = Relation.from_pairs(rows, columns, interests.row_count, clusters.row_count)
    search.cover[:] = known & joined[interests.rows, np.maximum(cluster_of[interests.columns], 0)]
    return search.result()


def join_by_cost(
    clusters: Relation, interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES
) -> PlannedClusters:
    """Users join what lowers the overall cost."""
    return cover_with(clusters, interests, rate, prices)
