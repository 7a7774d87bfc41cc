"""Options that several commands share, and what they turn into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.model import Workload
    from coterie.model.latency import Latency

WORKLOAD = "Workload"

WorkloadName = Annotated[
    str, typer.Option("--workload", "-w", help="A generator; 'coterie workloads' lists them.", rich_help_panel=WORKLOAD)
]
WorkloadFile = Annotated[
    Path | None,
    typer.Option("--from", help="A saved workload instead of a generator (.npz).", rich_help_panel=WORKLOAD),
]
Nodes = Annotated[int | None, typer.Option(help="Number of nodes.", rich_help_panel=WORKLOAD)]
Topics = Annotated[int | None, typer.Option(help="Number of topics.", rich_help_panel=WORKLOAD)]
Subscriptions = Annotated[int | None, typer.Option(help="Topics per subscriber.", rich_help_panel=WORKLOAD)]
Subscribers = Annotated[
    int | None, typer.Option(help="Subscribers, where they are not the nodes themselves.", rich_help_panel=WORKLOAD)
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="NAME=VALUE", help="Any other workload parameter.", rich_help_panel=WORKLOAD),
]


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
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the system; 'coterie systems NAME' lists them."),
]
Seed = Annotated[int, typer.Option(help="Random seed: the same one gives the same result.", min=0)]
LatencyModel = Annotated[
    str,
    typer.Option(
        "--latency", help="'50' (ms, constant), 'planetlab' (measured matrix) or 'distance:0.1' (ms per unit)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")]


def chosen_workload(
    name: str,
    file: Path | None,
    sizes: dict[str, int | None],
    extra: Sequence[str] | None,
    seed: int,
) -> Workload:
    """A generated or loaded workload; sizes that were not given keep the generator's defaults."""
    from coterie.model.parameters import settings_of
    from coterie.model.store import load_workload
    from coterie.workloads import make_workload

    if file is not None:
        return load_workload(file)
    settings: dict[str, object] = {key: value for key, value in sizes.items() if value is not None}
    settings |= settings_of(extra or (), "--with")
    return make_workload(name, settings, seed)


def chosen_latency(model: str, workload: Workload) -> Latency:
    from coterie.model.latency import Latency
    from coterie.workloads.traces import latency_ms

    kind, _, value = model.partition(":")
    try:
        if kind == "planetlab":
            return Latency.matrix(latency_ms() / 2)  # the trace holds round trips
        if kind == "distance":
            if workload.coordinates is None:
                raise ConfigError(
                    "--latency", model, f"milliseconds, because workload {workload.name} has no coordinates"
                )
            return Latency.distance(workload.coordinates, float(value or 0.1))
        return Latency.constant(float(kind))
    except ValueError:
        raise ConfigError("--latency", model, "milliseconds, 'planetlab' or 'distance:MS_PER_UNIT'") from None
