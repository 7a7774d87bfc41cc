"""One word, one thing: the glossary's words live where it says, and no class name means two things."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib import import_module

import pytest

from tests.docs.pages import DOCS, ROOT

ROW = re.compile(r"^\| ([\w, ]+) \| (.+?) \| `([\w.]+)` \|$", re.MULTILINE)
WORDS = ROW.findall((DOCS / "concepts" / "glossary.md").read_text())
# The vocabulary that the design demands; each must have its row.
NEEDED = {
    "node",
    "client",
    "interest",
    "placement",
    "channel",
    "overlay",
    "tree",
    "design",
    "ledger, bill",
    "plan",
    "fleet",
    "system",
}


def classes() -> dict[str, list[str]]:
    """Public class name -> the modules that define one of it, at their top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src" / "coterie").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT / "src" / "coterie")))
    return found


def test_no_class_name_means_two_things():
    twice = {name: where for name, where in classes().items() if len(where) > 1}
    assert twice == {}, "a name that is taken"


def test_the_design_s_vocabulary_is_explained():
    assert {word for word, _, _ in WORDS} >= NEEDED


@pytest.mark.parametrize(("word", "meaning", "home"), WORDS, ids=[word for word, _, _ in WORDS])
def test_a_word_lives_where_the_glossary_says(word, meaning, home):
    assert meaning[0] != "?"
    parts = home.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            annotations = getattr(value, "__annotations__", {})
            assert hasattr(value, name) or name in annotations, f"{home} is gone"
            value = getattr(value, name, annotations.get(name))
        return
    pytest.fail(f"{home} is gone")
