"""Wishes become topics and stays, against the obvious loops."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.model import Relation
from coterie.pipeline import wishing
from coterie.pipeline.stays import joined_pieces, joined_stays, short_stays


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_clients_expand_like_the_obvious_loop(monkeypatch, seed):
    monkeypatch.setattr(wishing, "PAIRS_AT_ONCE", 20)
    draw = np.random.default_rng(seed)
    of = Relation.from_pairs(draw.integers(0, 30, 80), draw.integers(0, 12, 80), 30, 12)
    matches = Relation.from_pairs(draw.integers(0, 12, 60), draw.integers(0, 9, 60), 12, 9)
    shared = draw.random(12) < 0.4
    members = np.bincount(of.columns, minlength=12)
    expected = defaultdict(float)
    for client in range(30):
        for wish in of.row(client):
            for topic in matches.row(wish):
                expected[client, int(topic)] += 1 / members[wish] if shared[wish] else 1
    interests, weights = wishing.expanded(of, matches, shared)
    interests.check("expanded")
    found = zip(interests.rows.tolist(), interests.columns.tolist(), weights.tolist(), strict=True)
    assert {(client, topic): weight for client, topic, weight in found} == pytest.approx(
        {pair: min(1.0, weight) for pair, weight in expected.items()}
    )
    assert wishing.expanded(of, matches, np.zeros(12, bool))[1] is None


def test_more_pairs_than_can_be_numbered_are_refused(monkeypatch):
    monkeypatch.setattr(wishing, "PAIRS_MAX", 5)
    of, matches = Relation.from_rows([[0], [0]], 1), Relation.from_rows([[0, 1, 2]], 3)
    with pytest.raises(InputError, match="come to 6 pairs of client and topic, 5 fit"):
        wishing.expanded(of, matches, np.zeros(1, bool))


@pytest.mark.parametrize("seed", range(20))
def test_stays_are_joined_where_they_meet(seed):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(0, 40))
    key = draw.integers(0, 6, count)
    begin = draw.integers(0, 60, count).astype(float)
    end = begin + draw.integers(0, 15, count)
    begin[draw.random(count) < 0.1], end[draw.random(count) < 0.1] = -np.inf, np.inf
    expected = []
    for one in range(6):
        joined: list[list[float]] = []
        for low, high in sorted(zip(begin[key == one].tolist(), end[key == one].tolist(), strict=True)):
            if joined and low <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], high)
            else:
                joined.append([low, high])
        expected += [(one, low, high) for low, high in joined if np.isfinite(low) or np.isfinite(high)]
    found = short_stays(key, begin, end)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


@pytest.mark.parametrize("waiting_max", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_stays_in_pieces_are_joined_like_all_at_once(seed, waiting_max):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(0, 200))
    begin = draw.integers(0, 60, count).astype(float)
    stays = (draw.integers(0, 6, count), begin, begin + draw.integers(0, 9, count))
    cuts = np.sort(draw.integers(0, count + 1, 9))
    pieces = list(zip(*(np.split(column, cuts) for column in stays), strict=True))
    for found, expected in zip(joined_pieces(pieces, waiting_max), joined_stays(*stays), strict=True):
        assert found.tolist() == expected.tolist()
    assert not len(joined_pieces([])[0])
