"""What an operator asks of a comparison, in sentences: what do I run, what would I save, what does it cost me?

Everything is against what the user runs now (`Outcome.against`) on the later window, which no design was learned from.
The same sentences stand in the terminal, in the report and in the JSON document.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from coterie.accounting.burden import burden
from coterie.model import Ledger
from coterie.model.limits import EASY, HOTTEST, is_calm
from coterie.model.prices import MONTH_S, Money, Prices, monthly
from coterie.pipeline.job import Outcome
from coterie.pipeline.planning import PLACED, Priced, is_whole
from coterie.pipeline.remarks import remarks
from coterie.pipeline.rolling import Rolled
from coterie.pipeline.steps import Facts

NAMES = {
    "mesh": "a full mesh (NATS, EMQX, VerneMQ)",
    "star": "a star of bridges (mosquitto)",
    "flooding": "a full mesh that sends everything everywhere",
}
SCALE = 10_000  # publications a second at which traffic begins to matter in money
SAID_MIN = 0.01  # of the copies: a smaller bound says nothing
SMALL_SAVING = 0.02  # of the bytes: less is not worth a change


@dataclass(frozen=True)
class Saving:
    """One design against what runs now."""

    now: Priced
    best: Priced
    saved: float  # share of the bytes between nodes
    saved_money: float  # a month
    paid_back_s: float | None  # None: nothing to pay, or never
    money_now: Money

    @property
    def keeps(self) -> bool:
        """Whether the answer is to keep what there is."""
        return self.best.name == self.now.name or self.saved < SMALL_SAVING


def bytes_saved(now: Ledger, then: Ledger) -> float:
    return 1 - then.volume.total / now.volume.total if now.volume.total else 0.0


def verdict(outcome: Outcome, prices: Prices, best: Priced | None = None) -> Saving | None:
    """None where what runs now, or everything else, has no bill."""
    now, best = outcome.against, best or outcome.chosen
    if now is None or best is None or now.later is None or best.later is None:
        return None
    paid = [month_of(bill, prices, outcome.facts) for bill in (now.later, best.later)]
    gain = now.later.volume.total - best.later.volume.total
    once = best.later.setup.bytes if best.later.setup.moves else 0.0
    return Saving(
        now,
        best,
        bytes_saved(now.later, best.later),
        paid[0].total - paid[1].total,
        once / gain if once and gain > 0 else None,
        paid[0],
    )


def month_of(bill: Ledger, prices: Prices, facts: Facts) -> Money:
    """Peers are not rented by the hour."""
    brokers = 0 if facts["is_peers"] else int(facts["nodes"])
    return monthly(bill, prices, brokers, int(facts["clients"]))


def sentences(outcome: Outcome, prices: Prices) -> list[str]:
    """What runs, what would be saved, what that costs, how far from the possible, and what all of it rests on."""
    found = verdict(outcome, prices)
    if found is None:
        return [outcome.unmet or "No system serves everybody on the later window."]
    told = [_runs(outcome, found, prices)]
    if found.keeps:
        told.append("Keep what you have: no design here saves more than 2 % of that.")
    else:
        told += [_saves(outcome, found, prices), _costs(outcome.facts, found)]
    return [*told, _possible(outcome.facts, found), *_drift(found, outcome.rolled), *assumptions(outcome.facts, prices)]


def _runs(outcome: Outcome, found: Saving, prices: Prices) -> str:
    facts, bill = outcome.facts, found.now.later
    assert bill is not None
    what = called(found.now.system)
    if facts["is_peers"]:
        where = f"{facts['nodes']:,} peers"
    else:
        zones = f" in {len(facts['zones'])} zones" if len(facts["zones"]) > 1 else ""
        where = f"{facts['nodes']:,} brokers{zones}"
    return (
        f"Now: {what} of {where}, clients where they are. {gigabytes(bill.volume.total)} a month go between them "
        f"({per_publication(bill, facts)} copies per publication). That costs "
        f"{amount(found.money_now.traffic, prices)} for traffic and {amount(found.money_now.work, prices)} for work."
    )


def _saves(outcome: Outcome, found: Saving, prices: Prices) -> str:
    best = found.best.later
    assert best is not None
    return (
        f"Best: {describe(found.best)}: {gigabytes(best.volume.total)} a month ({per_publication(best, outcome.facts)} "
        f"copies per publication). It saves {found.saved:.0%} of the bytes and {amount(found.saved_money, prices)} a "
        f"month{_of_fixed(found, prices)}{at_scale(outcome.facts, found, prices)}."
    )


def at_scale(facts: Facts, found: Saving, prices: Prices) -> str:
    """What the same design would be worth to somebody with more traffic: copies grow with it, heartbeats do not."""
    published = float(facts["published_per_s"])
    now, best = found.now.later, found.best.later
    if not published or published >= SCALE / 2 or now is None or best is None:
        return ""
    paid = [month_of(busier(bill, SCALE / published), prices, facts) for bill in (now, best)]
    saved = paid[0].total - paid[1].total
    worth = f"save {amount(saved, prices)}" if saved >= 0 else f"cost {amount(-saved, prices)} more"
    return f"; at {SCALE:,} publications a second it would {worth}"


def busier(bill: Ledger, times: float) -> Ledger:
    """The bill with so many times the publications and nothing else changed."""
    copies, volume, crossing = bill.dissemination, bill.volume, bill.crossing
    columns = ("inbound", "wanted", "relayed", "filtered", "duplicate")
    return replace(
        bill,
        dissemination=replace(copies, **{name: times * getattr(copies, name) for name in columns}),
        volume=replace(volume, **{name: times * getattr(volume, name) for name in (*columns, "delivered")}),
        crossing=replace(crossing, copies=times * crossing.copies, bytes=times * crossing.bytes),
        loss=replace(bill.loss, owed=times * bill.loss.owed, delivered=times * bill.loss.delivered),
    )


def _of_fixed(found: Saving, prices: Prices) -> str:
    return f", of {amount(found.money_now.total, prices)} for everything" if found.money_now.fixed else ""


def _costs(facts: Facts, found: Saving) -> str:
    now, best = found.now.later, found.best.later
    assert now is not None
    assert best is not None
    told = (
        f"Its price: {best.delay.hops.mean:.1f} hops on average (now {now.delay.hops.mean:.1f}), "
        f"{best.state.links:,.0f} links (now {now.state.links:,.0f}), the busiest node at "
        f"{best.load.hottest:.1f} times the mean (now {now.load.hottest:.1f})"
    )
    if not is_calm(best):
        told += f" (over {HOTTEST:g} times and over {EASY:,.0f} messages a second: nothing here is more even)"
    moves = best.setup.moves
    if not moves:
        return told + "; nobody moves."
    back = "" if found.paid_back_s is None else f", which pays back after {duration(found.paid_back_s)}"
    return told + f"; {moves:,.0f} of {facts['clients']:,} clients move once{back}."


def _possible(facts: Facts, found: Saving) -> str:
    best, bound = found.best.later, found.best.later_bound
    assert best is not None
    assert bound is not None
    if not bound.volume.copies:
        return "With clients placed like that, nothing has to be copied between nodes."
    times = best.volume.copies / bound.volume.copies
    return (
        f"The least possible: with clients placed like that, any design must copy {gigabytes(bound.volume.copies)} "
        f"a month; this one copies {gigabytes(best.volume.copies)} ({times:.2f} times)."
        f"{anywhere(facts, best)}"
    )


def anywhere(facts: Facts, best: Ledger) -> str:
    """The least that any placement needs, as long as it keeps brokers as even as ours are planned."""
    least = float(facts.get("least_copies") or 0.0)
    share = least / best.dissemination.copies if best.dissemination.copies else 0.0
    if facts["is_peers"] or share < SAID_MIN:
        return ""
    if share > 1:  # it was even on the part it learned from, or nobody was moved
        return " It copies less than any placement that keeps brokers about evenly loaded."
    return f" No balanced placement of the clients needs less than {share:.0%} of its copies."


def _drift(found: Saving, rolled: Rolled) -> list[str]:
    if found.keeps or found.now.learn is None or found.best.learn is None:
        return []
    if rolled.later:
        learned = sum(rolled.learned) / len(rolled.learned)
        eaten = max(0.0, 1 - rolled.mean / learned) if learned > 0 else 1.0
        return [
            f"Does it last? Over {len(rolled.later)} windows, each planned from the one before, it saved "
            f"{min(rolled.later):.0%} to {max(rolled.later):.0%} ({rolled.mean:.0%} on average). "
            f"Interests that changed cost {eaten:.0%} of the saving."
        ]
    learned = bytes_saved(found.now.learn, found.best.learn)
    if learned <= 0:
        return []
    eaten = 1 - found.saved / learned
    how = f"interests that changed cost {eaten:.0%} of that" if eaten > 0 else "nothing of that was lost later"
    return [f"Does it last? On the window it was planned from it saves {learned:.0%}; {how}."]


def assumptions(facts: Facts, prices: Prices) -> list[str]:
    """Everything the numbers rest on that the log did not say."""
    told = []
    if facts["is_rate_assumed"] and not facts.get("has_publications"):
        told.append("There is no log of publications: one event per hour and topic is ASSUMED.")
    if facts["brokers_assumed"]:
        told.append(f"The log names no brokers: {facts['nodes']} are assumed, clients spread evenly (--brokers N).")
    if facts.get("zones_assumed"):
        told.append(f"Brokers are assumed to be spread over {len(facts['zones'])} zones (--zones N).")
    if facts["sizes_assumed"] and not facts["is_rate_assumed"]:
        told.append(f"{facts['sizes_assumed']:.0%} of the publications have no size: 200 bytes each are assumed.")
    if facts["is_held_out"]:
        told.append(
            "Subscriptions have no times (--map since=COLUMN): a random tenth of them counts as arriving later."
        )
    told += remarks(facts)
    if prices.is_example:
        told.append("Prices are EXAMPLES. For yours: coterie prices > prices.toml, edit it, then --prices prices.toml.")
    return told


def called(system: str) -> str:
    return NAMES.get(system.removesuffix("-now"), system)


def describe(entry: Priced) -> str:
    name = called(entry.system)
    if entry.placement == PLACED or (entry.later is not None and entry.later.setup.moves):
        return f"{name} with clients placed by interest"
    return name


def per_publication(bill: Ledger, facts: Facts) -> str:
    published = float(facts.get("published_per_s") or 0.0)
    return f"{bill.dissemination.copies / published:.2f}" if published else "0"


def usable(outcome: Outcome) -> list[Priced]:
    """Designs with a whole bill, cheapest first, as `cheapest` sees it."""
    whole = [one for one in outcome.priced if one.later is not None and one.later_bound is not None]
    return sorted(whole, key=lambda one: (not is_whole(one.later), burden(one.later)))  # type: ignore[arg-type]


# --- words for numbers ---


def gigabytes(per_second: float) -> str:
    """A month of so many bytes a second."""
    value = per_second * MONTH_S
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:,.3g} {unit}"
    return f"{value:,.0f} bytes"


def amount(value: float, prices: Prices) -> str:
    if 0 < abs(value) < 0.01:
        return f"less than 0.01 {prices.currency}"
    return f"{value:,.2f} {prices.currency}"


def duration(seconds: float) -> str:
    for unit, length in (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:,.0f} {unit}"
    return "a minute"
