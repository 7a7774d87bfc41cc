"""Bills as people read them: one row a system, copies and upkeep apart, cheapest first; and units chosen here alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape as plain

from coterie.api.answers import KeptAnswer, ShownTable
from coterie.api.comparing import Comparison
from coterie.cli.console import number, short
from coterie.errors import ConfigError
from coterie.pipeline.job import Outcome
from coterie.pipeline.planning import OWN, PLACED, STAY, Priced
from coterie.pipeline.remarks import file_remarks
from coterie.pipeline.verdict import bytes_saved, usable

__all__ = ["Unit", "answer_of", "bill_tables", "lost", "short"]

UNITS = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86400.0: "day", 2629800.0: "month"}
TITLES = {
    STAY: "clients stay where they are",
    PLACED: "clients placed by interest",
    OWN: "each system places as it does",
}


@dataclass(frozen=True)
class Unit:
    """What a rate is shown per; ratios do not depend on it."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ConfigError("--interval", self.seconds, "seconds, more than 0")

    @property
    def name(self) -> str:
        return UNITS.get(self.seconds, f"{self.seconds:g} s")

    def rate(self, per_second: float) -> str:
        return short(per_second * self.seconds)

    def volume(self, per_second: float) -> str:
        return f"{short(per_second * self.seconds)}B"


HEADER = ("system", "copies", "upkeep", "control", "bytes", "saved", "bound", "hops", "links", "hottest")


def bill_tables(outcome: Outcome, unit: Unit) -> list[ShownTable]:
    """A table for each thing that may become of clients."""
    rows = usable(outcome)
    ways = [way for way in (STAY, PLACED, OWN) if any(one.placement == way for one in rows)]
    return [_table(outcome, [one for one in rows if one.placement == way], way, unit) for way in ways]


def _table(outcome: Outcome, rows: Sequence[Priced], way: str, unit: Unit) -> ShownTable:
    kind = "peers" if outcome.facts["is_peers"] else TITLES[way]
    rests = " (rates ASSUMED)" if outcome.facts["is_rate_assumed"] else ""
    moves = way == PLACED or any(one.later and one.later.setup.moves for one in rows)
    cells, marks = [], []
    for entry in rows:
        assert entry.later is not None
        more = [short(entry.later.setup.moves)] if moves else []
        cells.append((*_cells(entry, outcome.against, unit), *more))
        chosen = outcome.chosen is not None and entry.name == outcome.chosen.name
        now = outcome.against is not None and entry.name == outcome.against.name
        marks.append("bold" if chosen else "cyan" if now else "")
    header = (*HEADER, "moves") if moves else HEADER
    return ShownTable(f"{kind}: between nodes per {unit.name}{rests}", header, tuple(cells), tuple(marks))


def _cells(entry: Priced, against: Priced | None, unit: Unit) -> list[str]:
    later, bound = entry.later, entry.later_bound
    assert later is not None
    assert bound is not None
    return [
        entry.system,
        unit.rate(later.dissemination.copies),
        unit.rate(later.maintenance.upkeep),
        unit.rate(later.control.messages),
        unit.volume(later.volume.total),
        _saved(entry, against),
        f"{later.volume.total / bound.volume.total:.2f}x" if bound.volume.total else "",
        f"{later.delay.hops.mean:.1f}",
        short(later.state.links),
        f"{later.load.hottest:.1f}x",
    ]


def _saved(entry: Priced, against: Priced | None) -> str:
    if against is None or against.later is None or entry.later is None:
        return ""
    if entry.name == against.name:
        return "now"
    return f"{bytes_saved(against.later, entry.later):+.0%}"


def lost(outcome: Outcome) -> list[str]:
    """Designs that do not serve everybody."""
    return [
        f"{one.name} does not serve everybody: {number(one.later.loss.lost)} deliveries a second are lost"
        for one in usable(outcome)
        if one.later is not None and one.later.loss.lost > 0
    ]


def answer_of(found: Comparison, unit: Unit, page: Path) -> KeptAnswer:
    """A comparison as it is told."""
    outcome, facts = found.outcome, found.outcome.facts
    sizes = f"{facts['clients']:,} clients, {facts['topics']:,} topics, {facts['subscriptions']:,} subscriptions"
    nodes = f"{facts['nodes']:,} {'peers' if facts['is_peers'] else 'brokers'}"
    problems = [
        f"{one.system} has no bill: {one.problem}" for one in outcome.priced if one.problem and one.placement != PLACED
    ]
    return KeptAnswer(
        found.document(),
        f"[bold]{outcome.name}[/]: {sizes}, {nodes}",
        tuple(told for name, account in outcome.accounts.items() for told in _input_lines(name, account)),
        tuple(found.sentences),
        tuple(bill_tables(outcome, unit)),
        (*(f"[yellow]{told}[/]" for told in lost(outcome)), *problems),
        str(page),
    )


def _input_lines(name: str, account: Mapping[str, Any]) -> list[str]:
    told = [f"[yellow]{plain(line)}[/]" for line in file_remarks(name, account)]
    if not account["quarantined"]:
        return told
    common = sorted(account["reasons"].items(), key=lambda told: -told[1])
    reasons = "; ".join(f"{reason}: {count:,}" for reason, count in common)
    counts = f"{account['quarantined']:,} of {account['rows_in']:,} rows set aside"
    return [*told, f"[yellow]{name}: {counts}[/] ({plain(reasons)})"]
