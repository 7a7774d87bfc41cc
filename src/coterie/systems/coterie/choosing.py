"""Which links are right for the case: all that can be had are priced, and the cheapest that keep to the limits chosen.

What is cheapest today need not be tomorrow: links made for who wants what now fit later wishes less well than links
that lead everywhere. So where lean links are among the candidates, all are judged by what they cost when a part of the
wishes has changed.
They also take longest to find. For a placement nobody sends fewer copies than a mesh and nobody keeps fewer links than
a tree, so where even that would hardly be cheaper than what was found already, they are not looked for.

The busiest node stays within twice the mean where any links do that, and only limits come before it: a star is cheap to
keep, but all goes through its hub. Where no node handles more than any does with ease, that is nobody's concern.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from coterie.accounting.burden import burden
from coterie.accounting.price import price
from coterie.accounting.sturdiness import Sturdiness, sturdiness
from coterie.accounting.tally import upkeep_bytes
from coterie.errors import ConfigError
from coterie.model import Design, Ledger, Placement, Relation, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import Maintenance
from coterie.model.limits import calm
from coterie.model.relation import Index
from coterie.model.wires import COTERIE
from coterie.protocol.system import Parameters, Stages
from coterie.systems.coterie.links import KINDS, coordinator_of, first_links, kinds_for
from coterie.systems.coterie.parameters import AUTO, LEAN, SPARSE, CoterieParameters

COVERAGES = (0, 2, 3)  # of lean links: what connects; twice, which mostly leaves no cut; and once more
DRIFT, DRIFT_MAX = 1 / 3, 1 / 2  # of the wishes, at least and at most, that a plan should expect to be others soon
FROM_ALL = {"sampling": 1.0, "held_out": 0.0}  # trees learned from all documents of a log
SHARES = (0.3, 0.1, 0.03)  # of the clients, where not all who would gain may move
WORTH = 0.005  # a difference below that is none: the shorter way is taken, and lean links are not looked for


@dataclass(frozen=True, eq=False)
class Point:
    """A design that can be had, its bill and what a crash cuts."""

    parameters: CoterieParameters
    design: Design
    bill: Ledger
    sturdy: Sturdiness = field(default_factory=Sturdiness)
    drifted: Ledger | None = None  # the bill when a part of the wishes has changed

    @property
    def name(self) -> str:
        """As `--system coterie:NAME` takes it."""
        coverage = self.parameters.coverage
        return f"links={self.parameters.links}" + (f",coverage={coverage}" if coverage else "")

    def burden(self) -> float:
        return burden(self.bill, self.parameters.across)

    def expected(self) -> float:
        """What it will cost, as far as that can be told: links made for wishes fit the next ones less well."""
        return burden(self.drifted or self.bill, self.parameters.across)

    def excess(self) -> float:
        return self.parameters.limits.excess(self.bill, self.sturdy.node, self.sturdy.zone)

    def broken(self, clients: int) -> list[str]:
        return self.parameters.limits.broken(self.bill, self.sturdy.node, self.sturdy.zone, clients)


@dataclass(frozen=True, eq=False)
class Chooser:
    """Designs of one workload and placement, made with `stages` one kind of links after the other."""

    stages: ChoosingStages
    system: str
    workload: Workload
    placement: Placement
    parameters: CoterieParameters
    seed: int

    def chosen(self) -> CoterieParameters:
        """The parameters with links settled; ConfigError if no links keep to the limits."""
        if not self.workload.interests.pair_count:
            return msgspec.structs.replace(self.parameters, links=first_links(self.workload, self.parameters))
        kinds = kinds_for(self.workload)
        if LEAN in kinds and not KINDS.keys() & set(kinds) and self.parameters.limits.is_empty:
            return msgspec.structs.replace(self.parameters, links=LEAN)  # nothing to choose from
        kept = self.kept(self.points(is_hasty=True))
        if len(kept) > 1 and any(point.parameters.links not in KINDS for point in kept):
            kept = [self._foreseen(point) for point in kept]
        least = min(point.expected() for point in kept)
        alike = [point for point in kept if point.expected() <= (1 + WORTH) * least]
        return min(alike, key=lambda point: (round(point.bill.delay.hops.mean, 2), point.expected())).parameters

    def kept(self, points: list[Point]) -> list[Point]:
        """Those that keep to the limits, and of these the calm ones; ConfigError if there are none."""
        found = [point for point in points if not point.broken(self.clients)]
        if not found:
            raise unmet(points, self.workload)
        return [found[at] for at in self._calm(found)]

    def _calm(self, points: list[Point]) -> list[int]:
        return calm([point.bill for point in points], self.parameters.hottest, self.parameters.node_messages)

    def points(self, is_hasty: bool = False) -> list[Point]:
        """All that can be had; hasty: without lean links that cannot be worth their while."""
        kinds = kinds_for(self.workload)
        if not kinds:
            raise ConfigError("workload", self.workload.name, "one with fewer nodes or topics: no links can be planned")
        found = [self.point(kind) for kind in kinds if kind in KINDS]
        if LEAN not in kinds:
            return found
        whole = [one for one in found if not one.broken(self.clients)]
        best = min((whole[at].burden() for at in self._calm(whole)), default=float("inf"))
        if is_hasty and self._least(found) > (1 - WORTH) * best:
            return found
        is_free = self.parameters.limits.is_empty
        more = COVERAGES if SPARSE in kinds and not (is_hasty and is_free) else ()
        for coverage in sorted({self.parameters.coverage, *more}):
            found.append(self.point(LEAN, coverage))
            if is_hasty and coverage >= self.parameters.coverage and not found[-1].broken(self.clients):
                return found  # more links cost more
        return [*found, self.point(SPARSE)] if more else found

    @property
    def clients(self) -> int:
        return self.workload.subscriber_count

    def point(self, kind: str, coverage: int = 0) -> Point:
        settled = msgspec.structs.replace(self.parameters, links=kind, coverage=coverage)
        if settled.survive != "none" and kind not in KINDS:  # one tree has ends, where its coordinator cuts nothing
            settled = msgspec.structs.replace(settled, algorithm="single")
        design = self.stages.made(self.system, self.workload, settled, self.seed, self.placement.node_of)
        latency = Latency.by_zone(self.workload.zone_of, settled.hop_ms, settled.zone_ms)
        bill = price(design, self.workload, latency)
        sturdy = Sturdiness() if settled.limits.survive == "none" else sturdiness(design, self.workload)
        return Point(settled, design, bill, sturdy)

    def _foreseen(self, point: Point) -> Point:
        later = self._later
        design = self.stages.adopt(point.design, later, point.parameters, self.seed)
        return replace(point, drifted=price(design, later))

    def learned(self) -> list[Point]:
        """On a given network: trees learned from a sample of the documents, or from all of them."""
        asked = self.parameters
        ways = [asked] if self.workload.content is None else [asked, msgspec.structs.replace(asked, **FROM_ALL)]
        choosers = [replace(self, parameters=way) for way in ways]
        return [one._judged(one.point(asked.known_links, asked.coverage)) for one in choosers]

    def _judged(self, point: Point) -> Point:
        """With what it costs on one half of the documents, where it was learned from the other half."""
        first = self.workload.publications.topic % 2 == 0
        if self.workload.content is None or first.all() or not first.any():
            return point
        earlier, later = (
            replace(self.workload, publications=self.workload.publications.among(rows)) for rows in (first, ~first)
        )
        design = self.stages.made(self.system, earlier, point.parameters, self.seed, self.placement.node_of)
        adopted = self.stages.adopt(design, later, point.parameters, self.seed)
        return replace(point, drifted=price(adopted, later))

    @cached_property
    def _later(self) -> Workload:
        """The same demand when a part of the wishes has changed: each of these goes to another client's topic."""
        interests, stays = self.workload.interests, self.workload.stays
        share = DRIFT
        if stays is not None and self.workload.wishes is None:
            share = float(np.clip(np.count_nonzero(stays.begin_s > 0) / interests.pair_count, DRIFT, DRIFT_MAX))
        draw = np.random.default_rng([self.seed, 5])
        changed = np.flatnonzero(draw.random(interests.pair_count) < share)
        topics = interests.columns.copy()
        topics[changed] = topics[draw.permutation(changed)]
        wanted = Relation.from_pairs(interests.rows, topics, interests.row_count, interests.column_count)
        return replace(self.workload, interests=wanted, weights=None, wishes=None, stays=None)

    def _least(self, found: list[Point]) -> float:
        """What no lean links can be cheaper than; 0 if nothing is known."""
        straight = [one for one in found if one.parameters.links == "mesh"]
        if not straight:
            return 0.0
        beats = 2 * (self.workload.node_count - 1) * straight[0].design.upkeep.link
        return straight[0].bill.volume.copies + upkeep_bytes(Maintenance(link_keepalives=beats), COTERIE)


