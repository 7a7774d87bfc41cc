"""`coterie simulate`: run a system's protocol in virtual time and print what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.cli import choices
from coterie.cli.console import flat, number, out, print_json, progress, settings_of, table
from coterie.errors import InputError
from coterie.sim.faults import FaultPlan
from coterie.sim.run import SPAN_S, RunResult, simulate
from coterie.systems import system_named
from coterie.trace import TraceEvent, Tracer


def simulate_command(
    system: Annotated[str, typer.Option("--system", "-s", help="A system; 'coterie systems' lists them.")] = "scribe",
    workload: choices.WorkloadName = "multimodal",
    load: choices.WorkloadFile = None,
    nodes: choices.Nodes = None,
    topics: choices.Topics = None,
    subscriptions: choices.Subscriptions = None,
    subscribers: choices.Subscribers = None,
    extra: choices.With = None,
    parameters: choices.Set = None,
    seed: choices.Seed = 0,
    latency: choices.LatencyModel = "50",
    faults: Annotated[bool, typer.Option("--faults", help="Loss, crashes and a partition that heals.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write what happened, one JSON object a line.")] = None,
    as_json: choices.Json = False,
) -> None:
    """Run a system's protocol in virtual time and print its ledger beside the lower bound.

    The same seed gives the same result on any machine. With --faults, every delivery that was owed is made or listed
    with the reason it was lost, and after the faults every topic is probed.

    Example: coterie simulate --system scribe --workload multimodal --nodes 2000 --seed 7
    """
    chosen = system_named(system)
    settings = chosen.configure(settings_of(parameters or (), "--set"))
    sizes = {"nodes": nodes, "topics": topics, "subscriptions": subscriptions, "subscribers": subscribers}
    demand = choices.chosen_workload(workload, load, sizes, extra, seed).with_whole_events(seed, SPAN_S)
    delays = choices.chosen_latency(latency, demand)
    with progress(f"simulating {system}", as_json) as report, tracing(trace) as tracer:
        report("plan", 0.0)
        design = chosen.plan(demand, settings, seed)
        storm = FaultPlan() if faults else None
        outcome = simulate(chosen, settings, design, demand, seed, delays, storm, tracer, progress=report)
    bound = lower_bounds(demand, design.placement.node_of)
    if as_json:
        print_json(_document(system, demand.name, seed, outcome, bound.columns()))
        return
    ledgers = {"simulated": outcome.ledger.columns(), "lower bound": bound.columns()}
    if not faults:
        ledgers["priced"] = price(design, demand, delays).columns()
    used = [name for name in ledgers["simulated"] if any(ledger[name] for ledger in ledgers.values())]
    title = f"{system} on {demand.name}: {demand.node_count:,} nodes, {demand.topic_count:,} topics, seed {seed}"
    out.print(table(title, ["per second", *ledgers], flat(ledgers, used)))
    _print_losses(outcome, faults)


def _print_losses(outcome: RunResult, faults: bool) -> None:
    out.print(f"\n{number(outcome.input_count)} inputs to nodes in {outcome.virtual_s:,.0f} s of virtual time")
    if faults:
        out.print(f"after the faults {outcome.probes} events were published, one a topic: all reached everybody")
    for reason, count in Counter(_kind_of(missing.reason) for missing in outcome.missing).most_common():
        out.print(f"lost: {count:,} deliveries, {reason}")


def _kind_of(reason: str) -> str:
    return reason.split(" on the way")[0].split(" upstream")[0]


def _document(system: str, workload: str, seed: int, outcome: RunResult, bound: dict[str, float]) -> dict[str, object]:
    return {
        "system": system,
        "workload": workload,
        "seed": seed,
        "ledger": outcome.ledger.columns(),
        "lower_bound": bound,
        "inputs": outcome.input_count,
        "virtual_s": outcome.virtual_s,
        "unpublished": outcome.unpublished,
        "probes": outcome.probes,
        "lost": [msgspec.to_builtins(missing) for missing in outcome.missing],
    }


@contextmanager
def tracing(path: Path | None) -> Iterator[Tracer | None]:
    if path is None:
        yield None
        return
    encoder = msgspec.json.Encoder()
    try:
        with path.open("wb") as file:

            def write(event: TraceEvent) -> None:
                file.write(encoder.encode(event) + b"\n")

            yield write
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}") from None
