"""All systems on one log: planned on the first window, priced on the second, side by side, against what runs now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from coterie.api.choosing import expressed, known_fleet, running_now, with_now
from coterie.api.limiting import Limits, limited, limits_of, paying
from coterie.api.logs import LATER, LEARN, Log, Report, check_log
from coterie.errors import ConfigError, InputError
from coterie.model import Design, Ledger, Workload
from coterie.model.limits import DesignLimits
from coterie.model.prices import MONTH_S, Prices, chosen_prices
from coterie.model.store import load_design
from coterie.model.wires import COTERIE
from coterie.pipeline.job import AGAINST, Outcome, least_copies_of, publish_plan, run_job
from coterie.pipeline.planning import (
    OWN,
    PLACED,
    STAY,
    Candidate,
    Priced,
    Ways,
    both_ways,
    cheapest,
    closest,
    design_file,
    price_both,
)
from coterie.pipeline.rolling import EVENTS_MIN, PAIRS, Rolled
from coterie.pipeline.storage import Folder, folder_of
from coterie.pipeline.verdict import Saving, sentences, usable, verdict
from coterie.plans.bill import Bill
from coterie.plans.plan import Plan, PlanFacts
from coterie.plans.store import PlanStore
from coterie.plans.tables import NamedWorkload
from coterie.systems import SYSTEMS

Systems = Sequence[str] | Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What every system costs on the later window. `sentences` says in words what follows from it."""

    outcome: Outcome
    prices: Prices
    windows: Callable[[], tuple[NamedWorkload, NamedWorkload]]
    designs: Mapping[str, Design] | None = None  # None: in files below `outcome.folder`
    seed: int = 1
    wire: str = COTERIE.name  # in whose bytes the bills are

    @property
    def best(self) -> Priced | None:
        """The cheapest in bytes among those that serve everybody."""
        return self.outcome.chosen

    @cached_property
    def saving(self) -> Saving | None:
        """The best against what runs now."""
        return verdict(self.outcome, self.prices)

    @property
    def saved(self) -> float | None:
        """The share of the bytes between nodes that the best design saves against what runs now."""
        return None if self.saving is None else self.saving.saved

    @cached_property
    def sentences(self) -> list[str]:
        return sentences(self.outcome, self.prices)

    @property
    def bills(self) -> dict[str, Bill]:
        """Every design that has a bill on the later window, cheapest first."""
        facts, now = self.outcome.facts, self.outcome.against
        return {
            one.name: Bill(
                one.name,
                one.later,
                None if now is None else now.later,
                one.later_bound,
                None if now is None else now.name,
                self.prices,
                0 if facts["is_peers"] else int(facts["nodes"]),
                int(facts["clients"]),
            )
            for one in usable(self.outcome)
            if one.later is not None
        }

    def plan(self, name: str | None = None) -> Plan:
        """The plan of one row (by its name in `bills`), of the best one by default."""
        entry = self.best if name is None else next((one for one in self.outcome.priced if one.name == name), None)
        if entry is None or entry.learn is None:
            known = ", ".join(self.bills) or "none: no system serves everybody"
            raise ConfigError("plan", name, f"one of {known}")
        now = self.outcome.against
        facts = PlanFacts(
            system=entry.system,
            input=self.outcome.name,
            about=dict(self.outcome.facts),
            predicted=entry.learn,
            later=entry.later,
            now=None if now is None else now.later,
            against=None if now is None else now.name,
            told=tuple(self.sentences) if entry is self.best else (),
            because=f"fewest bytes between brokers on the later window, of {len(self.outcome.priced)} designs",
        )
        return Plan.of(self.design(entry), self.windows()[0], facts)

    def design(self, entry: Priced) -> Design:
        """Of one row."""
        if self.designs is not None:
            return self.designs[entry.name]
        from coterie.pipeline.job import only

        home = only(self.outcome.folder / "work" / "designs")
        return load_design(design_file(home, entry.system, entry.placement))

    def publish(self, folder: str | Path | None = None) -> Plan:
        """The best design as the current plan in `folder`; the same from the same data is one version."""
        if self.best is None:
            reason = self.outcome.unmet.rstrip(".") or "no system serves everybody on the later window"
            raise InputError(self.outcome.name, f"{reason}; nothing to publish")
        if self.designs is not None:
            if folder is None:
                raise ConfigError("folder", None, "a folder to publish the plan in")
            return self.plan().save(folder)
        store = PlanStore(self.outcome.folder if folder is None else Path(folder))
        return store.load(publish_plan(self.outcome, store, self.sentences))

    def save_tables(
        self, schema: str, format: str = "parquet", plan: Plan | None = None, spark: str = "local[*]"
    ) -> list[str]:
        """Bills, and with a plan where everybody goes, as tables of a catalog's schema; their names."""
        from coterie.pipeline.saving import save_tables
        from coterie.pipeline.session import close_session, open_session

        if self.designs is not None:
            raise ConfigError("tables", schema, "a log of files or tables; what is in memory: to_pandas()")
        session = open_session(spark)
        try:
            return save_tables(session, self.outcome, schema, format, plan)
        finally:
            close_session(session)

    def report(self, unit_s: float = 3600.0, unit: str = "hour") -> Any:
        """The page to send on; `.write(path)` writes it."""
        from coterie.pipeline.report import comparison

        return comparison(self.outcome, self.prices, unit_s, unit)

    def to_pandas(self) -> Any:
        """A row for each design: copies, bytes, hops ... per second on the later window."""
        import pandas

        rows = {name: {what: value for what, value, _, _ in bill.rows()} for name, bill in self.bills.items()}
        return pandas.DataFrame(rows).T

    def plot(self, ax: Any = None, most: int = 12) -> Any:
        """Bytes a month of the cheapest designs, by what becomes of them; returns matplotlib's axes."""
        from coterie.plans.drawing import draw_bills

        shown: dict[str, Ledger] = {name: bill.ledger for name, bill in list(self.bills.items())[:most]}
        now = self.outcome.against
        if now is not None and now.later is not None:
            shown = {f"{now.name} (now)": now.later} | {name: one for name, one in shown.items() if name != now.name}
        return draw_bills(shown, ax)

    def document(self) -> dict[str, Any]:
        """Everything as plain values; rates are per second."""
        from coterie.api.documents import comparison_document

        return comparison_document(self)

    def __repr__(self) -> str:
        best = "no system serves everybody" if self.best is None else f"best is {self.best.name}"
        saved = "" if self.saved is None else f", which saves {self.saved:.0%} of the bytes"
        return f"<Comparison {self.outcome.name}: {len(self.outcome.priced)} designs, {best}{saved}>"

    def _repr_html_(self) -> str:
        told = "".join(f"<li>{escape(one)}</li>" for one in self.sentences)
        header = "".join(f"<th>{one}</th>" for one in ("design", "copies/s", "GB a month", "hops", "links", "saved"))
        body = "".join(
            f"<tr><td>{escape(name)}</td><td>{bill.copies:,.3g}</td><td>{bill.bytes * MONTH_S / 1e9:,.3g}</td>"
            f"<td>{bill.hops:.1f}</td><td>{bill.ledger.state.links:,.0f}</td>"
            f"<td>{'' if bill.saved is None else f'{bill.saved:+.0%}'}</td></tr>"
            for name, bill in self.bills.items()
        )
        return f"<ul>{told}</ul><table><tr>{header}</tr>{body}</table>"


