"""What the pipeline predicts of wildcards and shared groups against what a live network does with the same clients."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.accounting.price import price
from coterie.pipeline.cutting import WindowChoices
from coterie.pipeline.ingest import ingest
from coterie.pipeline.mapping import Source
from coterie.pipeline.windows import build_workloads
from coterie.systems import system_named
from tests.interop.fleet import Network, run

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.xdist_group("spark")]
SITES, ROOMS, EVENTS, NODES = 20, 10, 40_000, 4
START_S = 1_700_000_000


def wishes() -> list[tuple[str, str]]:
    """Twenty of one site's temperatures each, one of everything, a team that shares the alarms."""
    sites = [(f"site {site}", f"site{site}/+/temp") for site in range(SITES)]
    return [*sites, ("dashboard", "#"), *((f"worker {number}", "$share/team/+/alarm") for number in range(3))]


def topic_of(event: int) -> str:
    site = event % SITES
    return f"site{site}/alarm" if event % 100 == 7 else f"site{site}/room{event // SITES % ROOMS}/temp"


def logs(folder: Path) -> list[Source]:
    folder.mkdir()
    subscriptions, publications = folder / "subscriptions.csv", folder / "publications.csv"
    asked = "".join(f"{who},{what},{START_S - 10}\n" for who, what in wishes())
    subscriptions.write_text("subscriber,topic,since\n" + asked)
    rows = (f"sensor {event % SITES},{topic_of(event)},{START_S + event // 100}\n" for event in range(EVENTS))
    publications.write_text("publisher,topic,time\n" + "".join(rows))
    return [Source((str(subscriptions),), "subscriptions"), Source((str(publications),), "publications")]


async def live(folder: Path) -> int:
    """Deliveries of a live network; the last word is a message that everybody who wants all gets."""
    async with Network(folder, "mesh", NODES) as network:
        clients = []
        for number, (who, wish) in enumerate(wishes()):
            clients.append(await network.client(number % NODES, who))
            await clients[-1].subscribe(wish)
        sensors = [await network.client(site % NODES, f"sensor {site}") for site in range(SITES)]
        for event in range(EVENTS):
            await sensors[event % SITES].publish(topic_of(event), b"21.5")
            if event % 500 == 0:
                await asyncio.sleep(0)
        settled = -1
        while (count := sum(node.broker.counts.messages_out for node in network.nodes)) != settled:
            settled = count
            await asyncio.sleep(1.0)
        for client in (*clients, *sensors):
            await client.stop()
        return settled


def test_predicted_deliveries_are_what_a_live_network_delivers(spark, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    for source in logs(tmp_path / "logs"):
        ingest(spark, [source], tables)
    learn, later, facts = build_workloads(
        spark, tables, tmp_path / "out", "sites", WindowChoices(brokers=NODES, learn_share=0.5)
    )
    halves = (float(facts["cut_s"]) - float(facts["start_s"]), float(facts["end_s"]) - float(facts["cut_s"]))
    mesh = system_named("mesh")
    predicted = 0.0
    for demand, seconds in zip((learn, later), halves, strict=True):
        predicted += price(mesh.plan(demand), demand).loss.delivered * seconds
    alarms = sum(topic_of(event).endswith("alarm") for event in range(EVENTS))
    assert predicted == pytest.approx(2 * EVENTS, rel=1e-9)  # the site and the dashboard, or the team and the dashboard
    assert alarms > 0
    assert run(lambda: live(tmp_path / "live")) == round(predicted)
