"""Systems and workloads are listed with the meaning of every parameter, as the code says it."""

from __future__ import annotations

import re

import pytest

from coterie.api import lists
from coterie.systems import SYSTEMS
from coterie.workloads import WORKLOADS


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


def test_a_meaning_is_said_in_words() -> None:
    """A paper's symbol, or the name of one of our tables, tells a newcomer nothing."""
    listed = [*map(lists.system, SYSTEMS), *map(lists.workload_kind, WORKLOADS)]
    told = {(one.name, each.name): each.meaning for one in listed for each in one.parameters}
    cited = re.compile(r"\([^)]*\)|sections? [\d.]+|[Ff]igure \w+|line \d+|[A-Z]+_[A-Z]+")
    assert [name for name, text in told.items() if len(re.findall(r"\b[a-z]{2,}\b", cited.sub("", text))) < 2] == []
    assert [name for name, text in told.items() if re.search(r"[A-Z]_[A-Z]|one of [A-Z]{3,}", text)] == []
