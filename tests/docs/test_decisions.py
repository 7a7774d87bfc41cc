"""Decisions: numbered without gaps, in one format, each told in the same three parts."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS

PAGES = sorted((DOCS / "decisions").glob("*.md"))


def test_numbers_have_no_gaps():
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_format(page):
    text = page.read_text()
    assert text.startswith(f"# {int(page.name[:4])}. "), "the title begins with the number"
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Price"]
