"""What is installed: metadata that holds on every platform, and a wheel with everything that is read at run time."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [Requirement(text) for text in PROJECT["dependencies"]]


def needed_on(platform: str, system: str) -> set[str]:
    about = {"sys_platform": platform, "platform_system": system, "platform_python_implementation": "CPython"}
    return {one.name for one in REQUIREMENTS if one.marker is None or one.marker.evaluate(about)}


def test_uvloop_is_not_for_windows():
    assert "uvloop" not in needed_on("win32", "Windows")
    assert "uvloop" in needed_on("linux", "Linux") & needed_on("darwin", "Darwin")


def test_every_python_that_is_declared_is_allowed():
    from packaging.specifiers import SpecifierSet

    declared = [text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if "Python :: 3." in text]
    assert declared[0] == "3.11"
    assert all(version in SpecifierSet(PROJECT["requires-python"]) for version in declared)


def test_nothing_but_the_event_loop_needs_uvloop():
    """Where it is absent nodes run on the standard loop; only one place may ask for it."""
    asked = [
        path.name for path in (ROOT / "src").rglob("*.py") if "import uvloop" in path.read_text()
    ]  # a second place would forget to do without
    assert len(asked) == 1, asked


def data_files() -> set[str]:
    """Everything in the package that is not Python code."""
    root = ROOT / "src"
    listed = subprocess.run(["git", "ls-files", "src/coterie"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [ROOT / name for name in listed.stdout.split("\n") if name] or list(root.rglob("coterie/**/*"))
    return {str(path.relative_to(root)) for path in names if path.is_file() and path.suffix not in (".py", ".pyc")}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_holds_what_is_read_at_run_time(tmp_path: Path):
    pytest.importorskip("build", reason="build is not installed: pip install 'coterie[dev]'")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        points = next(archive.read(name).decode() for name in inside if name.endswith("entry_points.txt"))
    assert data_files() <= inside
    assert "coterie = coterie.cli.main:run" in points
    assert wheel.name.endswith("py3-none-any.whl")
