"""What a back-test says to people: a row for each policy, one honest sentence, and a picture over time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coterie.accounting.overtime import REDIRECT_COPIES, Course, Spent
from coterie.accounting.price import MOVE_COPIES
from coterie.model.prices import Prices
from coterie.pipeline import charts
from coterie.pipeline.backtest import Backtest, Trial
from coterie.pipeline.page import PageSection, Report, ReportTable, TableRow, figure
from coterie.pipeline.steps import Facts
from coterie.pipeline.verdict import amount, gigabytes
from coterie.substrate.attaching import COTERIE, HASH, REGIMES, Terms

TERMS = Terms()
UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))
SMALL_NET = 0.02  # of the copies: less is not worth a change
HEADER = (
    "policy",
    "copies/delivery",
    "gross",
    "net",
    "bytes/s",
    "a month",
    "moves/client/day",
    "redirects",
    "hottest: messages",
    "connections",
    "hops",
)


def cells(trial: Trial, course: Course, prices: Prices, short: Callable[[float], str] = figure) -> list[str]:
    """One row of the table."""
    found = figures(trial, course, prices)
    is_first = course.policy == HASH
    is_told = next(one for one in REGIMES if one.name == course.policy).is_told
    return [
        course.policy,
        f"{course.copies_per_delivery:.3f}",
        "" if is_first else f"{course.gross(trial.before):.0%}",
        "" if is_first or is_told else f"{course.net(trial.before):.0%}",
        short(float(str(found["bytes_per_s"]))),
        amount(course.month(prices).total, prices),
        f"{course.moves_per_client_day:.2g}",
        f"{course.total('redirects'):,.0f}",
        f"{course.hottest_messages:.2f}x",
        f"{course.hottest_connections:.2f}x",
        f"{course.hops:.2f}",
    ]


def figures(trial: Trial, course: Course, prices: Prices) -> dict[str, object]:
    """The same and more, as numbers; rates are per second."""
    before, month = trial.before, course.month(prices)
    return {
        "copies": course.total("copies"),
        "copies_per_delivery": course.copies_per_delivery,
        "gross": course.gross(before),
        "net": course.net(before),
        "of_handling": course.of_handling(before),
        "bytes_per_s": course.total("bytes") / course.span_s,
        "month": {"traffic": month.traffic, "work": month.work, "currency": month.currency},
        "moves": course.total("moves"),
        "moves_per_client_day": course.moves_per_client_day,
        "redirects": course.total("redirects"),
        "announcements": course.total("announcements"),
        "hottest_messages": course.hottest_messages,
        "hottest_connections": course.hottest_connections,
        "hops": course.hops,
        "windows": {
            "copies": [one.copies for one in course.windows],
            "upheaval": [one.upheaval for one in course.windows],
        },
    }


def sentences(trial: Trial, facts: Facts, prices: Prices) -> list[str]:
    """What it comes to at this number of brokers; also that it is not worth it."""
    mine, before = trial.course(COTERIE), trial.before
    where = f"On this log with {trial.brokers} brokers"
    if not before.total("copies"):
        return [f"{where} nothing goes between brokers: there is nothing to save."]
    if not mine.total("moves") and not mine.total("redirects"):
        return [f"{where} no redirect and no move would have paid for itself: keep what you have."]
    gross, net = mine.gross(before), mine.net(before)
    if net < SMALL_NET:
        return [
            f"{where}, attaching clients by what they ask for saves {net:.1%} of what goes between brokers, net of "
            "what it costs: not worth it, keep what you have."
        ]
    return [
        f"{where}, attaching clients by what they ask for removes {gross:.0%} of the copies between brokers; net "
        f"of moves, redirects and announcements it saves {net:.0%} of all that goes between them, which is "
        f"{mine.of_handling(before):.0%} of all message handling.",
        _price(mine, before, prices),
    ]


def _price(mine: Course, before: Course, prices: Prices) -> str:
    saved = (before.total("bytes") - mine.total("bytes")) / before.span_s
    money = before.month(prices).total - mine.month(prices).total
    return (
        f"A month that is {gigabytes(saved)} less between brokers, {amount(money, prices)}. Its price: "
        f"{mine.moves_per_client_day:.2g} moves per client and day, {mine.total('redirects'):,.0f} redirects, the "
        f"hottest broker at {mine.hottest_messages:.1f} times the mean in messages instead of "
        f"{before.hottest_messages:.1f}."
    )


def rests_on(facts: Facts, prices: Prices) -> list[str]:
    """What the figures assume."""
    told = [
        f"A move is charged {MOVE_COPIES} copies, a redirect {REDIRECT_COPIES}, an announcement by its bytes. Gross is "
        "a share of the copies by hash, net one of the copies and announcements by hash.",
        "For how long a change pays is learned from earlier ones on this very log; the first are tried on paper only.",
        f"The bound: no placement with at most {TERMS.connections:g} times the mean of connections has fewer copies.",
        "The fleet begins empty. A wish counts for the whole window in which it was alive.",
    ]
    if not facts["is_timed"]:
        told.append("The log has no times: one cut by chance is all there is, which says little about time.")
    if facts["traffic"] != 1.0:
        told.append(f"Rates are {facts['traffic']:g} times the log's.")
    if facts["brokers_assumed"]:
        told.append(f"The log names no brokers: {facts['nodes']} are assumed (--brokers N).")
    if facts["sizes_assumed"]:
        told.append(f"{facts['sizes_assumed']:.0%} of the publications do not tell their size: 200 bytes are assumed.")
    if prices.is_example:
        told.append("Prices are EXAMPLES; yours: coterie prices > prices.toml, then --prices prices.toml.")
    return told


# --- the page ---


def page_of(found: Backtest, prices: Prices) -> Report:
    facts = found.facts
    return Report(
        title=f"Coterie: {found.name} over time",
        subtitle="Every policy through the same windows; none but the oracle sees what it is priced on.",
        lead=[sentences(trial, facts, prices)[0] for trial in found.trials],
        cards=[
            ("clients", f"{facts['clients']:,}"),
            ("topics", f"{facts['topics']:,}"),
            ("subscriptions", f"{facts['subscriptions']:,}"),
            ("windows", f"{facts['windows']:,}"),
        ],
        sections=[
            *(_section(trial, facts, prices) for trial in found.trials),
            PageSection("The policies", [f"{one.name}: {one.says}." for one in REGIMES]),
            PageSection("What it rests on", rests_on(facts, prices)),
        ],
    )


def _section(trial: Trial, facts: Facts, prices: Prices) -> PageSection:
    """A policy has the same colour in both pictures: the hash is in the second one too, as the line at 0."""
    unit, length_s = next((one for one in UNITS if sum(facts["spans_s"]) > 2 * one[1]), UNITS[-1])
    times = (np.cumsum(facts["spans_s"]) / length_s).tolist()
    copies = {
        one.policy: (times, [_of_delivery(window.copies, window.deliveries) for window in one.windows])
        for one in trial.courses
    }
    before = trial.before.windows
    nets = {
        one.policy: (times, np.cumsum([_more(*pair) for pair in zip(one.windows, before, strict=True)]).tolist())
        for one in trial.courses
        if one.policy != "oracle"
    }
    rows = [TableRow(cells(trial, one, prices), "chosen" if one.policy == COTERIE else "") for one in trial.courses]
    rows.append(TableRow(["bound", "", f"{trial.possible:.0%}", *[""] * (len(HEADER) - 3)]))
    since = f"{unit} since the log began"
    drawn = [
        charts.lines("Copies between brokers per delivery", copies, since, "copies"),
        charts.lines("Copies and changes, more than by hash", nets, since, "copies, all so far"),
    ]
    return PageSection(f"{trial.brokers} brokers", sentences(trial, facts, prices), drawn, [ReportTable(HEADER, rows)])


def _more(mine: Spent, before: Spent) -> float:
    return mine.copies + mine.upheaval - before.copies - before.upheaval


def _of_delivery(copies: float, deliveries: float) -> float:
    return copies / deliveries if deliveries else 0.0
