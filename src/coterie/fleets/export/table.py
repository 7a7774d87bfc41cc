"""The plan as plain tables, for whatever is not on the list: who goes where, and which topics cross which link."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

from coterie.fleets.crossing import Crossings, crossings_of
from coterie.fleets.export.target import LinkShape, Piece, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout


def crossings(fleet: BrokerFleet, wanted: FleetLayout) -> Crossings:
    """A star if the fleet has a hub, otherwise one copy to each interested broker."""
    return crossings_of(LinkShape.STAR if fleet.hub else LinkShape.MESH, wanted, fleet.hub, fleet.limits.prefixes)


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    links = crossings(fleet, wanted)
    document = {
        "plan": wanted.version,
        "system": wanted.system,
        "hub": fleet.hub,
        "clients": dict(sorted(wanted.home.items())),
        "brokers": {broker: list(filters) for broker, filters in sorted(wanted.filters.items())},
        "links": [{"from": pair[0], "to": pair[1], "topics": list(topics)} for pair, topics in sorted(links.items())],
    }
    crossing = ((*pair, topic) for pair, topics in sorted(links.items()) for topic in topics)
    return [
        Piece("table/clients.csv", _csv(("client", "broker"), sorted(wanted.home.items()))),
        Piece("table/links.csv", _csv(("from", "to", "topic"), crossing)),
        Piece("table/plan.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n"),
    ]


def _csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


TARGET = Target(
    name="table",
    says="CSV and JSON: client, broker, topics per link; for anything else",
    shape=LinkShape.MESH,
    pieces=pieces,
)