def compare(
    learn: Log,
    later: Log | None = None,
    *,
    systems: Systems | None = None,
    against: str = AGAINST,
    prices: Prices | str | Path | None = None,
    brokers: int | None = None,
    zones: int | None = None,
    target: str | None = None,
    fleet: str | Path | None = None,
    limits: Limits | None = None,
    seed: int = 1,
    folder: str | Path | None = None,
    progress: Report | None = None,
) -> Comparison:
    """Plan with every system on one window of a log, price the plans on the other, beside what runs now.

    A log that was not split is split in the middle. In a fleet every system is planned twice: with clients where they
    are, and with clients placed by interest. `against` is what you run: mesh, star, nats, emqx, vernemq, mosquitto.
    `limits` is what the best must keep to: {"hops_p99": 2, "survive": "node"}, see model.limits.
    """
    for one in (learn,) if later is None else (learn, later):
        check_log(one)
    kept = limits_of(limits)
    known = known_fleet(None if fleet is None else Path(fleet))
    now, wire = running_now(against)
    named = expressed(systems, target)
    asked = [known.around(limited(one, kept)) for one in named]
    paid = chosen_prices(prices)
    candidates, now = with_now([paying(one, paid) for one in asked], known.around(now))
    allowed: tuple[str, ...] = (STAY, PLACED, OWN) if target is None else (PLACED,)
    is_told = bool(systems) and len(named) == 1 and _places_as_told(named[0])
    only = asked[0].system.name if is_told else ""
    if is_told and not learn.is_peers:
        allowed = (PLACED, OWN)
    log = learn if later is None else _first_half(learn, later)
    zones = known.zones(zones, target is not None)
    log = replace(
        log if log.is_split else log.split()[0],
        brokers=log.brokers if brokers is None else brokers,
        zones=log.zones if zones is None else zones,
        zone_of=known.zone_of,
        seed=seed,
    )
    ways = Ways(paying(_placer(kept), paid), wire, seed, kept)
    if log.request is None:
        return _InMemory(log, candidates, now, ways, allowed, only, progress).run(paid)
    request = replace(
        log.request,
        windows=log.choices,
        seed=seed,
        against=now.system.name,
        wire=wire,
        allowed=allowed,
        limits=kept,
        only=only,
    )
    outcome = _on_spark(request, candidates, folder_of(folder or log.home), log.spark, progress, ways.placer)
    from coterie.pipeline.named import kept_windows

    return Comparison(outcome, paid, lambda: kept_windows(outcome.folder, dict(outcome.facts)), None, seed, wire)


