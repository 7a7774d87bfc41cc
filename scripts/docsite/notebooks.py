"""Notebooks of examples/: run them (`python -m scripts.docsite.notebooks`), and show them as pages of the site."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECONDS_MAX = 240
PICTURES = {"image/svg+xml": "svg", "image/png": "png"}


def all_notebooks() -> list[Path]:
    return sorted(EXAMPLES.glob("*.ipynb"))


def run(path: Path) -> Any:
    """The notebook, executed from its first cell in a kernel of its own; an error in a cell is an error here."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES.parent / "src"), os.environ.get("PYTHONPATH", "")])
    NotebookClient(
        notebook, timeout=SECONDS_MAX, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran is nobody's business and changes every time
    return notebook


def texts_of(notebook: Any) -> list[list[str]]:
    """What every code cell says in text: what two runs must agree on."""
    said = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        outputs = [output for output in cell["outputs"] if output.get("name") != "stderr"]
        said.append([text_of(output) for output in outputs])
    return said


def text_of(output: Any) -> str:
    found = output.get("text") or output.get("data", {}).get("text/plain", "")
    return "".join(found)


def pages_of(path: Path) -> dict[str, str | bytes]:
    """The notebook as a page, and its pictures beside it."""
    notebook = json.loads(path.read_text())
    files: dict[str, str | bytes] = {}
    parts = []
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for index, output in enumerate(cell.get("outputs", ())):
            parts.append(shown(output, f"{path.stem}-{number}-{index}", files))
    parts.append(f"This page is the notebook `examples/{path.name}`; a test runs it.")
    files[f"examples/{path.stem}.md"] = "\n\n".join(part for part in parts if part) + "\n"
    return files


def shown(output: Any, name: str, files: dict[str, str | bytes]) -> str:
    data = output.get("data", {})
    for kind, ending in PICTURES.items():
        if kind in data:
            content = "".join(data[kind])
            files[f"examples/{name}.{ending}"] = content if ending == "svg" else base64.b64decode(content)
            return f"![]({name}.{ending})"
    if "text/html" in data:
        return '<div class="md-typeset__scrollwrap">\n' + "".join(data["text/html"]).strip() + "\n</div>"
    text = text_of(output).rstrip()
    return f"```text\n{text}\n```" if text and output.get("name") != "stderr" else ""


if __name__ == "__main__":
    import nbformat

    for one in [EXAMPLES / Path(name).name for name in sys.argv[1:]] or all_notebooks():
        nbformat.write(run(one), one)
        sys.stdout.write(f"{one.name}: run and kept\n")
