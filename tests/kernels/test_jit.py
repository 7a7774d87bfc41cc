"""Compiled code is kept beside its module, and what another version left there does no harm."""

from __future__ import annotations

import os
import subprocess
import sys

OLD = """
from typing import NamedTuple
from coterie.kernels.jit import kernel

class {name}(NamedTuple):
    x: int

@kernel
def doubled(pair: {name}) -> int:
    return 2 * pair.x
"""
USE = "import kept; print(kept.doubled(kept.{name}(21)), sum(kept.doubled.stats.cache_hits.values()))"


def run(folder, name: str) -> str:
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", USE.format(name=name)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip


def test_code_is_compiled_once_and_a_class_that_is_gone_is_a_miss(tmp_path):
    (tmp_path / "kept.py").write_text(OLD.format(name="Before"))
    assert [run(tmp_path, "Before"), run(tmp_path, "Before")] == ["42 0", "42 1"]
    (tmp_path / "kept.py").write_text(OLD.format(name="Since"))
    assert [run(tmp_path, "Since"), run(tmp_path, "Since")] == ["42 0", "42 1"]
