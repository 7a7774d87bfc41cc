"""From where clients are to where they should be: moves one by one that pay, and brokers that keep their names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from coterie.kernels.jit import kernel
from coterie.kernels.placement import books
from coterie.kernels.placement.books import DUST, Crowd, Floats, Seats, fits, joining_costs, move
from coterie.kernels.rings.chord import Index

STUCK_ROUNDS_MAX = 1000


@dataclass(frozen=True, eq=False)
class Moved:
    """Where everybody ends, and who moves in which order: limits hold after every step."""

    part: Index
    order: Index
    cost: float  # of copies; moves not included


def renamed(part: Index, present: Index, load: Floats, capacity: Floats) -> Index:
    """The same groups at brokers named so that most clients stay; a group goes only where it fits."""
    return named_among(part, present, np.asarray((load[:, None, :] <= capacity[None, :, :] * (1 + DUST)).all(axis=2)))


def named_among(part: Index, present: Index, is_room: NDArray[np.bool_]) -> Index:
    """The same, with groups only at brokers where they may be [group, broker]; unchanged where that is impossible."""
    brokers = is_room.shape[1]
    there = present >= 0
    key = part[there].astype(np.int64) * brokers + present[there]
    staying = np.bincount(key, minlength=brokers * brokers).reshape(brokers, brokers).astype(np.float64)
    rows, names = linear_sum_assignment(np.where(is_room, staying, -1e18), maximize=True)
    if not is_room[rows, names].all():
        return part
    new = np.empty(brokers, np.int32)
    new[rows] = names
    return new[part]


@kernel
def step_by_step(
    crowd: Crowd, rate: Floats, seats: Seats, capacity: Floats, target: Index, order: Index
) -> tuple[Index, Floats]:
    """Move everybody in this order as soon as there is room; who was moved, and what each step saved.

    `seats` changes in place. Who finds no room however long it waits stays where it is.
    """
    done = np.zeros(len(target), np.bool_)
    moved, saved = np.empty(len(order), np.int32), np.empty(len(order))
    score = np.empty(seats.load.shape[0])
    steps = 0
    for _ in range(STUCK_ROUNDS_MAX):
        before = steps
        for user in order:
            if done[user] or not fits(seats.load, capacity, crowd.weight, user, target[user]):
                continue
            left = joining_costs(crowd, rate, seats, books_exact(), user, seats.part[user], score)
            moved[steps], saved[steps] = user, left - score[target[user]]
            move(crowd, seats, user, target[user])
            done[user] = True
            steps += 1
        if steps == before:
            break
    return moved[:steps], saved[:steps]


@kernel
def books_exact() -> Floats:
    table = np.zeros(books.POWERS + 1)
    table[0] = 1.0
    return table


@kernel
def gains(crowd: Crowd, rate: Floats, seats: Seats, target: Index, users: Index) -> Floats:
    """What each user's move alone would save now."""
    found = np.empty(len(users))
    score = np.empty(seats.load.shape[0])
    for at in range(len(users)):
        user = users[at]
        left = joining_costs(crowd, rate, seats, books_exact(), user, seats.part[user], score)
        found[at] = left - score[target[user]]
    return found


@kernel
def follow(crowd: Crowd, rate: Floats, seats: Seats, target: Index, moved: Index) -> Floats:
    """What each of these moves saves, one after the other, whatever room there is; `seats` changes in place."""
    saved, score = np.empty(len(moved)), np.empty(seats.load.shape[0])
    for at in range(len(moved)):
        user = moved[at]
        left = joining_costs(crowd, rate, seats, books_exact(), user, seats.part[user], score)
        saved[at] = left - score[target[user]]
        move(crowd, seats, user, target[user])
    return saved


def paying_moves(
    crowd: Crowd, rate: Floats, seats: Seats, capacity: Floats, target: Index, price: float, moves_max: int
) -> Moved:
    """The best beginning of the moves to `target`, dearest mistakes first; `seats` changes in place.

    Where a broker is too full now, as many moves are made as its limit asks for, whether they pay or not.
    """
    users = np.flatnonzero(target != seats.part).astype(np.int32)
    order = users[np.argsort(-gains(crowd, rate, seats, target, users), kind="stable")]
    start, before, load = seats.part.copy(), books.cost_of(seats, rate), seats.load.copy()
    moved, saved = step_by_step(crowd, rate, seats, capacity, target, order)
    steps = best_beginning(load, crowd.weight, capacity, start, target, moved[:moves_max], saved - price)
    part = start.copy()
    part[moved[:steps]] = target[moved[:steps]]
    return Moved(part, moved[:steps], before - float(saved[:steps].sum()))


def best_beginning(
    load: Floats, weight: Floats, capacity: Floats, start: Index, target: Index, moved: Index, worth: Floats
) -> int:
    """How many of the moves save most in all, each being worth so much; less overload goes before any saving."""
    total = np.concatenate([[0.0], -np.cumsum(worth[: len(moved)])])
    if _overload(load, capacity) > 0:
        total += 1e18 * _overloads(load, weight, capacity, start, target, moved)
    return int(np.argmin(total))


def _overload(load: Floats, capacity: Floats) -> float:
    return float(np.maximum(load / capacity - 1 - DUST, 0.0).sum())


def _overloads(load: Floats, weight: Floats, capacity: Floats, start: Index, target: Index, moved: Index) -> Floats:
    """How much too full brokers are before the first move and after each."""
    found = [_overload(load, capacity)]
    for user in moved.tolist():
        load[start[user]] -= weight[user]
        load[target[user]] += weight[user]
        found.append(_overload(load, capacity))
    return np.array(found)
