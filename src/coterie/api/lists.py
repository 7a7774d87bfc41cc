"""What there is by name: systems and workloads, with the meaning of every parameter."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import msgspec

# What several systems or workloads have in common and their code need not say each time.
USUAL = {
    "columns": "columns of the grid over the world",
    "duration_s": "seconds that changes go on for",
    "hottest_max": "limit: what the busiest node handles, times the mean; 0: none",
    "hops_p99": "limit: links that 99 of 100 deliveries cross at most; 0: none",
    "hub": "the node all others are linked to; -1: the one that makes the fewest copies",
    "interval_s": "seconds of the log that count as the window",
    "is_with_robots": "whether edits by robots count",
    "keywords": "distinct keywords",
    "link_heartbeat_s": "seconds between two heartbeats on a link",
    "links_max": "limit: links of any node; 0: none",
    "moves_per_day": "limit: clients moved a day; below 0: none",
    "ms_mean": "limit: milliseconds from publication to delivery on average; 0: none",
    "ms_p99": "limit: the same for 99 of 100 deliveries; 0: none",
    "nodes": "number of nodes",
    "seen_capacity": "events a node remembers, to know repeated ones",
    "shape": "the tree's shape: the best for the sample, or one that is named",
    "survive": "whose crash must cut nobody else off: none, node or zone",
    "topics": "number of topics",
    "tree_heartbeat_s": "seconds between two heartbeats on a tree edge",
}


@dataclass(frozen=True)
class Parameter:
    """One thing that a system or workload can be told."""

    name: str
    default: object
    meaning: str


@dataclass(frozen=True)
class Listed:
    """A system or a workload of the list."""

    name: str
    title: str
    paper: str
    parameters: tuple[Parameter, ...]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.name)}</td><td>{escape(str(one.default))}</td><td>{escape(one.meaning)}</td></tr>"
            for one in self.parameters
        )
        title = f"<p><b>{escape(self.name)}</b>: {escape(self.title)} ({escape(self.paper)})</p>"
        return f"{title}<table><tr><th>parameter</th><th>default</th><th>meaning</th></tr>{rows}</table>"


class Catalogue(dict[str, Listed]):
    """Name -> what it is; shows itself as a table in notebooks."""

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.name)}</td><td>{escape(one.title)}</td><td>{escape(one.paper)}</td></tr>"
            for one in self.values()
        )
        return f"<table><tr><th>name</th><th>what it is</th><th>from</th></tr>{rows}</table>"


def list_systems() -> Catalogue:
    """Every system, by name."""
    from coterie.systems import SYSTEMS

    return Catalogue((name, _listed(one)) for name, one in SYSTEMS.items())


def system(name: str) -> Listed:
    """One of them, `+clusters` names included."""
    from coterie.systems import system_named

    return _listed(system_named(name))


def list_workloads() -> Catalogue:
    """Every generator of workloads, by name."""
    from coterie.workloads import WORKLOADS

    return Catalogue((name, _listed(one)) for name, one in WORKLOADS.items())


def workload_kind(name: str) -> Listed:
    """One of them."""
    from coterie.workloads import kind_of

    return _listed(kind_of(name))


def _listed(entry: Any) -> Listed:
    meanings = _meanings(entry.parameters)
    parameters = tuple(
        Parameter(one.name, one.default, meanings.get(one.name) or USUAL.get(one.name, ""))
        for one in msgspec.structs.fields(entry.parameters)
    )
    return Listed(entry.name, entry.title, entry.paper, parameters)


@cache
def _meanings(kind: type) -> dict[str, str]:
    """What the code says of each field: the comment behind it, or the lines above it, or the string below it."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("coterie."):
            found.update(_said(one))
    return found


def _said(kind: type) -> Iterator[tuple[str, str]]:
    try:
        source = inspect.cleandoc("\n" + inspect.getsource(kind))
    except (OSError, TypeError):
        return
    lines = source.splitlines()
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    for at, node in enumerate(body.body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        _, mark, behind = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")
        told = behind.strip() if mark else _above(lines, node.lineno - 2)
        after = body.body[at + 1] if at + 1 < len(body.body) else None
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            told = told or " ".join(after.value.value.split())
        if told:
            yield node.target.id, told


def _above(lines: list[str], row: int) -> str:
    said: list[str] = []
    while row >= 0 and lines[row].strip().startswith("#"):
        said.insert(0, lines[row].strip().removeprefix("#").strip())
        row -= 1
    return " ".join(said)
