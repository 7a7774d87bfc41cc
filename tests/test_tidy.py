"""The style guide, executable: sizes, names, layers of knowledge, and what must not be in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "coterie").rglob("*.py"))
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
# The command alone prints; the core is deterministic and knows no clock, socket or ambient randomness.
DETERMINISTIC = (
    "broker",
    "model",
    "kernels",
    "substrate",
    "workloads",
    "protocol",
    "systems",
    "sim",
    "accounting",
    "mqtt",
)
MACHINES = [path for path in SOURCES if path.parent.name in ("broker", "mqtt")]


def module_id(path: Path) -> str:
    return str(path.relative_to(ROOT / "src" / "coterie"))


@pytest.mark.parametrize("path", SOURCES, ids=module_id)
def test_module(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= MODULE_LINES_MAX, "split it by what it holds"
    assert path.stem not in VAGUE_NAMES, "name it after the thing it holds"
    if text.strip():
        assert ast.get_docstring(tree), "a module says in one sentence what it is"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0].lineno if node.body else node.lineno
            length = (node.end_lineno or first) - first + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            assert node.name.lower() not in VAGUE_NAMES


@pytest.mark.parametrize("path", [path for path in SOURCES if module_id(path).startswith(DETERMINISTIC)], ids=module_id)
def test_no_ambient_randomness_or_clock(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = {alias.name.split(".")[0] for alias in node.names}
            assert not imported & {"random", "time", "datetime", "secrets", "uuid"}, f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            spelled = ast.unparse(node)
            if re.fullmatch(r"(np|numpy)\.random\.\w+", spelled):
                assert node.attr in {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox"}, spelled


@pytest.mark.parametrize("path", MACHINES, ids=module_id)
def test_a_machine_opens_nothing_and_nobody_hangs_a_lambda_on_it(path: Path) -> None:
    """Imports that can do I/O are forbidden by a contract; parts know each other by protocols an editor can follow."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"line {node.lineno}"
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            assert not any(isinstance(one, ast.Attribute) for one in targets), (
                f"line {node.lineno}: a late-bound lambda"
            )


def test_no_addresses_of_registries_or_machines() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    if not any(files):
        pytest.skip("not a git checkout")
    for name in filter(None, files):
        path = ROOT / name
        if path.suffix in {".png", ".npz", ".parquet", ".gz", ".ico"} or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if "lock" in path.name or "requirements" in path.name:
            assert "://" not in text, f"{name} holds an address"
        assert not re.search(r"(?<![.\w])/(work|farm|root|home/\w+)/", text), f"{name} holds somebody's machine path"


def test_every_decision_and_paper_is_indexed() -> None:
    """Pages nobody can find are pages nobody reads."""
    architecture = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")) + sorted((ROOT / "docs" / "papers").glob("*.md")):
        assert page.name in architecture, f"{page.name} is not linked from docs/ARCHITECTURE.md"


def test_every_mutant_has_its_place() -> None:
    """A text that is not in its file any more plants nothing."""
    for mutant in tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text())["mutant"]:
        count = (ROOT / mutant["file"]).read_text().count(mutant["old"])
        assert count == 1, f"{mutant['name']}: {mutant['file']} has its text {count} times"
        for test in mutant["tests"]:
            assert (ROOT / test.partition("::")[0]).exists(), f"{mutant['name']}: there is no {test}"
