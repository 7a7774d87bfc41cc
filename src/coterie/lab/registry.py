"""Every registered experiment, by paper. Adding a paper's experiments is adding its module here."""

from __future__ import annotations

from importlib import import_module

from coterie.errors import ConfigError
from coterie.lab.experiment import Experiment

PAPERS = ("tamara", "magnet", "dynatops", "content", "spidercast", "coterie", "survey")


def experiments(paper: str | None = None) -> list[Experiment]:
    """Of one paper, or of all; modules are imported only when asked for."""
    if paper is not None and paper not in PAPERS:
        raise ConfigError("paper", paper, f"one of {', '.join(PAPERS)}")
    found: list[Experiment] = []
    for name in PAPERS if paper is None else (paper,):
        found += import_module(f"coterie.lab.{name}").EXPERIMENTS
    return found
