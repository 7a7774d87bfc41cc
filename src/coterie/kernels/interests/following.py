"""Interests that follow something: a mode whose topics are replaced one by one, people who move from cell to cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.drawing import rank_of
from coterie.kernels.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
GONE, COME = 1, 0  # Change.UNSUBSCRIBE, Change.SUBSCRIBE


@kernel
def replace_topics(
    draw: np.random.Generator, upto: Floats, guide: Ints, held: Ints, modes: Ints, bounds: Longs, who: Ints
) -> tuple[Ints, Ints]:
    """For each change of a user in `who` (in time order): (topic dropped, topic taken), the new one inside its mode.

    held (users, topics each) is what users hold at the start and is overwritten; mode m is bounds[m]:bounds[m + 1] and
    larger than what a user holds. Draws by popularity until it meets a topic not held; after 1,000 in vain takes the
    first free.
    """
    dropped = np.empty(len(who), np.int32)
    taken = np.empty(len(who), np.int32)
    per_user = held.shape[1]
    for at in range(len(who)):
        user = who[at]
        first, last = bounds[modes[user]], bounds[modes[user] + 1]
        new = first
        for _ in range(1000):
            new = first + rank_of(draw.random(), upto, guide)
            if new < last and not np.any(held[user] == new):
                break
        else:
            new = first
            while np.any(held[user] == new):
                new += 1
        slot = int(draw.random() * per_user)
        dropped[at] = held[user, slot]
        taken[at] = new
        held[user, slot] = new
    return dropped, taken


@kernel
def follow_people(
    cell_of: Ints, mover: Ints, target: Ints, followed: Ints, indptr: Longs, followers: Ints
) -> tuple[Longs, NDArray[np.uint8], Ints, Ints]:
    """Subscriptions that keep everybody on the cells of oneself and of the people one follows, as people move.

    cell_of (people) is where they start and is overwritten; mover, target: the moves in time order; followed (people,
    k): whom each follows; followers[indptr[p]:indptr[p + 1]]: who follows p. Returns (move, change, subscriber, cell)
    per change.
    """
    room = 0
    for at in range(len(mover)):
        room += 2 * (indptr[mover[at] + 1] - indptr[mover[at]] + 1)
    move = np.empty(room, np.int64)
    change = np.empty(room, np.uint8)
    subscriber = np.empty(room, np.int32)
    cell = np.empty(room, np.int32)
    count = 0
    for at in range(len(mover)):
        person = mover[at]
        old, new = cell_of[person], target[at]
        if old == new:
            continue
        for entry in range(indptr[person] - 1, indptr[person + 1]):
            watcher = person if entry < indptr[person] else followers[entry]
            keeps_old = watcher != person and cell_of[watcher] == old
            has_new = watcher != person and cell_of[watcher] == new
            for friend in followed[watcher]:
                if friend != person:
                    keeps_old = keeps_old or cell_of[friend] == old
                    has_new = has_new or cell_of[friend] == new
            for kind, place, is_needed in ((GONE, old, not keeps_old), (COME, new, not has_new)):
                if is_needed:
                    move[count], change[count], subscriber[count], cell[count] = at, kind, watcher, place
                    count += 1
        cell_of[person] = new
    return move[:count], change[:count], subscriber[:count], cell[:count]
