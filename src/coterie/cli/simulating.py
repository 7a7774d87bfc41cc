"""`coterie simulate`: run a system's protocol in virtual time and print what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.choices import DemandOptions, Json
from coterie.cli.console import flat, number, out, print_json, print_wide, progress


def simulate_command(
    system: Annotated[str, typer.Option("--system", "-s", help="A system; 'coterie systems' lists them.")] = "scribe",
    *,
    asked: DemandOptions,
    faults: Annotated[bool, typer.Option("--faults", help="Loss, crashes and a partition that heals.")] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write every event to this file, one JSON object per line.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a system's protocol in virtual time.

    Prints its ledger beside the lower bound. The same seed gives the same result on any machine. With --faults, every
    delivery that was owed is made or listed with the reason it was lost, and after the faults every topic is probed.

    Examples:
      coterie simulate -s scribe --nodes 200 --topics 100 --subscriptions 5
      coterie simulate -w rss --nodes 100 --topics 50 --subscriptions 10 --faults
    """
    from coterie.api.simulating import STORM, simulate
    from coterie.workloads.traces import latency_of

    demand, seed = asked.demand(), asked.seed
    with progress(f"simulating {system}", as_json) as report:
        found = simulate(
            system,
            demand,
            settings=asked.settings,
            faults=STORM if faults else None,
            seed=seed,
            latency=latency_of(asked.latency, demand),
            trace=trace,
            progress=report,
        )
    if as_json:
        print_json(found.document() | {"system": system})
        return
    ledgers = {"simulated": found.ledger.columns(), "lower bound": found.bound.columns()}
    if found.priced is not None:
        ledgers["priced"] = found.priced.columns()
    used = [name for name in ledgers["simulated"] if any(ledger[name] for ledger in ledgers.values())]
    title = f"{system} on {demand.name}: {demand.node_count:,} nodes, {demand.topic_count:,} topics, seed {seed}"
    print_wide(title, ["per second", *ledgers], flat(ledgers, used))
    out.print(f"\n{number(found.input_count)} inputs to nodes in {found.virtual_s:,.0f} s of virtual time")
    if faults:
        out.print(f"after the faults {found.probes} events were published, one a topic: all reached everybody")
    for reason, count in found.reasons.items():
        out.print(f"lost: {count:,} deliveries, {reason}")