class UnmetLimits(ConfigError):
    """No links keep to the limits; what can be had instead."""

    def __str__(self) -> str:
        return f"no links keep to {self.value}; {self.do}"


def unmet(points: list[Point], workload: Workload) -> UnmetLimits:
    """In a sentence: what was asked for, and for each limit what comes closest to keeping all the others."""
    limits, clients = points[0].parameters.limits, workload.subscriber_count
    told = list[tuple[list[str], Point]]()
    for point in sorted(points, key=lambda one: (len(one.broken(clients)), one.excess(), one.burden())):
        missed = point.broken(clients)
        if not any(set(missed) >= set(others) for others, _ in told):
            told.append((missed, point))
    can = "; ".join(
        f"{point.name} has {limits.achieved(point.bill, point.sturdy.node, point.sturdy.zone)} (misses"
        f" {' and '.join(missed)})"
        for missed, point in told
    )
    return UnmetLimits("limits", limits.named(), "limits that some links keep to", do=f"what can be had: {can}")


@dataclass(frozen=True)
class ChoosingStages(Stages):
    """Settles which links there are before the columns are made; a design keeps those it was made with."""

    def plan(
        self, system: str, workload: Workload, parameters: Parameters, seed: int, order: object = None,
        node_of: Index | None = None,
    ) -> Design:  # fmt: skip
        assert isinstance(parameters, CoterieParameters)
        if workload.graph is not None and workload.interests.pair_count:
            return self._on_given_network(system, workload, parameters, seed, node_of)
        if node_of is None:
            node_of = self.placement(workload, parameters, seed).node_of
        settled = self.settled(system, workload, Placement(node_of, workload.node_count), parameters, seed)
        return self.made(system, workload, settled, seed, node_of)

    def made(self, system: str, workload: Workload, settled: CoterieParameters, seed: int, node_of: Index) -> Design:
        """With the links that are settled; the coordinator of content trees where its crash would cut nothing."""
        design = super().plan(system, workload, settled, seed, None, node_of)
        if settled.links in KINDS or workload.content is not None:
            return design
        coordinator = coordinator_of(design.trees, workload.node_count, settled.coordinator)
        return replace(design, settings=design.settings | {"coordinator": coordinator})

    def settled(
        self, system: str, workload: Workload, placement: Placement, parameters: CoterieParameters, seed: int
    ) -> CoterieParameters:
        if parameters.links != AUTO and (parameters.limits.is_empty or not workload.interests.pair_count):
            return parameters
        chooser = Chooser(self, system, workload, placement, parameters, seed)
        if parameters.links == AUTO:
            return chooser.chosen()
        point = chooser.point(parameters.links, parameters.coverage)
        if point.broken(workload.subscriber_count):
            raise unmet([point], workload)
        return point.parameters

    def _on_given_network(
        self, system: str, workload: Workload, parameters: CoterieParameters, seed: int, node_of: Index | None
    ) -> Design:
        """Clients are placed if what the links cost then is less, else nobody moves.

        Where that breaks a limit, some of the moves may not. Trees for documents are learned from a sample, as a
        coordinator does, or from all of the log; many trees fit what they were learned from best of all, so all are
        judged by documents that they were not learned from.
        """
        here = Placement(workload.attachment if node_of is None else node_of, workload.node_count)
        first = Chooser(self, system, workload, here, parameters, seed)
        points = first.learned()
        if node_of is None and parameters.placement != "given":
            asked = parameters.moves_per_day
            for share in (asked, *(share for share in SHARES if asked < 0 or share < asked)):
                some = msgspec.structs.replace(parameters, moves_per_day=share)
                placed = replace(first, placement=self.placement(workload, some, seed)).learned()
                points += placed
                if any(not point.broken(first.clients) for point in placed):
                    break
        best = min(first.kept(points), key=lambda point: _network_cost(point.drifted or point.bill)).design
        return replace(best, settings=best.settings | {name: getattr(parameters, name) for name in FROM_ALL})

    def adopt(self, design: Design, workload: Workload, parameters: Parameters, seed: int) -> Design:
        kept = {name: design.settings[name] for name in ("links", "coverage", "coordinator")}
        settled = msgspec.structs.replace(parameters, **kept)
        return super().adopt(design, workload, settled, seed)


def _network_cost(bill: Ledger) -> float:
    return bill.dissemination.link_cost or burden(bill)
