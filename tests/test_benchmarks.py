"""Every benchmark starts: what it imports is there. Nobody runs them in CI, so nobody would notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"
IMPORT_ALL = """
import importlib, sys, traceback
wrong = 0
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception:
        wrong += 1
        print(f"{name}: {traceback.format_exc(limit=-1)}")
sys.exit(wrong)
"""


def test_every_benchmark_can_be_imported():
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert names
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names], check=False, cwd=FOLDER, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
