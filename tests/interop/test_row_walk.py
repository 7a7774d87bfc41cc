"""The way of a CSV row that docs/ARCHITECTURE.md tells is the way that a row goes."""

from __future__ import annotations

from pathlib import Path

import pytest

import coterie
from tests.interop.row_walk import walk_of_a_row


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_row_comes_from_the_file_through_the_plan_to_the_node(tmp_path: Path) -> None:
    passed = [
        f"{hop.file.removesuffix('.py')}.{hop.function}"
        for hop in walk_of_a_row(Path(coterie.__file__).parents[1], tmp_path)
    ]
    way = (
        "pipeline/files.read_chunks", "pipeline/reading._parse_csv", "pipeline/canonical.canonicalise",
        "pipeline/parts.finish_part", "pipeline/wishing.read_wishes", "pipeline/windows.all_windows",
        "plans/plan.Plan.clients", "plans/rollout.fit", "plans/rollout.change_over", "live/admin.AdminInterface.answer",
        "broker/placement.Placing.take",
    )  # fmt: skip
    assert [one for one in passed if one in way] == list(way)
