"""Kept results belong to the code that made them, and to no other."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import coterie
from coterie.lab import code
from coterie.lab.registry import experiments


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """lab.runs.run imports kernels.fast, which imports model; it uses a helper, a constant and a name of lab.more."""
    root = tmp_path / "coterie"
    (root / "kernels").mkdir(parents=True)
    for folder in ("lab", "tables", "lists"):
        (root / folder).mkdir()
    for name, text in {
        "lab/runs.py": RUNS,
        "lab/more.py": "KEPT = 1\nOTHER = 2\n",
        "kernels/__init__.py": "",
        "kernels/fast.py": "import coterie.model\nimport numpy\n",
        "model.py": "from coterie.kernels import fast\n",
        "cli.py": "from coterie.lab.runs import run\n",
        "tables/__init__.py": "from coterie.tables.one import first\nfrom coterie.tables.two import second\nOWN = 1\n",
        "tables/one.py": "def first(): ...\n",
        "tables/two.py": "def second(): ...\n",
        "lists/__init__.py": "from coterie.tables.two import second\nOWN = [second]\n",
    }.items():
        (root / name).write_text(text)
    monkeypatch.setattr(code, "ROOT", root)
    return root


RUNS = """from coterie.lab.more import KEPT, OTHER
SIZES = {}
SIZES["big"] = 5

def helper():
    return SIZES

@decorated(KEPT)
def run():
    from coterie.kernels import fast
    from coterie.tables import first
    return helper()

def longer():
    from coterie.lists import OWN
    return OWN

CLAIMS = [OTHER, "more than half"]
"""


def digest(package: Path, name: str = "run") -> str:
    for kept in (code._digest, code._text, code._used, code._parsed):
        kept.cache_clear()
    return code._digest(code.Definition(package / "lab" / "runs.py", name))


@pytest.mark.parametrize(
    ("file", "old", "new", "is_other"),
    [
        ("lab/runs.py", "return helper()", "return helper() + 1", True),
        ("lab/runs.py", "@decorated(KEPT)", "@decorated(2, KEPT)", True),
        ("lab/runs.py", "return SIZES", "return dict(SIZES)", True),
        ("lab/runs.py", '"big"] = 5', '"big"] = 6', True),
        ("lab/runs.py", "SIZES = {}", "SIZES = {1: 2}", True),
        ("lab/runs.py", "more than half", "less than half", False),
        ("lab/more.py", "KEPT = 1", "KEPT = 7", True),
        ("lab/more.py", "OTHER = 2", "OTHER = 7", False),
        ("kernels/fast.py", "numpy", "scipy", True),
        ("model.py", "fast", "fast as quick", True),
        ("cli.py", "run", "run as walk", False),
        ("tables/one.py", "def first()", "def first(x)", True),
        ("tables/two.py", "def second()", "def second(x)", False),
        ("lab/more.py", "KEPT = 1", "KEPT = 1  # as it was", False),
    ],
)
def test_what_a_run_uses_is_its_code_and_nothing_else(
    package: Path, file: str, old: str, new: str, is_other: bool
) -> None:
    before = digest(package)
    assert digest(package) == before
    text = (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new))
    assert (digest(package) != before) == is_other


def test_what_a_package_makes_of_others_counts(package: Path) -> None:
    """A name that a package only hands on is followed to its module; one that it makes is all that the package uses."""
    before = digest(package, "longer")
    (package / "tables" / "two.py").write_text("def second(x): ...\n")
    assert digest(package, "longer") != before


def test_the_code_of_every_experiment_is_found() -> None:
    for experiment in experiments():
        assert code.code_of(experiment.run).startswith(f"{coterie.__version__}-")
        source = Path(inspect.getsourcefile(experiment.run) or "")
        reached = code._reachable(code.Definition(source, experiment.run.__name__))
        assert any(code.ROOT / "lab" not in piece.file.parents for piece in reached), experiment.id
        assert all(code._text(piece) for piece in reached if piece.name), experiment.id


def test_nodes_and_commands_belong_to_no_measurement() -> None:
    """Otherwise every change of the broker would cost a night."""
    for experiment in experiments():
        source = Path(inspect.getsourcefile(experiment.run) or "")
        reached = code._reachable(code.Definition(source, experiment.run.__name__))
        parts = {each.file.relative_to(code.ROOT).parts[0] for each in reached}
        assert not parts & {"__init__.py", "api", "broker", "cli", "live", "mqtt"}, experiment.id
