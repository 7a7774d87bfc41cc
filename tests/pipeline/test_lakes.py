"""Delta and Iceberg with the newest Spark that they have packages for, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON, JARS = ROOT / ".lakes" / "bin" / "python", ROOT / ".jars" / "lakes"

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_there_and_back(name: str, tmp_path: Path) -> None:
    if not PYTHON.exists() or not list(JARS.glob(f"*{name}*.jar")):
        pytest.skip("needs a Spark that Delta and Iceberg have packages for: make lakes")
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [PYTHON, "-m", "tests.pipeline.lake_trip", name, JARS, tmp_path]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
