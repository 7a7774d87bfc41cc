"""The site builds without a warning, every link leads somewhere, and no page asks anybody outside for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data")}


class Links(HTMLParser):
    """What a page loads, where it leads, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if (tag, name) in LOADED and value:
                self.loads.append(value)
            if (tag, name) == ("a", "href") and value:
                self.leads.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'coterie[docs]'")
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'coterie[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text()) for path in sorted(site.rglob("*.html"))}


def test_what_a_newcomer_looks_for_is_there(site):
    home = (site / "index.html").read_text()
    assert "What would I save?" in home
    for page in ("tutorial", "concepts/design", "concepts/glossary", "howto/add-a-system", "reference/commands"):
        assert (site / f"{page}.html").is_file(), page
    commands = (site / "reference" / "commands.html").read_text()
    assert "--brokers" in commands
    assert "link_heartbeat_s" in (site / "reference" / "systems.html").read_text()


def test_nothing_is_asked_of_anybody_outside(site, pages):
    for path, links in pages.items():
        for address in links.loads:
            assert not urlsplit(address).netloc, f"{path.name} loads {address}"
        assert "mermaid" not in links.anchors
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text()), sheet.name


def test_every_link_leads_somewhere(site, pages):
    for path, links in pages.items():
        if path.name == "404.html":  # its links are absolute, for it is shown anywhere
            continue
        for address in links.leads + links.loads:
            where = urlsplit(address)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            assert target.exists(), f"{path.relative_to(site)} leads to {address}"
            if where.fragment and target in pages:
                assert unquote(where.fragment) in pages[target].anchors, f"{path.relative_to(site)}: {address}"


def test_pictures_have_words(pages):
    for path, links in pages.items():
        for picture in re.findall(r"<img [^>]*>", path.read_text()):
            assert re.search(r'alt="[^"]', picture) or "examples" in str(path), f"{path.name}: {picture}"
        assert links.anchors
