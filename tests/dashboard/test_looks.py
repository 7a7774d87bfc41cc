"""What a look costs is measured at a stand-in of a node, which must stay like one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_looks.py"


def test_the_benchmark_runs_and_a_look_is_small_whatever_there_is() -> None:
    words = [sys.executable, str(BENCHMARK), "--channels", "5000", "--looks", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    old, new = (int(line.rsplit(maxsplit=2)[1].replace(",", "")) for line in done.stdout.splitlines()[1:3])
    assert new < old / 5
