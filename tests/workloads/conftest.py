"""What the workload tests share: the traces, where there are any."""

from __future__ import annotations

import pytest

from coterie.workloads.traces import FOLDER_VARIABLE, traces_folder


@pytest.fixture
def traces() -> None:
    if traces_folder() is None:
        pytest.skip(f"no folder of traces: set {FOLDER_VARIABLE}")
