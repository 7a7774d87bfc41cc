"""Systems and workloads are listed with the meaning of every parameter, as the code says it."""

from __future__ import annotations

import pytest

from coterie.api import lists


@pytest.mark.parametrize("name", list(lists.list_systems()))
def test_every_parameter_of_a_system_has_a_meaning(name: str) -> None:
    missing = [one.name for one in lists.system(name).parameters if not one.meaning]
    assert not missing


@pytest.mark.parametrize("name", list(lists.list_workloads()))
def test_every_parameter_of_a_workload_has_a_meaning(name: str) -> None:
    missing = [one.name for one in lists.workload_kind(name).parameters if not one.meaning]
    assert not missing


def test_comments_above_behind_and_below_are_read() -> None:
    found = {one.name: one for one in lists.system("scribe").parameters}
    assert found["leaves"].default == 16
    assert found["leaves"].meaning
