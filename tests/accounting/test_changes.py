"""How often nodes' wishes change, against counting second by second."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coterie.accounting.changes import interest_changes
from coterie.accounting.price import price
from coterie.model import Publications, Relation, Stays, Wishes, Workload
from coterie.systems import SYSTEMS

SPAN = 12
STAYS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(-1, SPAN - 1), st.integers(1, SPAN + 2)), max_size=12
)


def fleet(rows: list[tuple[int, int, int, int]], steady: list[tuple[int, int]]) -> Workload:
    """Five clients on two nodes; stays that begin at -1 began before the window, those behind its end go on."""
    rows = [(client, wish, begin, begin + length) for client, wish, begin, length in rows]
    pairs = [*steady, *((client, wish) for client, wish, _, _ in rows)]
    interests = Relation.from_pairs(
        np.array([pair[0] for pair in pairs], np.int64), np.array([pair[1] for pair in pairs], np.int64), 5, 3
    )
    stays = Stays(
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.int32),
        np.array([-np.inf if row[2] < 0 else row[2] + 0.5 for row in rows]),
        np.array([np.inf if row[3] >= SPAN else row[3] + 0.5 for row in rows]),
        float(SPAN),
    )
    everyone = np.array([0, 0, 1, 1, 1], np.int32)
    return Workload("fleet", interests, Publications.of([0], [0], [1.0]), everyone, 2, stays=stays)


def slowly(workload: Workload, steady: list[tuple[int, int]]) -> float:
    """Look at every half second who wants what, and count what differs from the look before."""
    stays, node_of = workload.stays, workload.attachment
    assert stays is not None
    moving = set(zip(stays.client.tolist(), stays.filter.tolist(), strict=True))
    before: set[tuple[int, int]] | None = None
    changes = 0
    for now_s in np.arange(0, SPAN, 0.5) + 0.25:
        alive = [
            (client, wish)
            for client, wish, begin, end in zip(stays.client, stays.filter, stays.begin_s, stays.end_s, strict=True)
            if begin <= now_s < end
        ]
        wanted = {(int(node_of[client]), int(wish)) for client, wish in alive}
        wanted |= {(int(node_of[client]), wish) for client, wish in steady if (client, wish) not in moving}
        changes += 0 if before is None else len(wanted ^ before)
        before = wanted
    return changes / SPAN


@given(rows=STAYS, steady=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=4))
def test_changes_are_what_somebody_watching_would_count(
    rows: list[tuple[int, int, int, int]], steady: list[tuple[int, int]]
) -> None:
    workload = fleet(rows, steady)
    assert interest_changes(workload, workload.attachment) == slowly(workload, steady)


def test_who_sits_with_others_of_the_same_wish_announces_nothing() -> None:
    workload = fleet([(0, 1, 3, 4)], [])
    assert interest_changes(workload, workload.attachment) == 2 / SPAN
    together = fleet([(0, 1, 3, 4)], [(1, 1)])
    assert interest_changes(together, together.attachment) == 0


def test_a_mesh_tells_every_change_to_all_others_and_a_filter_is_one_wish() -> None:
    workload = fleet([(0, 1, 3, 4)], [(2, 1)])
    mesh = SYSTEMS["mesh"]
    assert price(mesh.plan(workload), workload).control.subscription == 2 / SPAN  # to the one other node
    wishes = Wishes(Relation.from_rows([[0], [], [0], [], []], 1), Relation.from_rows([[0, 1, 2]], 3))
    stays = replace(workload.stays, filter=np.zeros(1, np.int32))  # type: ignore[type-var]
    wild = replace(workload, interests=Relation.from_rows([[0, 1, 2], [], [0, 1, 2], [], []], 3), wishes=wishes)
    wild = replace(wild, stays=stays)
    assert price(mesh.plan(wild), wild).control.subscription == 2 / SPAN
