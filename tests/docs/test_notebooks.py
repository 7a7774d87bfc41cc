"""The notebooks run from their first cell to their last, and say what they are kept saying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.docsite.notebooks import all_notebooks, run, texts_of

# Live networks and other people's clients; the rest needs nobody.
LIVE = "a-plan-under-faults-and-live.ipynb"


def check(path: Path) -> None:
    for needed in ("nbclient", "ipykernel"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install 'coterie[notebook]'")
    kept = texts_of(json.loads(path.read_text()))
    said = texts_of(run(path))
    renew = f"what the notebook says has changed; look at it, then: python -m scripts.docsite.notebooks {path.name}"
    assert said == kept, renew


@pytest.mark.timeout(280)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", [path for path in all_notebooks() if path.name != LIVE], ids=lambda path: path.stem)
def test_notebook(path):
    check(path)


@pytest.mark.interop
@pytest.mark.timeout(280)
@pytest.mark.filterwarnings("default")
def test_notebook_with_a_network():
    check(next(path for path in all_notebooks() if path.name == LIVE))


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_outputs_are_kept_and_no_cell_failed(path):
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in cells), "run it: python -m scripts.docsite.notebooks"
    for cell in cells:
        assert all(output["output_type"] != "error" for output in cell["outputs"])
    numbers = [cell["execution_count"] for cell in cells]
    assert numbers == list(range(1, len(cells) + 1)), "kept as run once, in order"


def test_there_are_three():
    assert len(all_notebooks()) >= 3
