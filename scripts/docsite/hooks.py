"""What MkDocs asks us while it builds the site: pages made from code, from notebooks, and from files outside of docs/.

Nothing that is generated is kept in the repository, so nothing of it can be out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from mkdocs.structure.files import File, Files  # noqa: E402

from scripts.docsite import notebooks, reference  # noqa: E402

GENERATED = {
    "reference/commands.md": reference.commands,
    "reference/python.md": reference.python,
    "reference/configuration.md": reference.configuration,
    "reference/systems.md": reference.systems,
    "reference/workloads.md": reference.workloads,
    "reference/tables.md": reference.tables,
    "contributing.md": lambda: outside("CONTRIBUTING.md"),
    "changelog.md": lambda: outside("CHANGELOG.md"),
}


def outside(name: str) -> str:
    """A page of the repository's root, its links as seen from docs/."""
    text = (ROOT / name).read_text()
    return re.sub(r"\]\(docs/", "](", text)


def on_config(config: Any) -> Any:
    """Lists that grow by themselves: a new decision, paper or notebook is in the navigation because it is there."""
    docs = Path(config["docs_dir"])
    lists = {
        "Papers": [f"papers/{path.name}" for path in sorted((docs / "papers").glob("*.md"))],
        "Decisions": [f"decisions/{path.name}" for path in sorted((docs / "decisions").glob("*.md"))],
        "Examples": [f"examples/{path.stem}.md" for path in notebooks.all_notebooks()],
    }
    for section in config["nav"]:
        for name in section:
            if name in lists:
                section[name] = lists[name]
    return config


def on_files(files: Files, config: Any) -> Files:
    for uri, make in GENERATED.items():
        files.append(File.generated(config, uri, content=make()))
    for path in notebooks.all_notebooks():
        for uri, content in notebooks.pages_of(path).items():
            files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links from docs/ to the README lead to the home page, to CONTRIBUTING to its page here."""
    here = Path(page.file.src_uri).parent
    up = "../" * len(here.parts)
    for name, target in (
        ("README.md", "index.md"),
        ("CONTRIBUTING.md", "contributing.md"),
        ("CHANGELOG.md", "changelog.md"),
    ):
        markdown = markdown.replace(f"]({up}../{name}", f"]({up}{target}")
    return markdown
