"""How the command talks to people and to programs: tables, progress, JSON, and errors in one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

if sys.stdout is None:  # closed by whoever started us: what is said is said to nobody
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
if sys.stderr is None:
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
WIDTH = None if sys.stdout.isatty() else 140  # what is piped somewhere is not cut to a screen
out = Console(highlight=False, width=WIDTH)
err = Console(stderr=True, highlight=False)

Report = Callable[[str, float], None]


def print_json(value: object) -> None:
    """One JSON document on standard output, keys sorted, so that equal results are equal bytes."""
    encoded = msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
    sys.stdout.write(encoded.decode() + "\n")


@contextmanager
def progress(title: str, is_quiet: bool) -> Iterator[Report]:
    """A bar on standard error while work goes on; nothing where nobody would see it."""
    if is_quiet or not err.is_terminal:
        yield lambda stage, share: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda stage, share: bar.update(task, description=f"{title}: {stage}", completed=share)


def number(value: float) -> str:
    """Whole numbers with separators, others with as many digits as mean something."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], right_from: int = 1) -> Table:
    built = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for index, name in enumerate(header):
        built.add_column(name, justify="right" if index >= right_from else "left")
    for row in rows:
        built.add_row(*row)
    return built


def settings_of(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """`name=value` pairs of a repeatable option."""
    from coterie.errors import ConfigError

    settings: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ConfigError(option, pair, "NAME=VALUE, for example --set leaves=8")
        settings[name.strip().replace("-", "_")] = value.strip()
    return settings


def flat(ledgers: Mapping[str, Mapping[str, float]], wanted: Sequence[str]) -> list[list[str]]:
    """Rows of a ledger table: one per column name, one cell per ledger."""
    return [[name, *(number(ledger[name]) for ledger in ledgers.values())] for name in wanted]
