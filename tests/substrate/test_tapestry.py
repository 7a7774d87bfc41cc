"""Prefix routing without leaf sets: every way arrives, a digit more is right after each hop, near ones shorten it."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import ConfigError
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.tapestry import TapestryMesh, _digits


def _shared(mesh: TapestryMesh, one: int, other: int) -> int:
    same = _digits(mesh.positions, mesh.digit_bits)[one] == _digits(mesh.positions, mesh.digit_bits)[other]
    return int(np.argmin(same)) if not same.all() else len(same)


@pytest.mark.parametrize("bits", [1, 4])
def test_every_hop_gets_at_least_one_digit_more_right(bits: int) -> None:
    mesh = TapestryMesh.of(node_positions(60, 1), bits)
    starts = np.repeat(np.arange(60, dtype=np.int32), 60)
    paths = mesh.paths(starts, np.tile(mesh.positions, 60))
    for at in range(len(starts)):
        way = paths.hops[paths.indptr[at] : paths.indptr[at + 1]].tolist()
        assert way[0] == starts[at]
        assert way[-1] == at % 60
        digits = [_shared(mesh, node, at % 60) for node in way]
        assert digits == sorted(set(digits))


def test_a_key_has_one_root_wherever_one_asks() -> None:
    mesh = TapestryMesh.of(node_positions(40, 2), 4)
    keys = topic_keys(30)
    roots = mesh.owners(keys)
    for start in (0, 17, 39):
        paths = mesh.paths(np.full(30, start, np.int32), keys)
        assert paths.hops[paths.indptr[1:] - 1].tolist() == roots.tolist()


def test_near_neighbours_make_ways_shorter_in_the_plane() -> None:
    plane = np.random.default_rng(3).random((80, 2))
    positions = node_positions(80, 3)
    starts, keys = np.zeros(80, np.int32), positions

    def length(mesh: TapestryMesh) -> float:
        paths = mesh.paths(starts, keys)
        steps = np.linalg.norm(np.diff(plane[paths.hops], axis=0), axis=1)
        inside = np.ones(len(paths.hops), bool)
        inside[paths.indptr[1:] - 1] = False
        return float(steps[inside[:-1]].sum())

    assert length(TapestryMesh.of(positions, 1, plane)) < 0.7 * length(TapestryMesh.of(positions, 1))


def test_digits_have_a_size_that_fits() -> None:
    with pytest.raises(ConfigError):
        TapestryMesh.of(node_positions(4, 1), 3)
