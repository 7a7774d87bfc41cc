"""The report of the main job: the systems side by side on one input, and what the chosen plan does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.pipeline import charts
from coterie.pipeline.job import BASELINE, Outcome
from coterie.pipeline.page import Report, ReportTable, Section, TableRow, figure
from coterie.pipeline.plan_report import plan_section
from coterie.pipeline.planning import Priced

DWARFING = 6  # a bar so many times as long as the median one would hide the others

COLUMNS = (
    ("overall", "messages in all"),
    ("maintenance.tree_keepalives", "tree keep-alives"),
    ("maintenance.link_keepalives", "link keep-alives"),
    ("dissemination.copies", "copies of events"),
    ("dissemination.relayed", "relayed"),
    ("dissemination.filtered", "filtered"),
    ("dissemination.duplicate", "duplicate"),
    ("delay.hops.mean", "hops, mean"),
    ("state.degree.mean", "links per node"),
    ("loss.lost", "lost"),
)


def comparison(outcome: Outcome) -> Report:
    """Costs side by side, learning against later window, what the chosen plan does, and what became of the input."""
    usable = sorted((entry for entry in outcome.priced if entry.later), key=_overall)
    sections = [_bills(usable, outcome.chosen), _windows(usable)]
    if outcome.chosen is not None:
        sections.append(plan_section(outcome, outcome.chosen))
    sections += [_input(outcome)]
    facts = outcome.facts
    return Report(
        title=f"Coterie: {outcome.name}",
        subtitle=f"Learned on one window, priced on a later one; figures per interval of {facts['interval_s']:g} s.",
        lead=_lead(outcome),
        cards=[
            ("subscribers", f"{facts['subscribers']:,}"),
            ("topics", f"{facts['topics']:,}"),
            ("subscriptions", f"{facts['subscriptions']:,}"),
            ("nodes", f"{facts['nodes']:,}"),
        ],
        sections=sections,
    )


def _lead(outcome: Outcome) -> list[str]:
    chosen = outcome.chosen
    if chosen is None or chosen.later is None:
        return ["No system serves everybody on the later window."]
    sentence = f"{chosen.system} is the cheapest: {chosen.later.overall:,.0f} messages per interval on the later window"
    baseline = next((entry.later for entry in outcome.priced if entry.system == BASELINE), None)
    if baseline is not None and chosen.system != BASELINE and baseline.overall:
        sentence += f", {1 - chosen.later.overall / baseline.overall:.0%} below {BASELINE}"
    if chosen.later_bound is not None and chosen.later_bound.overall:
        sentence += f" and {chosen.later.overall / chosen.later_bound.overall:.2f} times the lower bound"
    return [sentence + "."]


def _bills(usable: Sequence[Priced], chosen: Priced | None) -> Section:
    ledgers = [entry.later.columns() for entry in usable if entry.later]
    parts = {
        "tree keep-alives": [ledger["maintenance.tree_keepalives"] for ledger in ledgers],
        "link keep-alives": [ledger["maintenance.link_keepalives"] for ledger in ledgers],
        "associations": [ledger["maintenance.associations"] for ledger in ledgers],
        "copies wanted": [ledger["dissemination.wanted"] for ledger in ledgers],
        "copies to nodes that do not want them": [
            sum(ledger[f"dissemination.{kind}"] for kind in ("inbound", "relayed", "filtered", "duplicate"))
            for ledger in ledgers
        ],
    }
    labels = [entry.system for entry in usable]
    bounds = [entry.later_bound.overall if entry.later_bound else 0.0 for entry in usable]
    affordable = [index for index, ledger in enumerate(ledgers) if ledger["overall"] <= DWARFING * _median(ledgers)]
    shown = [
        charts.stacked_bars(
            "What each system would send on the later window",
            {name: [values[index] for index in affordable] for name, values in parts.items()},
            [labels[index] for index in affordable],
            [bounds[index] for index in affordable],
            "messages per interval",
        )
    ]
    rows = [
        TableRow(
            [entry.system, *(figure(ledger[column]) for column, _ in COLUMNS)],
            "chosen" if chosen is not None and entry.system == chosen.system else "",
        )
        for entry, ledger in zip(usable, ledgers, strict=True)
    ]
    left_out = [labels[index] for index in range(len(labels)) if index not in affordable]
    text = [f"Left out of the plot because it would dwarf the others: {', '.join(left_out)}."] if left_out else []
    return Section("The bill", text, shown, [ReportTable(["system", *(name for _, name in COLUMNS)], rows)])


def _overall(entry: Priced) -> float:
    return entry.later.overall if entry.later else float("inf")


def _median(ledgers: Sequence[dict[str, float]]) -> float:
    return float(np.median([ledger["overall"] for ledger in ledgers])) if ledgers else 0.0


def _windows(usable: Sequence[Priced]) -> Section:
    labels = [entry.system for entry in usable]
    copies = {
        "learning window": [entry.learn.dissemination.copies if entry.learn else 0.0 for entry in usable],
        "later window": [entry.later.dissemination.copies if entry.later else 0.0 for entry in usable],
    }
    drawn = [
        index for index in range(len(labels)) if max(v[index] for v in copies.values()) <= DWARFING * _middle(copies)
    ]
    chart = charts.paired_bars(
        "Copies of events, learned and later",
        {name: [values[index] for index in drawn] for name, values in copies.items()},
        [labels[index] for index in drawn],
        "copies per interval",
    )
    text = "A design that has only learned its window by heart shows a longer second bar."
    return Section("Does it hold later?", [text], [chart])


def _middle(copies: dict[str, list[float]]) -> float:
    return float(np.median(copies["later window"])) if copies["later window"] else 0.0


def _input(outcome: Outcome) -> Section:
    rows = [
        TableRow(
            [table, f"{account['rows_in']:,}", f"{account['kept']:,}", f"{account['quarantined']:,}", _why(account)]
        )
        for table, account in outcome.accounts.items()
    ]
    facts = outcome.facts
    text = [
        f"{facts['learned_subscriptions']:,} subscriptions were alive in the learning window, "
        f"{facts['later_subscriptions']:,} in the later one."
    ]
    if facts["is_held_out"]:
        text.append("Subscriptions carry no times: a tenth of them, drawn by the seed, counts as arriving later.")
    if facts["events_on_topics_nobody_wants"]:
        unwanted = facts["events_on_topics_nobody_wants"]
        text.append(f"{figure(unwanted)} events per interval were on topics nobody wants; they are left out.")
    problems = [TableRow([entry.system, entry.problem]) for entry in outcome.priced if entry.problem]
    tables = [ReportTable(["table", "rows read", "kept", "set aside", "why"], rows, (0, 4))]
    if problems:
        tables.append(ReportTable(["system without a bill", "why"], problems, (0, 1)))
    return Section("The input", text, (), tables)


def _why(account: dict[str, object]) -> str:
    reasons = account["reasons"]
    assert isinstance(reasons, dict)
    return ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items(), key=lambda it: -it[1])[:4])
