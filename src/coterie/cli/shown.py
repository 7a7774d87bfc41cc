"""Prints an answer to people."""

from __future__ import annotations

from rich.table import Table

from coterie.api.answers import KeptAnswer, ShownTable
from coterie.cli.console import out


def shown_table(told: ShownTable) -> Table:
    """Numbers are never cut or broken."""
    table = Table(
        title=told.title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, name in enumerate(told.header):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    for cells, mark in zip(told.rows, told.marks, strict=True):
        table.add_row(*cells, style=mark or None)
    return table


def show(answer: KeptAnswer) -> None:
    out.print(answer.head)
    for line in answer.warnings:
        out.print(line)
    for sentence in answer.sentences:
        out.print(f"- {sentence}", soft_wrap=False)
    for told in answer.tables:
        out.print()
        out.print(shown_table(told))
    for line in answer.remarks:
        out.print(line)
