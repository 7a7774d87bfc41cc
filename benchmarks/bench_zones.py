"""Zones: what crosses between them, what stays inside and what that costs, on real traces.

    python benchmarks/bench_zones.py                   # 33 brokers in 3 zones, all traces
    python benchmarks/bench_zones.py --brokers 12 --trace wiki

Copies per publication on the second half of each trace, at 1,000 publications a second; placements and links are
learned on the first half. What people have: clients by hash inside their own zone, a full mesh. It must show: with
coterie no more crossings than with one copy per zone over what people have, fewer copies inside, and at no traffic a
dearer month than with either. At the trace's own few events a minute heartbeats are most of the bill, and coterie may
take fewer links and let more cross: there only the money is judged.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.model import Ledger, Workload
from coterie.model.prices import EXAMPLE, monthly
from coterie.systems import system_named
from trace_windows import TRACES, acts_of, windows_of

ROWS = (
    ("what people have: hash, mesh", "mesh", {}),
    ("hash, one copy per zone", "mesh+zones", {}),
    ("hash, homes, one copy per zone", "homes+zones", {}),
    ("placed inside zones, mesh", "coterie", {"links": "mesh"}),
    ("placed inside zones, homes+zones", "coterie", {"links": "homes+zones"}),
    ("coterie (default)", "coterie", {}),
)
PUBLICATIONS = (1e3, 1e5, 1e7)  # a second, for the money
SHOWN = 1e3


def bills(learn: Workload, later: Workload) -> dict[str, tuple[Ledger, str]]:
    found = {}
    for label, name, settings in ROWS:
        system = system_named(name)
        parameters = system.configure(settings)
        design = system.adopt(system.plan(learn, parameters, 1), later, parameters, 1)
        found[label] = price(design, later), str(design.settings.get("links", ""))
    return found


def month(bill: Ledger, brokers: int) -> float:
    """Traffic and work; brokers cost the same whatever the plan."""
    paid = monthly(bill, EXAMPLE, brokers, 0)
    return paid.traffic + paid.work


def show(trace: str, brokers: int, zones: int) -> list[str]:
    halves = windows_of(acts_of(trace), brokers, zones)
    events = float(halves[1].publications.rate.sum())
    learn, later = (at_rate(half, SHOWN / events) for half in halves)
    print(
        f"{trace}: {later.subscriber_count:,} clients, {later.topic_count:,} topics, {brokers} brokers, {zones} zones"
    )
    found = bills(learn, later)
    print(f"  {'copies per publication':38} {'across':>7} {'inside':>7} {'hops':>5} {'bound':>6}")
    rate = float(later.publications.rate.sum())
    bound = lower_bounds(later).crossing.copies / rate
    for label, (bill, links) in found.items():
        across, inside = bill.crossing.copies / rate, _inside(bill) / rate
        told = f"{label}{f': {links}' if label.startswith('coterie') else ''}"
        print(f"  {told:38} {across:7.2f} {inside:7.2f} {bill.delay.hops.mean:5.2f} {bound:6.2f}")
    relayed, ours = (found[label][0] for label in (ROWS[1][0], ROWS[-1][0]))
    failed = []
    if ours.crossing.copies > relayed.crossing.copies * (1 + 1e-9):
        failed.append(f"{trace}: more crossings than one copy per zone")
    if _inside(ours) >= _inside(relayed):
        failed.append(f"{trace}: not fewer copies inside")
    rates = (events, *PUBLICATIONS)
    return failed + [f"{trace}: dearer at {one:,.2g}/s" for one in rates if not _is_cheaper(halves, one / events)]


def _inside(bill: Ledger) -> float:
    return bill.dissemination.copies - bill.crossing.copies


def at_rate(workload: Workload, times: float) -> Workload:
    return replace(workload, publications=replace(workload.publications, rate=workload.publications.rate * times))


def _is_cheaper(halves: tuple[Workload, Workload], times: float) -> bool:
    """At so many times the traffic: planned for it and paid for it."""
    learn, later = (at_rate(half, times) for half in halves)
    ours = system_named("coterie")
    bill = price(ours.adopt(ours.plan(learn, None, 1), later, None, 1), later)
    others = [price(system_named(name).plan(later), later) for name in ("mesh", "mesh+zones")]
    now, relayed, paid = (month(one, learn.node_count) for one in (*others, bill))
    rate = float(later.publications.rate.sum())
    print(
        f"  at {rate:,.2g} a second: {now:,.2f} USD a month now, {relayed:,.2f} with relays, {paid:,.2f} with coterie"
    )
    return paid <= min(now, relayed) * (1 + 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--brokers", type=int, default=33)
    parser.add_argument("--zones", type=int, default=3)
    parser.add_argument("--trace", action="append", choices=TRACES)
    chosen = parser.parse_args()
    failed = [told for trace in chosen.trace or TRACES for told in show(trace, chosen.brokers, chosen.zones)]
    print("\n".join(failed) or "holds on all of them: crossings, copies inside, money")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
