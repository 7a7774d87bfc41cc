"""Placement of more clients than one process should hold: block by block, each against a picture of all.

A picture says how many wishes for each topic every broker has, what enters where, how full and how dear brokers are: a
few megabytes, wherever the rest of the work lies. Blocks keep their own seats; a round is one pass over the blocks, in
any order or at once, and one new picture out of what they changed. No block may use more than its part of the room
left at a broker, so a round never fills a broker beyond its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from coterie.kernels.placement import auction
from coterie.kernels.placement.auction import Costs, Layer, Room, Singles, Whereabouts
from coterie.kernels.placement.books import Floats
from coterie.kernels.placement.passes import (
    GROWING,
    QUICK,
    Layout,
    layer_of,
    mean_rate,
    ranks,
    room_of,
    show_all,
    unit_of,
)
from coterie.kernels.placement.problem import Problem
from coterie.kernels.rings.chord import Index

BLOCK_USERS = 1 << 18
WAVES = 2
ROUNDS = QUICK.schedule


class Picture(NamedTuple):
    """What every block is told of all."""

    counts: Index  # [topic, broker], topics by rank
    entering: Singles
    load: Floats
    price: Singles

    @classmethod
    def empty(cls, problem: Problem) -> Picture:
        topics, shape = len(problem.rate), problem.capacity.shape
        layer = layer_of(topics, shape[0], is_counted=len(problem.publisher) > 0)
        return cls(layer.counts, layer.entering, np.zeros(shape), np.zeros(shape, np.float32))


class Passed(NamedTuple):
    """One block after a round: where its clients are, and what has changed in the picture."""

    part: Index
    counts: Index
    entering: Singles
    load: Floats
    price: Singles


@dataclass(frozen=True, eq=False)
class PlacementTask:
    """The whole problem and how it is cut; by the number of clients alone: machines must not show in the result."""

    problem: Problem
    seed: int
    block_users: int = BLOCK_USERS
    known_rank: Index | None = None

    @cached_property
    def rank(self) -> Index:
        """Of topics by popularity, unless it has been found before."""
        return ranks(self.problem) if self.known_rank is None else self.known_rank

    @property
    def block_count(self) -> int:
        return max(1, -(-self.problem.client_count // self.block_users))

    @property
    def growing(self) -> list[tuple[int, ...]]:
        """Waves in which blocks join: the first shows all others where kinds gather."""
        return [wave for wave in ((0,), tuple(range(1, self.block_count))) if wave]

    def waves(self, turn: int) -> list[tuple[int, ...]]:
        """Blocks that pass side by side, drawn anew for every turn."""
        drawn = np.random.default_rng([self.seed, turn]).permutation(self.block_count)
        return [tuple(wave.tolist()) for wave in np.array_split(drawn, WAVES) if len(wave)]

    def users(self, block: int) -> Index:
        """Every so-manieth client: neighbours in number may be of one kind, and a block should look like the whole."""
        return np.arange(block, self.problem.client_count, self.block_count, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Round:
    """What is to be done, and the picture of all before it."""

    number: int
    smoothing: float
    picture: Picture
    blocks: tuple[int, ...]  # those that pass
    alike: int  # blocks that are taken to do what one of these does


class Runner(Protocol):
    """The blocks of a round, side by side or not, results in their order; it keeps the seats."""

    def passed(self, told: Round) -> list[Passed]: ...


@dataclass(eq=False)
class Here:
    """Block after block in this process: what a cluster does side by side."""

    task: PlacementTask
    parts: dict[int, Index] = field(default_factory=dict)

    def passed(self, told: Round) -> list[Passed]:
        found = [pass_block(self.task, told, block, self.parts.get(block)) for block in told.blocks]
        self.parts |= {block: one.part for block, one in zip(told.blocks, found, strict=True)}
        return found


@dataclass(frozen=True, eq=False)
class Whole:
    """What a block must know of all besides the picture, wherever the others are."""

    rank: Index  # of topics
    unit: Floats
    room: Room
    seed: int
    block_count: int


def pass_block(task: PlacementTask, told: Round, block: int, part: Index | None) -> Passed:
    """One pass over a block's clients from where they are; changes nothing it was told."""
    users = task.users(block).astype(np.int64)
    own = task.problem.among(users, np.arange(task.problem.broker_count))
    unit = unit_of(task.problem)
    whole = Whole(task.rank, unit, room_of(task.problem, unit, QUICK.soft, None), task.seed, task.block_count)
    return pass_own(own, whole, told, block, part)


