"""The optimum of a tiny instance over all sets of topics as clusters, by integer programming (HiGHS through scipy)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from coterie.errors import RunError
from coterie.kernels.clusters.covers import LinearCosts
from coterie.model import Relation
from coterie.systems.tamara.planner import UNIT_PRICES

TOPICS_MAX = 8


def optimal_cost(
    interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES, time_limit_s: float = 60.0
) -> float:
    """The least overall cost; RunError if it is not proven within the time limit."""
    topic_count = interests.column_count
    if topic_count > TOPICS_MAX:
        raise ValueError(f"{topic_count} topics make too many clusters; at most {TOPICS_MAX}")
    clusters = [set(chosen) for size in range(2, topic_count + 1) for chosen in combinations(range(topic_count), size)]
    cluster_rate = np.array([sum(rate[topic] for topic in sorted(cluster)) for cluster in clusters])
    pairs, users, count = interests.pair_count, interests.row_count, len(clusters)
    # Variables: is the cluster used; is the user on it (user by user); is the pair a direct subscription.
    cost = np.concatenate(
        [
            prices.associate * np.array([len(cluster) for cluster in clusters]) + prices.notify * cluster_rate,
            np.tile(prices.maintain + prices.disseminate * cluster_rate, users),
            prices.maintain + prices.disseminate * rate[interests.columns],
        ]
    )
    solution = milp(
        cost,
        constraints=[_covered(interests, clusters), _used(users, count, pairs)],
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit_s},
    )
    if not solution.success:
        raise RunError(f"the optimum was not proven: {solution.message}")
    return float(solution.fun + prices.notify * rate.sum())


def _covered(interests: Relation, clusters: list[set[int]]) -> LinearConstraint:
    """Every interest is served directly or by a cluster the user is on."""
    count, first_pair = len(clusters), len(clusters) * (1 + interests.row_count)
    rows, columns = [], []
    for pair, (user, topic) in enumerate(zip(interests.rows.tolist(), interests.columns.tolist(), strict=True)):
        serving = [count * (1 + user) + at for at, cluster in enumerate(clusters) if topic in cluster]
        columns += [*serving, first_pair + pair]
        rows += [pair] * (len(serving) + 1)
    shape = (interests.pair_count, first_pair + interests.pair_count)
    return LinearConstraint(csr_array((np.ones(len(rows)), (rows, columns)), shape=shape), lb=1)


def _used(users: int, count: int, pairs: int) -> LinearConstraint:
    """Nobody is on a cluster that is not used."""
    on = np.arange(users * count)
    rows = np.concatenate([on, on])
    columns = np.concatenate([count + on, np.tile(np.arange(count), users)])
    values = np.concatenate([np.ones(len(on)), -np.ones(len(on))])
    return LinearConstraint(csr_array((values, (rows, columns)), shape=(len(on), count * (1 + users) + pairs)), ub=0)
