"""A page is a title, a few sentences, tables and plots in one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import jinja2

import coterie
from coterie.pipeline.storage import Remote, write_whole

Where = TypeVar("Where", Path, Remote)


def figure(value: float) -> str:
    """Whole numbers with separators, small ones with three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


@dataclass(frozen=True)
class TableRow:
    cells: Sequence[str]
    mark: str = ""


@dataclass(frozen=True)
class ReportTable:
    header: Sequence[str]
    rows: Sequence[TableRow]
    text: Sequence[int] = (0,)  # columns that hold words


@dataclass(frozen=True)
class PageSection:
    title: str
    text: Sequence[str] = ()
    charts: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()


@dataclass(frozen=True)
class Report:
    title: str
    subtitle: str
    lead: Sequence[str] = ()
    cards: Sequence[tuple[str, str]] = ()
    sections: Sequence[PageSection] = field(default_factory=list)

    def write(self, path: Where) -> Where:
        page = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(
            files("coterie.pipeline").joinpath("report.html").read_text()
        )
        footer = f"Made by coterie {coterie.__version__}."
        parts = {name: getattr(self, name) for name in ("title", "subtitle", "lead", "cards", "sections")}
        write_whole(path, page.render(footer=footer, **parts).encode())
        return path