def pass_own(own: Problem, whole: Whole, told: Round, block: int, part: Index | None) -> Passed:
    """The same for a block that has nothing but its own clients."""
    draw = np.random.default_rng([whole.seed, block])
    layout = Layout.of(own, whole.rank, draw, unit=whole.unit)
    draw = np.random.default_rng([whole.seed, told.number, block])
    picture, room = told.picture, whole.room
    # Blocks are alike: what this one does to a broker's load all others do too, so it counts that many times.
    alike = told.alike
    clients = layout.clients._replace(weight=layout.clients.weight * alike)
    near = layer_of(*picture.counts.shape, is_counted=len(picture.entering) > 0)
    near.counts[:], near.entering[:] = picture.counts, picture.entering
    seats = np.full(own.client_count, -1, np.int32) if part is None else part[layout.order].astype(np.int32)
    far = Layer(near.counts[:, :0], near.shown[:, :0], near.entering[:, :0])
    state = Whereabouts(seats, near, far, picture.load.copy(), picture.price / np.float32(alike))
    costs = Costs(layout.rate, 0.0, 0.0, QUICK.learning * 255.0 * mean_rate(layout) / whole.block_count)
    tables = show_all(state, layout.rate, told.smoothing)
    if part is None:
        auction.grow(clients, room, state, costs._replace(step=costs.step * QUICK.growing), tables, 0)
    else:
        blocks = -(-len(seats) // auction.BLOCK)
        auction.sweep(clients, room, state, costs, tables, draw.permutation(blocks).astype(np.int32))
    new = np.empty(len(seats), np.int32)
    new[layout.order] = state.part
    changed = (near.counts - picture.counts, near.entering - picture.entering, (state.load - picture.load) / alike)
    return Passed(new, *changed, state.price * np.float32(alike))


def place_blocks(task: PlacementTask, runner: Runner, rounds: Sequence[tuple[float, int]] = ROUNDS) -> Index:
    """Where everybody goes. The blocks that join see topics and prices as the first has left them, and no loads.

    A round goes in waves: what some of the blocks do side by side the others do not know.
    """
    parts, number = dict[int, Index](), 0
    picture = empty = Picture.empty(task.problem)

    def passed(smoothing: float, seen: Picture, wave: tuple[int, ...], alike: int) -> Picture:
        nonlocal number
        found = runner.passed(Round(number, smoothing, seen, wave, alike))
        parts.update((block, one.part) for block, one in zip(wave, found, strict=True))
        number += 1
        return merged(picture, found)

    for wave in task.growing:
        picture = passed(GROWING, picture._replace(load=empty.load), wave, task.block_count)
    for turn, smoothing in enumerate(smoothing for smoothing, passes in rounds for _ in range(passes)):
        for wave in task.waves(turn):
            picture = passed(smoothing, picture, wave, len(wave))
    part = np.empty(task.problem.client_count, np.int32)
    for block, own in parts.items():
        part[task.users(block)] = own
    return part


def merged(picture: Picture, found: Sequence[Passed]) -> Picture:
    """The picture after what blocks have done side by side."""
    return Picture(
        picture.counts + sum(one.counts for one in found),
        picture.entering + sum(one.entering for one in found),
        picture.load + sum(one.load for one in found),
        np.stack([one.price for one in found]).mean(axis=0, dtype=np.float64).astype(np.float32),
    )
