"""What a docstring shows (`>>>`) is what comes out."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import coterie


def examples_in(text: str) -> int:
    return len(re.findall(r"^ +>>> ", text, re.MULTILINE))


ROOT = Path(coterie.__file__).parent
SHOWN = [path for path in sorted(ROOT.rglob("*.py")) if examples_in(path.read_text())]


def module_of(path: Path) -> str:
    return ".".join(("coterie", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


@pytest.mark.parametrize("path", SHOWN, ids=[str(path.relative_to(ROOT)) for path in SHOWN])
def test_examples(path: Path) -> None:
    """By hand, since doctest does not find compiled functions."""
    module = import_module(module_of(path))
    own = [one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__]
    texts = [one.__doc__ for one in own if examples_in(one.__doc__ or "")]
    assert sum(map(examples_in, texts)) == examples_in(path.read_text())
    for text in texts:
        example = doctest.DocTestParser().get_doctest(text, dict(vars(module)), module.__name__, str(path), 0)
        said: list[str] = []
        assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)
