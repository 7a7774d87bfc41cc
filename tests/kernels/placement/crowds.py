"""Random problems of placement, small enough for slow obvious versions."""

from __future__ import annotations

import numpy as np

from coterie.kernels.placement.problem import Problem


def problem_of(
    seed: int, clients: int, topics: int, brokers: int, *, publish: bool = True, room: float = 1.5
) -> Problem:
    """Clients that want a few topics each and publish on some; room for `room` times the mean in two dimensions."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0 if publish else 1, min(5, topics + 1), clients)
    rows = [np.sort(draw.choice(topics, length, replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = np.concatenate([*rows, np.zeros(0)]).astype(np.int32)
    count = clients if publish else 0
    publisher = draw.integers(clients, size=count).astype(np.int32)
    said, said_rate = draw.integers(topics, size=count).astype(np.int32), draw.integers(1, 9, count).astype(float)
    rate = np.bincount(said, said_rate, topics) if publish else draw.integers(1, 9, topics).astype(float)
    weight = np.stack([np.ones(clients), draw.random(clients) + 0.5], axis=1)
    capacity = np.tile(room * weight.sum(axis=0) / brokers, (brokers, 1)) + 1.5
    return Problem(indptr, columns, rate, weight, capacity, publisher, said, said_rate)


def plain_copies(problem: Problem, part: np.ndarray) -> float:
    """Event by event: a copy to every broker that wants the topic but the one where it enters."""
    wanting: dict[int, set[int]] = {topic: set() for topic in range(len(problem.rate))}
    for client in range(problem.client_count):
        for topic in problem.topics[problem.indptr[client] : problem.indptr[client + 1]].tolist():
            wanting[topic].add(int(part[client]))
    if not len(problem.publisher):
        return sum(float(problem.rate[topic]) * max(len(at) - 1, 0) for topic, at in wanting.items())
    rows = zip(problem.publisher.tolist(), problem.said_topic.tolist(), problem.said_rate.tolist(), strict=True)
    return sum(rate * len(wanting[topic] - {int(part[who])}) for who, topic, rate in rows)
