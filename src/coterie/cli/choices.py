"""Options that several commands share, and what they turn into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.model.parameters import settings_of

if TYPE_CHECKING:
    from coterie.model import Workload

WORKLOAD = "Workload"


def _use_conf(words: list[str] | None) -> list[str] | None:
    """Settings count for whatever session the command opens; nothing of Spark is loaded for none."""
    if words:
        from coterie.pipeline.session import ask_for, parse_conf

        ask_for(parse_conf(words))
    return words


Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark, as spark-submit takes it; repeatable.",
        callback=_use_conf,
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed: the same one gives the same result.", min=0)]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")]


@dataclass(frozen=True, kw_only=True)
class DemandOptions:
    """A generated or saved workload, and how a system is to be set for it; sizes that are not given are the usual."""

    workload: Annotated[
        str,
        typer.Option("--workload", "-w", help="A generator; 'coterie workloads' lists them.", rich_help_panel=WORKLOAD),
    ] = "multimodal"
    load: Annotated[
        Path | None,
        typer.Option("--from", help="A saved workload instead of a generator (.npz).", rich_help_panel=WORKLOAD),
    ] = None
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.", rich_help_panel=WORKLOAD)] = None
    topics: Annotated[int | None, typer.Option(help="Number of topics.", rich_help_panel=WORKLOAD)] = None
    subscriptions: Annotated[int | None, typer.Option(help="Topics per subscriber.", rich_help_panel=WORKLOAD)] = None
    subscribers: Annotated[
        int | None, typer.Option(help="Subscribers, where they are not the nodes themselves.", rich_help_panel=WORKLOAD)
    ] = None
    extra: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME=VALUE", help="Any other workload parameter.", rich_help_panel=WORKLOAD),
    ] = None
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter of the system; 'coterie systems NAME' lists them."
        ),
    ] = None
    seed: Seed = 0
    latency: Annotated[
        str,
        typer.Option(
            "--latency", help="'50' (ms, constant), 'planetlab' (measured matrix) or 'distance:0.1' (ms per unit)."
        ),
    ] = "50"

    def demand(self) -> Workload:
        from coterie.model.store import load_workload
        from coterie.workloads import make_workload

        if self.load is not None:
            return load_workload(self.load)
        sizes = {name: getattr(self, name) for name in ("nodes", "topics", "subscriptions", "subscribers")}
        given: dict[str, object] = {name: value for name, value in sizes.items() if value is not None}
        return make_workload(self.workload, given | settings_of(self.extra or (), "--with"), self.seed)

    @property
    def settings(self) -> dict[str, object]:
        return settings_of(self.parameters or (), "--set")
