"""Which links: the default beside everything else, for every size of fleet and every traffic, on a real trace.

    python benchmarks/bench_choice.py                  # 8, 32 and 128 brokers
    python benchmarks/bench_choice.py --full           # and 256
    python benchmarks/bench_choice.py --brokers 32

Wikipedia edits of a month: placed and linked by what the first half shows, priced on the second, all on the same
placement, at traffic from a hundredth to a million times the trace's. It must show: the default within 2 % of the
cheapest of all, in bytes between brokers, on every row.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from coterie.accounting.burden import burden
from coterie.accounting.price import price
from coterie.errors import CoterieError
from coterie.model import Workload
from coterie.model.relation import Index
from coterie.systems import SYSTEMS, system_named
from trace_windows import acts_of, windows_of

SIZES, FULL = (8, 32, 128), (8, 32, 128, 256)
TIMES = (0.01, 1.0, 30.0, 1e3, 3e4, 1e6)  # the trace has an event every 17 seconds
MORE = (
    "star:crossing=wanted,hub=-1",
    "coterie:links=lean",
    "coterie:links=lean,coverage=3",
    "coterie:links=sparse",
    "mesh+clusters",
)
SLOW = {"spidercast": 32, "tamara": 32, "topic-clusters": 32, "dynatops": 32, "mesh+clusters": 32}
WITHIN = 1.02


def bill(spec: str, learn: Workload, later: Workload, node_of: Index) -> tuple[float, str]:
    name, _, settings = spec.partition(":")
    system = system_named(name)
    parameters = system.configure(dict(pair.split("=") for pair in settings.split(",") if pair))
    design = system.plan(learn, parameters, 1, None, node_of)
    found = burden(price(system.adopt(design, later, parameters, 1), later))
    return found, str(design.settings.get("links", ""))


def rivals(brokers: int) -> list[str]:
    names = [name for name in SYSTEMS if name not in ("coterie", "mesh+zones")]
    return [name for name in (*names, *MORE) if brokers <= SLOW.get(name, brokers)]


def row(halves: tuple[Workload, Workload], node_of: Index, times: float) -> float:
    learn, later = (
        replace(half, publications=replace(half.publications, rate=half.publications.rate * times)) for half in halves
    )
    began = time.process_time()
    ours, links = bill("coterie", learn, later, node_of)
    seconds = time.process_time() - began
    others = {}
    for spec in rivals(learn.node_count):
        try:
            others[spec] = bill(spec, learn, later, node_of)[0]
        except CoterieError as error:
            print(f"  {spec}: {error}")
    best = min(others, key=others.__getitem__)
    rate = float(later.publications.rate.sum())
    near = sorted((value / ours, spec) for spec, value in others.items())[:4]
    print(
        f"  {learn.node_count:4} brokers, {rate:10,.3g} events/s: default takes {links:5} ({seconds:4.1f} s CPU), "
        f"{ours / others[best]:.4f} of the cheapest ({best}); "
        + ", ".join(f"{name} {ratio:.2f}" for ratio, name in near),
        flush=True,
    )
    return ours / others[best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--brokers", type=int, action="append")
    parser.add_argument("--full", action="store_true")
    chosen = parser.parse_args()
    acts, worst = acts_of("wiki"), 0.0
    for brokers in chosen.brokers or (FULL if chosen.full else SIZES):
        halves = windows_of(acts, brokers)
        system = system_named("coterie")
        node_of = system.stages.placement(halves[0], system.parameters(), 1).node_of
        worst = max(worst, *(row(halves, node_of, times) for times in TIMES))
    print(f"worst: {worst:.4f} of the cheapest; asked for {WITHIN}")
    raise SystemExit(0 if worst <= WITHIN else 1)


if __name__ == "__main__":
    main()