def _placer(limits: DesignLimits) -> Candidate:
    system = SYSTEMS["coterie"]
    return limited(Candidate(system, system.parameters()), limits)


def _places_as_told(candidate: Candidate) -> bool:
    """One system that places, in one way that somebody asked for: that very design, not the same with nobody moved."""
    return candidate.places and candidate.parameters != candidate.system.parameters()


def _first_half(learn: Log, later: Log) -> Log:
    if not (learn.is_other_half_of(later) and learn.window == LEARN):
        raise ConfigError("later", repr(later), "the other half of the same log: learn, later = log.split()")
    return learn


def _on_spark(
    request: Any,
    candidates: list[Candidate],
    home: Folder,
    master: str,
    progress: Report | None,
    placer: Candidate | None,
) -> Outcome:
    from coterie.pipeline.latesession import session_for

    with session_for(request, master) as session:
        return run_job(session, request, candidates, home, progress, placer)


@dataclass(frozen=True, eq=False)
class _InMemory:
    """The same without Spark and files, for a log that is in memory."""

    log: Log
    candidates: list[Candidate]
    now: Candidate
    ways: Ways
    allowed: tuple[str, ...]
    only: str
    progress: Report | None

    def run(self, prices: Prices) -> Comparison:
        log = self.log
        learn, later = replace(log, window=LEARN).demand(), replace(log, window=LATER).demand()
        asked = both_ways(self.candidates, not learn.workload.is_peer_network)
        placed = None
        if any(one.placement == PLACED and not one.places for one in asked) and self.ways.placer is not None:
            placer = self.ways.placer
            placed = placer.system.stages.placement(learn.workload, placer.parameters, self.ways.seed).node_of
        priced: list[Priced] = []
        designs: dict[str, Design] = {}
        for number, candidate in enumerate(asked):
            self._tell(candidate.system.name, number / len(asked))
            node_of = placed if candidate.placement == PLACED and not candidate.places else None
            entry, design = price_both(candidate, learn.workload, later.workload, self.ways, node_of=node_of)
            priced.append(entry)
            if design is not None:
                designs[entry.name] = design
        against = next((one for one in priced if one.system == self.now.system.name and one.placement != PLACED), None)
        allowed = [one for one in priced if one.placement in self.allowed and self.only in ("", one.system)]
        asked_for = (self.ways.limits, learn.workload.subscriber_count)
        chosen = cheapest(allowed, *asked_for)
        facts = {**later.facts, "least_copies": least_copies_of(later.workload)}
        rolled = self._rolled(against, chosen)
        accounts = {name: dict(account) for name, account in log.accounts.items()}
        unmet = closest(allowed, *asked_for)
        outcome = Outcome(log.name, Path(), priced, facts, accounts, chosen, {}, against, rolled, unmet)
        return Comparison(outcome, prices, lambda: (learn, later), designs, self.ways.seed, self.ways.wire)

    def _tell(self, what: str, share: float) -> None:
        if self.progress is not None:
            self.progress(what, share)

    def _rolled(self, against: Priced | None, chosen: Priced | None) -> Rolled:
        """The chosen design against what runs now, over windows that follow each other."""
        if against is None or chosen is None or not self.log.tables:
            return Rolled()
        from coterie.api.memory import windows_of

        shares = [(number + 1) / (PAIRS + 1) for number in range(PAIRS)]
        made = windows_of(self.log.tables, self.log.name, shares, self.log.choices, self.log.is_plain)
        span_s = float(str(made[0].facts["end_s"])) - float(str(made[0].facts["start_s"]))
        if not made[0].facts["is_timed"] or any(
            one.workload.publications.rate.sum() * span_s / len(made) < EVENTS_MIN for one in made
        ):
            return Rolled()
        pair = [self._asked(against, STAY), self._asked(chosen, chosen.placement)]
        learned, later = [], []
        for first, second in pairwise(made):
            bills = [self._priced(one, first.workload, second.workload) for one in pair]
            if not all(one.learn and one.later for one in bills):
                return Rolled()
            learned.append(1 - bills[1].learn.volume.total / bills[0].learn.volume.total)  # type: ignore[union-attr]
            later.append(1 - bills[1].later.volume.total / bills[0].later.volume.total)  # type: ignore[union-attr]
        return Rolled(tuple(learned), tuple(later))

    def _asked(self, entry: Priced, placement: str) -> Candidate:
        found = next(one for one in self.candidates if one.system.name == entry.system)
        return replace(found, placement=placement)

    def _priced(self, candidate: Candidate, learn: Workload, later: Workload) -> Priced:
        node_of, placer = None, self.ways.placer
        if candidate.placement == PLACED and not candidate.places and placer is not None:
            node_of = placer.system.stages.placement(learn, placer.parameters, self.ways.seed).node_of
        return price_both(candidate, learn, later, self.ways, node_of=node_of)[0]
