"""The accountant against the real things: `mesh` and a NATS cluster, `star` and bridged mosquittos, on one workload.

Run `python benchmarks/bench_fleets.py` (options: --fleets nats mosquitto --nodes 8 32 --json; needs nats-server, see
nats_mesh, and mosquitto). The workload is in fleet_load. Copies and bytes between brokers are what the brokers, the
kernel and a relay on each bridge counted; beside them is what the bill of the same workload says. Copies must be equal;
bytes may differ by the digits of a length. `subscribing` is what it took to tell everybody's wishes.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import mosquitto_star
import nats_mesh
from brokers import free_base
from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.model.wires import MQTT, NATS, Wire
from coterie.systems import system_named
from fleet_load import FleetLoad

CASES = (("zipf", "random"), ("clustered", "random"), ("clustered", "aligned"))
SHOWN = (
    *("fleet", "nodes", "interest", "placement", "delivered", "lost", "copies", "priced", "bound", "bytes", "priced"),
    *("ratio", "bytes/dlv", "subscribing", "priced"),
)


def priced(name: str, settings: dict[str, object], load: FleetLoad, wire: Wire) -> dict[str, float]:
    """The bill of the whole load, as if it took one second."""
    system, workload = system_named(name), load.workload(span_s=1.0)
    parameters = system.configure(settings)
    ledger = price(system.plan(workload, parameters), workload, wire=wire)
    return {
        "priced_copies": ledger.dissemination.copies,
        "priced_bytes": ledger.volume.copies,
        "priced_subscribing": ledger.setup.bytes,
        "bound": lower_bounds(workload).dissemination.wanted,
    }


def measure(fleet: str, program: str, load: FleetLoad) -> dict[str, Any]:
    if fleet == "nats":
        row = nats_mesh.measure(program, load, free_base(load.nodes))
        return {**row, **priced("mesh", {}, load, NATS)}
    crossing = fleet.partition("-")[2] or "all"
    row = mosquitto_star.measure(program, load, free_base(load.nodes), crossing)
    return {**row, **priced("star", {"crossing": crossing}, load, MQTT)}


def cells(row: dict[str, Any]) -> list[str]:
    subscribing = row.get("subscribe_control", (0, 0))[1]  # bridges and access lists are configured
    return [
        *(row["fleet"], str(row["nodes"]), row["interest"], row["placement"]),
        *(f"{row['delivered']:,}", str(row["owed"] - row["delivered"])),
        *(f"{row['copies']:,}", f"{row['priced_copies']:,.0f}", f"{row['bound']:,.0f}"),
        *(f"{row['event_bytes']:,}", f"{row['priced_bytes']:,.0f}", f"{row['priced_bytes'] / row['event_bytes']:.3f}"),
        f"{row['event_bytes'] / max(1, row['delivered']):.1f}",
        *((f"{subscribing:,}", f"{row['priced_subscribing']:,.0f}") if subscribing else ("-", "-")),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    fleets = ["nats", "mosquitto", "mosquitto-wanted"]
    arguments.add_argument("--fleets", nargs="*", default=fleets, choices=fleets)
    arguments.add_argument("--nodes", nargs="*", type=int, default=[8, 32])
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    rows = []
    if not chosen.json:
        print(" ".join(f"{name:>{16 if name == SHOWN[0] else 11}}" for name in SHOWN))
    for fleet in chosen.fleets:
        program = nats_mesh.server() if fleet == "nats" else mosquitto_star.server()
        if program is None:
            print(f"{fleet}: not installed here", file=sys.stderr)
            continue
        for nodes in chosen.nodes:
            for interest, placement in CASES:
                load = FleetLoad(nodes, interest, placement, chosen.seed)
                about = {"fleet": fleet, "nodes": nodes, "interest": interest, "placement": placement}
                rows.append({**about, **measure(fleet, program, load)})
                if not chosen.json:
                    print(
                        f"{cells(rows[-1])[0]:>16}", " ".join(f"{cell:>11}" for cell in cells(rows[-1])[1:]), flush=True
                    )
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
    if any(row["copies"] != round(row["priced_copies"]) for row in rows):
        raise SystemExit("copies counted and priced differ")


if __name__ == "__main__":
    main()
