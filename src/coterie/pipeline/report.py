"""The report of the main job: the systems side by side on one input, in messages, bytes and money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.accounting.burden import ACROSS
from coterie.model.prices import EXAMPLE, Money, Prices
from coterie.pipeline import charts
from coterie.pipeline.job import Outcome
from coterie.pipeline.page import PageSection, Report, ReportTable, TableRow, figure
from coterie.pipeline.plan_report import plan_section
from coterie.pipeline.planning import OWN, PLACED, STAY, Priced
from coterie.pipeline.remarks import file_remarks
from coterie.pipeline.steps import Facts
from coterie.pipeline.verdict import bytes_saved, gigabytes, month_of, sentences, usable

DWARFING = 6  # a bar so many times as long as the median one would hide the others

COLUMNS = (
    ("dissemination.copies", "copies of events"),
    ("maintenance.upkeep", "heartbeats"),
    ("control.messages", "announcements"),
    ("volume.total", "bytes in all"),
    ("dissemination.relayed", "relayed"),
    ("dissemination.filtered", "filtered"),
    ("dissemination.duplicate", "duplicate"),
)
FIXED = (
    ("delay.hops.mean", "hops, mean"),
    ("state.links", "links"),
    ("state.tree_entries.mean", "entries per node"),
    ("state.tree_entries.max", "largest"),
    ("load.messages.max", "hottest node, messages per second"),
    ("setup.messages", "messages to set up"),
    ("setup.moves", "clients that move"),
)
WAYS = {STAY: "Clients stay where they are", PLACED: "Clients placed by interest", OWN: "As each system places"}


@dataclass(frozen=True)
class Shown:
    """What rates are shown per, and what they cost."""

    prices: Prices
    seconds: float
    unit: str


def comparison(outcome: Outcome, prices: Prices = EXAMPLE, seconds: float = 3600.0, unit: str = "hour") -> Report:
    """Costs side by side, learning against later window, what the chosen plan does, and what became of the input."""
    rows, shown = usable(outcome), Shown(prices, seconds, unit)
    ways = [way for way in WAYS if any(one.placement == way for one in rows)]
    sections = [_bills([one for one in rows if one.placement == way], way, outcome, shown) for way in ways]
    sections += [_money(rows, outcome, shown), _windows(rows, shown)]
    if outcome.chosen is not None and not outcome.facts.get("is_crowd"):  # who moves is a table there
        sections.append(plan_section(outcome, outcome.chosen))
    sections += [_input(outcome)]
    facts = outcome.facts
    return Report(
        title=f"Coterie: {outcome.name}",
        subtitle=f"Learned on one window, priced on a later one; rates between nodes per {unit}. Cheapest first: "
        f"a byte between zones counts {ACROSS:g} times.",
        lead=sentences(outcome, prices),
        cards=[
            ("clients", f"{facts['clients']:,}"),
            ("topics", f"{facts['topics']:,}"),
            ("subscriptions", f"{facts['subscriptions']:,}"),
            ("peers" if facts["is_peers"] else "brokers", f"{facts['nodes']:,}"),
        ],
        sections=sections,
    )


def _bills(rows: Sequence[Priced], way: str, outcome: Outcome, shown: Shown) -> PageSection:
    ledgers = [one.later.columns() for one in rows if one.later]
    parts = {
        "copies wanted": [ledger["volume.wanted"] for ledger in ledgers],
        "copies to nodes that do not want them": [
            sum(ledger[f"volume.{kind}"] for kind in ("inbound", "relayed", "filtered", "duplicate"))
            for ledger in ledgers
        ],
        "heartbeats": [ledger["volume.upkeep"] for ledger in ledgers],
        "announcements": [ledger["volume.control"] for ledger in ledgers],
    }
    labels = [one.system for one in rows]
    bounds = [one.later_bound.volume.total if one.later_bound else 0.0 for one in rows]
    drawn = [index for index, ledger in enumerate(ledgers) if ledger["volume.total"] <= DWARFING * _median(ledgers)]
    chart = charts.stacked_bars(
        f"{WAYS[way]}: kB per {shown.unit} between nodes, later window{_rests(outcome.facts)}",
        {name: [values[index] * shown.seconds / 1e3 for index in drawn] for name, values in parts.items()},
        [labels[index] for index in drawn],
        [bounds[index] * shown.seconds / 1e3 for index in drawn],
        f"kB per {shown.unit}",
    )
    left_out = [labels[index] for index in range(len(labels)) if index not in drawn]
    text = [f"Left out of the plot because it would dwarf the others: {', '.join(left_out)}."] if left_out else []
    bills = ReportTable(
        ["system", *(name for _, name in COLUMNS), "saved"], [_bill(one, outcome, shown) for one in rows]
    )
    prices = ReportTable(["what it takes", *(name for _, name in FIXED)], [_taking(one, outcome) for one in rows])
    return PageSection(f"The bill: {WAYS[way].lower()}{_rests(outcome.facts)}", text, [chart], [bills, prices])


def _bill(one: Priced, outcome: Outcome, shown: Shown) -> TableRow:
    assert one.later is not None
    ledger, now = one.later.columns(), outcome.against.later if outcome.against else None
    saved = "" if now is None else f"{bytes_saved(now, one.later):.0%}"
    rates = [figure(ledger[column] * shown.seconds) for column, _ in COLUMNS]
    return TableRow([one.system, *rates, saved], _mark(one, outcome))


def _taking(one: Priced, outcome: Outcome) -> TableRow:
    assert one.later is not None
    ledger = one.later.columns()
    return TableRow([one.system, *(figure(ledger[column]) for column, _ in FIXED)], _mark(one, outcome))


def _rests(facts: Facts) -> str:
    return " (rates of publications are ASSUMED)" if facts["is_rate_assumed"] else ""


def _mark(one: Priced, outcome: Outcome) -> str:
    return "chosen" if outcome.chosen is not None and one.name == outcome.chosen.name else ""


def _money(rows: Sequence[Priced], outcome: Outcome, shown: Shown) -> PageSection:
    table = []
    for one in rows:
        assert one.later is not None
        paid = month_of(one.later, shown.prices, outcome.facts)
        table.append(
            TableRow([one.name, gigabytes(one.later.volume.total)] + [f"{value:,.2f}" for value in _paid(paid)])
        )
    currency = shown.prices.currency
    label = "example prices" if shown.prices.is_example else "your prices"
    header = ["design", "between nodes", "traffic", "work", "brokers, clients, deliveries", f"{currency} a month"]
    return PageSection(f"A month in {currency} ({label}){_rests(outcome.facts)}", (), (), [ReportTable(header, table)])


def _paid(paid: Money) -> tuple[float, float, float, float]:
    return paid.traffic, paid.work, paid.fixed, paid.total


def _median(ledgers: Sequence[dict[str, float]]) -> float:
    return float(np.median([ledger["volume.total"] for ledger in ledgers])) if ledgers else 0.0


def _windows(rows: Sequence[Priced], shown: Shown) -> PageSection:
    labels = [one.name for one in rows]
    copies = {
        "learning window": [one.learn.dissemination.copies * shown.seconds if one.learn else 0.0 for one in rows],
        "later window": [one.later.dissemination.copies * shown.seconds if one.later else 0.0 for one in rows],
    }
    drawn = [
        index for index in range(len(labels)) if max(v[index] for v in copies.values()) <= DWARFING * _middle(copies)
    ]
    chart = charts.paired_bars(
        "Copies of events, learned and later",
        {name: [values[index] for index in drawn] for name, values in copies.items()},
        [labels[index] for index in drawn],
        f"copies per {shown.unit}",
    )
    text = "A design that has only learned its window by heart shows a longer second bar."
    return PageSection("Does it hold later?", [text], [chart])


def _middle(copies: dict[str, list[float]]) -> float:
    return float(np.median(copies["later window"])) if copies["later window"] else 0.0


def _input(outcome: Outcome) -> PageSection:
    rows = [
        TableRow(
            [table, f"{account['rows_in']:,}", f"{account['kept']:,}", f"{account['quarantined']:,}", _why(account)]
        )
        for table, account in outcome.accounts.items()
    ]
    facts = outcome.facts
    unread = [told for table, account in outcome.accounts.items() for told in file_remarks(table, account)]
    text = [
        *unread,
        f"{facts['learned_subscriptions']:,} subscriptions were alive in the learning window, "
        f"{facts['later_subscriptions']:,} in the later one.",
    ]
    if facts["events_on_topics_nobody_wants"]:
        unwanted = facts["events_on_topics_nobody_wants"] * 86400
        text.append(f"{figure(unwanted)} events a day were on topics nobody wants; they are left out.")
    problems = [TableRow([entry.system, entry.problem]) for entry in outcome.priced if entry.problem]
    tables = [ReportTable(["table", "rows read", "kept", "set aside", "why"], rows, (0, 4))]
    if problems:
        tables.append(ReportTable(["system without a bill", "why"], problems, (0, 1)))
    return PageSection("The input", text, (), tables)


def _why(account: dict[str, object]) -> str:
    reasons = account["reasons"]
    assert isinstance(reasons, dict)
    return ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items(), key=lambda it: -it[1])[:4])
