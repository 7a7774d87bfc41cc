"""A frontier, not a point: what can be had for what, so that a person picks.

Cost against hops against what a crash cuts against how many clients move. On it are all kinds of links that coterie can
choose, for several shares of clients that may move, and every other system as a comparison planned it; best are the
points that no other beats in all four. Each has the words that make `coterie plan` build that very design.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.accounting.burden import burden
from coterie.accounting.price import price
from coterie.accounting.sturdiness import Sturdiness, sturdiness
from coterie.api.limiting import paying
from coterie.model import Ledger, Workload
from coterie.model.prices import MONTH_S
from coterie.model.wires import wire_named
from coterie.pipeline.planning import PLACED, Candidate, is_whole
from coterie.systems import SYSTEMS
from coterie.systems.coterie import CoterieParameters
from coterie.systems.coterie.choosing import Chooser, ChoosingStages

if TYPE_CHECKING:
    from coterie.api.comparing import Comparison
    from coterie.api.logs import Report

SHARES = (0.0, 0.02, 0.1, -1.0)  # of the clients that may move; below 0: all
FRONTIER_SCHEMA = 1
ALIKE = 1e-3  # a difference below that is none


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """A design that can be had, priced on the later window; `system` is what `--system` takes to make it."""

    system: str
    label: str
    later: Ledger
    cut: Sturdiness
    moves: float  # share of the clients
    is_ours: bool
    is_best: bool = False  # nothing else is better in every respect

    @property
    def burden(self) -> float:
        return burden(self.later)

    @property
    def aims(self) -> tuple[float, ...]:
        """What should be small: bytes, hops, what a crash cuts, moves."""
        return (self.burden, self.later.delay.hops.mean, self.cut.node, self.moves)

    def is_same(self, bill: Ledger | None) -> bool:
        """The same design in other words: not a column differs."""
        return bill is not None and bill == self.later

    def beats(self, other: FrontierPoint) -> bool:
        """In one respect by more than dust, and in none worse."""
        pairs = list(zip(self.aims, other.aims, strict=True))
        slack = [ALIKE * max(abs(one), abs(two)) for one, two in pairs]
        return all(one <= two + more for (one, two), more in zip(pairs, slack, strict=True)) and any(
            one < two - more for (one, two), more in zip(pairs, slack, strict=True)
        )

    def document(self) -> dict[str, Any]:
        later = self.later
        return {
            "system": self.system,
            "label": self.label,
            "is_best": self.is_best,
            "bytes_per_s": later.volume.total,
            "gb_a_month": later.volume.total * MONTH_S / 1e9,
            "gb_a_month_across_zones": later.crossing.bytes * MONTH_S / 1e9,
            "hops": msgspec.to_builtins(later.delay.hops),
            "links_max": later.state.degree.max,
            "cut_by_node": self.cut.node,
            "cut_by_zone": self.cut.zone,
            "moves": self.moves,
        }


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points, cheapest first."""

    comparison: Comparison
    points: tuple[FrontierPoint, ...]

    @property
    def best(self) -> list[FrontierPoint]:
        return [point for point in self.points if point.is_best]

    def document(self) -> dict[str, Any]:
        return {
            "schema": FRONTIER_SCHEMA,
            "input": self.comparison.outcome.name,
            "about": self.comparison.outcome.facts,
            "points": [point.document() for point in self.points],
        }

    def report(self) -> Any:
        """The page to send on; `.write(path)` writes it."""
        from coterie.api.frontier_report import frontier_page

        return frontier_page(self)


def frontier(comparison: Comparison, progress: Report | None = None) -> Frontier:
    """What a comparison found, and everything else that coterie can make of the same log."""
    learn, later = (one.workload for one in comparison.windows())
    ours, others = list(_ours(comparison, learn, later, progress)), list(_compared(comparison, learn))
    now = comparison.outcome.against
    found = [_called_now(one) if now is not None and one.is_same(now.later) else one for one in ours]
    found += [one for one in others if not any(one.is_same(mine.later) for mine in ours)]
    found.sort(key=lambda point: (point.burden, point.later.delay.hops.mean))
    marked = (replace(one, is_best=not any(other.beats(one) for other in found)) for one in found)
    return Frontier(comparison, tuple(marked))


def _called_now(point: FrontierPoint) -> FrontierPoint:
    return replace(point, label=f"{point.label} (now)")


def _compared(comparison: Comparison, learn: Workload) -> Iterator[FrontierPoint]:
    """Systems side by side; coterie's own are made with more care below."""
    for entry in comparison.outcome.priced:
        if entry.later is None or not is_whole(entry.later) or entry.system == "coterie":
            continue
        design = comparison.design(entry)
        label = f"{entry.system} (placed)" if entry.placement == PLACED else entry.system
        label += " (now)" if entry is comparison.outcome.against else ""
        moves = entry.later.setup.moves / max(learn.subscriber_count, 1)
        yield FrontierPoint(entry.system, label, entry.later, sturdiness(design, learn), moves, is_ours=False)


def _ours(comparison: Comparison, learn: Workload, later: Workload, progress: Report | None) -> Iterator[FrontierPoint]:
    system, seed = SYSTEMS["coterie"], comparison.seed
    stages = system.stages
    assert isinstance(stages, ChoosingStages)
    wire = wire_named(comparison.wire)
    shares = SHARES[:1] if learn.is_peer_network else SHARES
    for number, share in enumerate(shares):
        if progress is not None:
            progress("frontier", number / len(shares))
        asked = CoterieParameters(placement="given") if share == 0 else CoterieParameters(moves_per_day=share)
        parameters = paying(Candidate(system, asked), comparison.prices).parameters
        assert isinstance(parameters, CoterieParameters)
        placement = stages.placement(learn, parameters, seed)
        for point in Chooser(stages, system.name, learn, placement, parameters, seed).points():
            design = system.adopt(point.design, later, point.parameters, seed)
            bill = price(design, later, wire=wire)
            told = {0.0: ",placement=given", -1.0: ""}.get(share, f",moves_per_day={share:g}")
            moves = bill.setup.moves / max(learn.subscriber_count, 1)
            label = f"coterie {point.name.removeprefix('links=').replace(',coverage=', ' x')}"
            moved = "" if share == 0 else " placed" if share < 0 else f" {share:.0%} moved"
            yield FrontierPoint(
                f"{system.name}:{point.name}{told}", label + moved, bill, sturdiness(design, later), moves, is_ours=True
            )
