"""Hypergraph placement of crowds of any size, block by block: a sample shows the way, the blocks follow and refine.

A sample of users is placed by the whole search. Then all users join, and move and change places in rounds, each block
against one picture of all: `counts` int32[p, b] and `load` int64[b], small whatever the number of users, so that it can
be sent to wherever a block lies. A round is one pass over the blocks, in any order or at once, and one new picture. No
block may use more than its part of the room left at a broker, so a round never fills a broker beyond its capacity. All
blocks follow the same picture: in a round only a share of the users may move, or all would crowd at the same places.
Now and then blocks gather like users of a broker into groups, few enough that all groups can be moved in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from coterie.kernels import fanout
from coterie.kernels.fanout import Crowd, Floats, Seats
from coterie.kernels.fanout_levels import coarsened, part_of_groups
from coterie.kernels.fanout_search import HEAVIEST, Schedule, Search
from coterie.kernels.fanout_swaps import swap_sweep
from coterie.kernels.rings import Index, Offset

BLOCK_USERS = 1 << 16
SAMPLE_USERS = 1 << 16  # and groups, in all blocks together
GROUP_PINS_MAX = 1 << 21  # more and users are too unlike: groups would want everything
SHARE = 0.5  # of a block's users that are asked in a round
JOINING = -1.0  # stands for the smoothing of the first round, in which everybody joins
STAGES: Sequence[Schedule] = (  # (smoothing, rounds); between stages groups move
    ((JOINING, 1), (0.7, 2), (0.5, 6), (0.3, 4)),
    ((0.3, 2), (0.1, 2), (0.0, 2)),
    ((0.3, 1), (0.0, 3)),
)
SWAPS_BELOW = 0.4  # smoothing from which on users of a block change places as well


@dataclass(frozen=True, eq=False)
class Task:
    """The problem: users' topics as CSR, and brokers with so much room each."""

    indptr: Offset
    topics: Index
    rate: Floats
    broker_count: int
    capacity: int
    seed: int
    block_users: int = BLOCK_USERS
    sample_users: int = SAMPLE_USERS

    @property
    def user_count(self) -> int:
        return len(self.indptr) - 1

    @property
    def block_count(self) -> int:
        """By the number of users alone: the result must not depend on how many machines there are."""
        return max(1, -(-self.user_count // self.block_users))

    def users(self, block: int) -> Index:
        """Every so-manieth user: neighbours in number may be of one kind, and a block should look like the whole."""
        return np.arange(block, self.user_count, self.block_count, dtype=np.int32)

    def crowd(self, users: Index) -> Crowd:
        """Some of the users, as a crowd of their own."""
        lengths = self.indptr[users + 1] - self.indptr[users]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(indptr[-1]) + np.repeat(self.indptr[users] - indptr[:-1], lengths)
        return fanout.crowd_of(indptr, self.topics[at])


@dataclass(frozen=True, eq=False)
class Round:
    """What every block is told: the picture of all, and where its own users are."""

    number: int
    smoothing: float
    seats: Seats


class Grouped(NamedTuple):
    """A block's users in groups of one broker each, and which group everybody is in."""

    crowd: Crowd
    group: Index


class Runner(Protocol):
    """All blocks of a round, side by side or not, results in the order of the blocks."""

    def moved(self, told: Round) -> list[Index]: ...

    def grouped(self, told: Round) -> list[Grouped]: ...


@dataclass(frozen=True, eq=False)
class Here:
    """Block after block in this process: what a cluster does side by side."""

    task: Task

    def moved(self, told: Round) -> list[Index]:
        return [move_block(self.task, told, block) for block in range(self.task.block_count)]

    def grouped(self, told: Round) -> list[Grouped]:
        return [group_block(self.task, told, block) for block in range(self.task.block_count)]


def move_block(task: Task, told: Round, block: int) -> Index:
    """The new brokers of one block's users; changes nothing it was told."""
    users = task.users(block)
    crowd = task.crowd(users)
    draw = np.random.default_rng([task.seed, told.number, block])
    order = draw.permutation(len(users)).astype(np.int32)
    counts = told.seats.counts.copy()
    load = task.capacity - (task.capacity - told.seats.load) // task.block_count
    if told.smoothing == JOINING:
        return fanout.grow(crowd, task.rate, counts, load, task.capacity, fanout.powers(0.9), order)
    seats = Seats(told.seats.part[users].astype(np.int32), counts, load)
    table = fanout.powers(told.smoothing)
    asked = order[: int(np.ceil(len(order) * SHARE))]
    fanout.sweep(crowd, task.rate, seats, task.capacity, table, asked, 0.0)
    if told.smoothing < SWAPS_BELOW:
        swap_sweep(crowd, task.rate, seats, task.capacity, table, asked, 0.0)
    return seats.part


def group_block(task: Task, told: Round, block: int) -> Grouped:
    """Like users of one broker together, until the block has no more groups than its part of the sample."""
    users = task.users(block)
    crowd, part = task.crowd(users), told.seats.part[users].astype(np.int32)
    group = np.arange(len(users), dtype=np.int32)
    draw = np.random.default_rng([task.seed, told.number, block])
    heaviest = max(int(HEAVIEST * task.capacity), 1)
    while len(part) > task.sample_users // task.block_count:
        coarse, joined = coarsened(crowd, task.rate, part, heaviest, draw.permutation(len(part)).astype(np.int32))
        if len(coarse.weight) > 0.95 * len(part):
            break
        part, crowd, group = part_of_groups(part, joined, len(coarse.weight)), coarse, joined[group]
    return Grouped(crowd, group)


def sample_picture(task: Task) -> Index:
    """Where topics are once a sample of users is placed with its part of the room; then nobody is counted as there."""
    draw = np.random.default_rng([task.seed, task.user_count])
    users = np.sort(draw.permutation(task.user_count)[: task.sample_users]).astype(np.int32)
    crowd = task.crowd(users)
    whole = max(int(task.indptr[-1]), 1)
    largest = int(crowd.weight.max(initial=1))
    capacity = int(task.capacity * crowd.weight.sum() / whole) + largest
    search = Search(crowd, task.rate, task.broker_count, capacity, draw)
    return search.improved(search.refined(search.grown())).counts


def move_groups(task: Task, told: Round, blocks: Sequence[Grouped]) -> Seats | None:
    """The seats once the groups of all blocks have moved together; None where that helps nobody."""
    crowds = [block.crowd for block in blocks]
    if sum(len(crowd.topics) for crowd in crowds) > GROUP_PINS_MAX:
        return None
    lengths = np.concatenate([np.diff(crowd.indptr) for crowd in crowds])
    columns = [np.concatenate(column) for column in zip(*(crowd[1:] for crowd in crowds), strict=True)]
    whole = Crowd(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), *columns)
    first = np.concatenate([[0], np.cumsum([len(crowd.weight) for crowd in crowds])])
    group = np.empty(task.user_count, np.int32)
    for block, grouped in enumerate(blocks):
        group[task.users(block)] = first[block] + grouped.group
    draw = np.random.default_rng([task.seed, told.number])
    search = Search(whole, task.rate, task.broker_count, task.capacity, draw)
    found = search.cycled(part_of_groups(told.seats.part, group, int(first[-1])))
    if search.cost(found) >= search.cost(told.seats):
        return None
    return Seats(found.part[group], found.counts, found.load)


def place(task: Task, given: Index, runner: Runner) -> Seats:
    """Where everybody goes; the given placement where that fits and nothing cheaper was found."""
    whole = fanout.crowd_of(task.indptr, task.topics)
    before = fanout.seats_of(whole, given, len(task.rate), task.broker_count)
    seats = Seats(before.part, sample_picture(task), np.zeros(task.broker_count, np.int64))
    number = 0
    for stage, schedule in enumerate(STAGES):
        if stage:
            told = Round(number, 0.0, seats)
            seats = move_groups(task, told, runner.grouped(told)) or seats
            number += 1
        for smoothing in (smoothing for smoothing, repeats in schedule for _ in range(repeats)):
            part = np.empty(task.user_count, np.int32)
            for block, moved in enumerate(runner.moved(Round(number, smoothing, seats))):
                part[task.users(block)] = moved
            seats = fanout.seats_of(whole, part, len(task.rate), task.broker_count)
            number += 1
    is_given_better = fanout.touched(before.counts, task.rate) <= fanout.touched(seats.counts, task.rate)
    return before if before.load.max() <= task.capacity and is_given_better else seats
