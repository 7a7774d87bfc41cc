"""Plant defects one at a time and see whether the tests notice: `python scripts/mutants.py` (see `--help`).

The table is `scripts/mutants.toml`: a name, a file, a text that occurs once in it, what stands there instead, and the
tests that should notice. Everything happens in a copy of the tree, so nothing is left behind however the run ends. A
mutant counts as killed only if the tests passed without it. Exit code 1 if fewer than `--share` are killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "benchmarks", "scripts", "docs", "examples", "pyproject.toml", "README.md", "Makefile")
# A failing property is enough; how small its example can be made is not asked here.
QUICK = """
from hypothesis import Phase
settings.register_profile("mutants", settings.get_profile("coterie"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("mutants")
"""
KILLED, SURVIVED, GONE, BROKEN, LATE = "killed", "SURVIVED", "GONE", "BROKEN", "killed (too slow)"


def copy_to(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True)
        elif source.exists():
            shutil.copy2(source, folder / name)
    with (folder / "tests" / "conftest.py").open("a") as conftest:
        conftest.write(QUICK)


def run_tests(folder: Path, tests: tuple[str, ...], limit_s: float) -> int | None:
    """The exit code of pytest; None if it took too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # No bytecode: a mutant of the same size within the same second would be taken for its original.
    settings = {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def clear_bytecode(path: Path) -> None:
    for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        old.unlink()


def try_mutant(folder: Path, mutant: dict[str, Any], limit_s: float) -> str:
    path = folder / mutant["file"]
    text = path.read_text() if path.exists() else ""
    if text.count(mutant["old"]) != 1:
        return GONE
    clear_bytecode(path)
    path.write_text(text.replace(mutant["old"], mutant["new"]))
    try:
        code = run_tests(folder, tuple(mutant["tests"]), limit_s)
    finally:
        path.write_text(text)
    return {None: LATE, 0: SURVIVED, 1: KILLED}.get(code, BROKEN)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", help="only mutants whose name contains one of these")
    arguments.add_argument("--limit", type=float, default=300.0, help="seconds for one mutant's tests")
    arguments.add_argument("--minutes", type=float, default=60.0, help="stop after so long, and say what is left")
    arguments.add_argument("--share", type=float, default=0.95, help="how many must be killed")
    arguments.add_argument("--green", action="store_true", help="the tests are known to pass: do not run them first")
    arguments.add_argument("--check", action="store_true", help="only say which texts are not there any more")
    chosen = arguments.parse_args()
    table = tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text())["mutant"]
    mutants = [one for one in table if not chosen.names or any(part in one["name"] for part in chosen.names)]
    if chosen.check:
        gone = [one["name"] for one in mutants if (ROOT / one["file"]).read_text().count(one["old"]) != 1]
        print("\n".join(gone) or f"all {len(mutants)} texts are there")
        sys.exit(bool(gone))
    end_s = time.monotonic() + 60 * chosen.minutes
    found: dict[str, list[str]] = {}
    healthy: dict[tuple[str, ...], bool] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        copy_to(folder)
        try:
            for mutant in mutants:
                tests = tuple(mutant["tests"])
                if time.monotonic() > end_s:
                    found.setdefault("not tried", []).append(mutant["name"])
                    continue
                if tests not in healthy:
                    healthy[tests] = chosen.green or run_tests(folder, tests, chosen.limit) == 0
                verdict = try_mutant(folder, mutant, chosen.limit) if healthy[tests] else "its tests fail without it"
                found.setdefault(verdict, []).append(mutant["name"])
                print(f"{verdict:18} {mutant['name']:44} {mutant['file']}", flush=True)
        except KeyboardInterrupt:
            print("stopped")
    tried = sum(len(names) for names in found.values())
    killed = len(found.get(KILLED, [])) + len(found.get(LATE, []))
    print(f"{killed} of {tried} killed; " + ", ".join(f"{what} {len(names)}" for what, names in found.items()))
    sys.exit(killed < chosen.share * tried)


if __name__ == "__main__":
    main()
