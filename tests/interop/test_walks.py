"""The walks that docs/ARCHITECTURE.md tells are the walks that messages take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.walks import WALKS, walk
from tests.interop.watching import in_short

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "ARCHITECTURE.md"
NAMED = re.compile(r"^(\w+/\w+) +(\w+\.)?(\w+)(?:, (\w+))?(?: |$)", re.MULTILINE)


@pytest.mark.parametrize("name", WALKS)
def test_the_page_has_the_count(name: str) -> None:
    hops = walk(name)
    assert f"| {name} | {in_short(hops)} |" in PAGE.read_text(), [*map(" ".join, hops), in_short(hops)]


def test_the_page_names_the_hops() -> None:
    """Each function that the page names on this walk has the message in its hands."""
    section = PAGE.read_text().partition("## A PUBLISH at QoS 1")[2].partition("\n## ")[0]
    passed = {(hop.file.removesuffix(".py"), hop.function.rpartition(".")[2]) for hop in walk("from node to node")}
    named = [(file, one) for file, _, *both in NAMED.findall(section) for one in both if one]
    assert len(named) > 20
    system = "systems/flooding"
    assert [one for one in named if one not in passed and one[0] != system] == []
