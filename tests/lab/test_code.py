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
    """runs imports kernels.fast inside a function, which imports model; cli imports runs."""
    root = tmp_path / "coterie"
    (root / "kernels").mkdir(parents=True)
    for name, text in {
        "runs.py": "def run():\n    from coterie.kernels import fast\n",
        "kernels/__init__.py": "",
        "kernels/fast.py": "import coterie.model\nimport numpy\n",
        "model.py": "from coterie.runs import run\n",
        "cli.py": "from coterie.runs import run\n",
    }.items():
        (root / name).write_text(text)
    monkeypatch.setattr(code, "ROOT", root)
    return root


def digest(path: Path) -> str:
    code._digest.cache_clear()
    code._imported.cache_clear()
    return code._digest(path)


@pytest.mark.parametrize(
    ("changed", "is_other"), [("runs.py", True), ("kernels/fast.py", True), ("model.py", True), ("cli.py", False)]
)
def test_what_a_run_imports_is_its_code_and_nothing_else(package: Path, changed: str, is_other: bool) -> None:
    before = digest(package / "runs.py")
    assert digest(package / "runs.py") == before
    with open(package / changed, "a") as file:
        file.write("# changed\n")
    assert (digest(package / "runs.py") != before) == is_other


def test_the_code_of_every_experiment_is_found() -> None:
    for experiment in experiments():
        assert code.code_of(experiment.run).startswith(f"{coterie.__version__}-")
        source = Path(inspect.getsourcefile(experiment.run) or "")
        assert code.ROOT / "model" / "relation.py" in code._reachable(source), experiment.id
