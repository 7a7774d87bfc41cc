"""SpiderCast in bulk: the maintenance kernels run to rest, static or under churn, and the links they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.errors import RunError
from coterie.kernels.links import maintenance as kernels
from coterie.model import Relation
from coterie.systems.spidercast.parameters import SpiderCastParameters

ROUNDS_MAX = 2000
MESSAGE_NAMES = ("connect", "connect_ok", "redirect", "disconnect", "disconnect_ok", "leave")


@dataclass(frozen=True, eq=False)
class Bulk:
    """A network in the middle of its maintenance: `nodes` and one or two tasks, advanced by `settle` or by rounds."""

    nodes: kernels.Nodes
    tasks: tuple[kernels.TaskArrays, ...]
    desk: kernels.Desk
    draw: NDArray[np.uint64]

    @property
    def node_count(self) -> int:
        return len(self.nodes.is_up)

    def settle(self) -> int:
        """Until nobody has anything to do; returns the rounds it took."""
        return max(self._settle(task) for task in self.tasks)

    def _settle(self, task: kernels.TaskArrays) -> int:
        rounds = self.advance(task, ROUNDS_MAX)
        if rounds == ROUNDS_MAX:
            raise RunError(f"neighbour maintenance was not at rest after {ROUNDS_MAX} rounds")
        return rounds

    def advance(self, task: kernels.TaskArrays, rounds: int) -> int:
        return kernels.run_rounds(self.nodes, task, self.desk, rounds, self.draw)

    def links(self) -> Relation:
        """The union of the tasks' neighbour sets, in both directions."""
        rows, columns = [], []
        for task in self.tasks:
            slots = np.repeat(task.start[:-1], task.degree) + _counting(task.degree)
            rows.append(np.repeat(np.arange(self.node_count), task.degree))
            columns.append(task.peer[slots])
        return Relation.from_pairs(np.concatenate(rows), np.concatenate(columns), self.node_count, self.node_count)

    def messages(self) -> dict[str, int]:
        total = np.sum([task.messages for task in self.tasks], axis=0)
        return dict(zip(MESSAGE_NAMES, total.tolist(), strict=True))


def begin(interests: Relation, parameters: SpiderCastParameters, seed: int, is_up: bool = True) -> Bulk:
    """Everybody (or nobody) up, no links yet."""
    draw = np.random.default_rng([seed, 5])
    by_topic = interests.transposed
    count = interests.row_count
    nodes = kernels.Nodes(
        interests.indptr,
        interests.columns,
        by_topic.indptr,
        by_topic.columns,
        np.full(count, is_up, np.uint8),
        _members(by_topic) if is_up else np.zeros_like(_members(by_topic)),
        parameters.view_share,
        int(draw.integers(2**31)),
    )
    counting = parameters.links == "similarity"
    greedy = kernels.SIMILAR if counting else kernels.GREEDY
    anyhow = kernels.ANY if counting else kernels.RANDOM
    tasks = [
        _task(interests, parameters, choice, np.full(count, wanted, np.int64), room)
        for choice, wanted, room in (
            (greedy, parameters.k_greedy, parameters.k_greedy),
            (anyhow, parameters.k_random, parameters.k_random_max),
        )
        if room
    ]
    words = nodes.members.shape[1]
    desk = kernels.Desk(
        np.zeros(count, np.int64),
        np.zeros(count, np.int32),
        np.zeros(count, np.int32),
        np.zeros(1, np.int64),
        np.zeros((int(interests.lengths.max(initial=0)).bit_length(), words), np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
    )
    return Bulk(nodes, tuple(tasks), desk, draw.integers(2**63, size=1, dtype=np.uint64))


def _members(by_topic: Relation) -> NDArray[np.uint64]:
    """Topics' members as bits, where that is no longer than the lists are: on average a member in every word."""
    words = -(-by_topic.column_count // 64)
    if by_topic.row_count * words > by_topic.pair_count:
        return np.zeros((0, words), np.uint64)
    members = np.zeros((by_topic.row_count, words), np.uint64)
    bits = np.uint64(1) << (by_topic.columns & 63).astype(np.uint64)
    np.bitwise_or.at(members, (by_topic.rows, by_topic.columns >> 6), bits)
    return members


def _task(
    interests: Relation, parameters: SpiderCastParameters, choice: int, wanted: NDArray[np.int64], room: int
) -> kernels.TaskArrays:
    count = interests.row_count
    sizes = np.ones(count, np.int64) if choice >= kernels.SIMILAR else interests.lengths
    start = np.concatenate([[0], np.cumsum(np.minimum(room * sizes, count) + parameters.margin + 1)]).astype(np.int64)
    return kernels.TaskArrays(
        choice=choice,
        ties=kernels.TIES_FIRST if parameters.ties == "first" else kernels.TIES_RANDOM,
        is_strict=parameters.disconnects == "above-target",
        margin=parameters.margin,
        wanted=wanted,
        limit=np.minimum(wanted * sizes, count),
        target=np.zeros(count, np.int64),
        start=start,
        degree=np.zeros(count, np.int64),
        peer=np.full(start[-1], -1, np.int32),
        refused=np.full(start[-1], -1, np.int32),
        cover=np.zeros(max(interests.pair_count, 1), np.int32),
        redirect=np.full(count, -1, np.int32),
        quarantine=np.full(count * kernels.QUARANTINE, -1, np.int32),
        quarantined=np.zeros(count, np.int64),
        is_awake=np.ones(count, np.uint8),
        messages=np.zeros(kernels.MESSAGE_KINDS, np.int64),
    )


def build(interests: Relation, parameters: SpiderCastParameters, seed: int) -> Bulk:
    """The static experiment: all nodes at once, maintained until nothing changes, then adapted if that is asked for."""
    bulk = begin(interests, parameters, seed)
    bulk.settle()
    if parameters.is_adaptive:
        _adapt(bulk, interests, parameters)
    return bulk


def _adapt(bulk: Bulk, interests: Relation, parameters: SpiderCastParameters) -> None:
    """Section 3.3.1: nodes covered with just K_g links raise K_r, again while they have fewer links than topics."""
    random = bulk.tasks[1]
    sizes = interests.lengths
    for _ in range(parameters.k_random_max):
        degree = bulk.links().lengths
        first = (random.wanted == 0) & (degree == parameters.k_greedy)
        further = (random.wanted > 0) & (random.wanted < parameters.k_random_max) & (degree < sizes)
        rising = first | further
        if not rising.any():
            return
        random.wanted[rising] += 1
        random.limit[rising] = np.minimum(random.wanted[rising] * sizes[rising], bulk.node_count)
        random.is_awake[rising] = 1
        bulk.settle()


def _counting(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... within each run of these lengths."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
