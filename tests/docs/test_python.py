"""Python on pages: README's example runs, and whatever other pages import is there."""

from __future__ import annotations

import ast
from importlib import import_module

import pandas as pd
import pytest

from tests.docs.pages import EXAMPLES, ROOT, all_pages, blocks_of

PYTHON = [
    pytest.param(page, block.text, id=f"{page.stem}-{number}")
    for page in all_pages()
    if not page.name.startswith("add-a-")
    for number, block in enumerate(blocks_of(page))
    if block.language == "python"
]


@pytest.mark.parametrize(("page", "text"), PYTHON)
def test_what_a_page_imports_is_there(page, text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = import_module(node.module or "")
            assert all(hasattr(module, name.name) for name in node.names), f"{page.name}: {ast.unparse(node)}"


def test_the_example_of_the_readme(monkeypatch):
    """With its files as data frames: the same without Spark, which tests/api compares with files."""
    import matplotlib as mpl

    import coterie as ct

    mpl.use("agg")
    (text,) = (block.text for block in blocks_of(ROOT / "README.md") if block.language == "python")
    read_log = ct.read_log
    monkeypatch.setattr(
        ct, "read_log", lambda *paths, **named: read_log(*(pd.read_csv(EXAMPLES / path) for path in paths), **named)
    )
    names: dict[str, object] = {}
    exec(compile(text, "README.md", "exec"), names)
    assert names["plan"].system == "coterie"
