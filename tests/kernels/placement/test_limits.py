"""What brokers may hold: the stated imbalance, shares, and who makes it impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.kernels.placement.limits import limits_of


def test_the_stated_imbalance_is_the_limit() -> None:
    draw = np.random.default_rng(1)
    weight = np.stack([np.ones(1000), draw.random(1000)], axis=1)
    limits = limits_of(weight, np.ones((8, 2)), np.array([0.04, 0.1]))
    assert limits.heaviest is None
    assert np.allclose(limits.capacity, np.array([1.04, 1.1]) * weight.sum(axis=0) / 8)


def test_whole_clients_are_rounded_up() -> None:
    limits = limits_of(np.ones((10, 1)), np.ones((4, 1)), np.array([0.03]))
    assert limits.capacity.ravel().tolist() == [3.0] * 4  # 10 clients on 4 brokers: one of them has three
    assert limits.heaviest is None


def test_shares_scale_the_limit() -> None:
    limits = limits_of(np.ones((100, 1)), np.array([[3.0], [1.0]]), np.array([0.2]))
    assert limits.capacity.ravel().tolist() == pytest.approx([90.0, 30.0])
    assert np.bincount(limits.packed, minlength=2)[0] <= 90


def test_a_client_heavier_than_the_limit_is_named_and_fills_a_broker() -> None:
    weight = np.stack([np.ones(101), np.ones(101)], axis=1)
    weight[7, 1] = 400.0
    limits = limits_of(weight, np.ones((5, 2)), np.array([0.1, 0.1]))
    assert limits.heaviest is not None
    assert (limits.heaviest.client, limits.heaviest.dimension, limits.heaviest.weight) == (7, 1, 400.0)
    assert limits.heaviest.limit == pytest.approx(1.1 * 500 / 5)
    assert limits.weight[7, 1] == pytest.approx(110.0)  # counts as a whole broker
    beside = limits.weight[(limits.packed == limits.packed[7]) & (np.arange(101) != 7), 1].sum()
    assert beside <= limits.capacity[0, 1] - 110.0 + 1e-9


def test_weights_that_do_not_divide_raise_the_limit_and_say_why() -> None:
    limits = limits_of(np.array([[2.0], [2.0], [2.0], [1.0]]), np.ones((2, 1)), np.array([0.0]))
    assert limits.capacity.max() == 4.0  # the mean is 3.5, and no two of these make it
    assert limits.heaviest is not None
    assert limits.heaviest.weight == 2.0


@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_somewhere_everybody_fits(seed: int, brokers: int, imbalance: float) -> None:
    draw = np.random.default_rng(seed)
    weight = np.stack([np.ones(40), draw.pareto(1.0, 40)], axis=1)
    limits = limits_of(weight, draw.random((brokers, 2)) + 0.1, np.array([imbalance, imbalance]))
    load = np.zeros_like(limits.capacity)
    np.add.at(load, limits.packed, limits.weight)
    assert (load <= limits.capacity * (1 + 1e-9)).all()
    assert (limits.weight <= weight).all()
