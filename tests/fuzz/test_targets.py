"""A share of the fuzzing with every test run: what broke once, the good inputs, and some thousands of bad ones."""

from __future__ import annotations

import pytest

from tests.fuzz.mutate import inputs, kept
from tests.fuzz.targets import TARGETS

COUNT = {"broker": 300, "connection": 500, "http": 1000, "sealing": 500, "journal": 100, "batches": 500, "plans": 40}


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_of_strangers_break_nothing(target: str) -> None:
    found = TARGETS[target]
    for data in (b"", *kept(target), *found.seeds, *inputs(target, 0, COUNT.get(target, 3000))):
        found.check(data)
