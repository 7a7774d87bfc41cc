"""What a change from one plan to another means: who moves, which links come and go, what changes in the bill."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import ConfigError
from coterie.model import Overlay
from coterie.plans.tables import OUTSIDE

if TYPE_CHECKING:
    from coterie.plans.plan import Plan

COLUMNS = {
    "copies a second": "dissemination.copies",
    "bytes a second": "volume.total",
    "upkeep messages a second": "maintenance.upkeep",
    "control messages a second": "control.messages",
    "hops on average": "delay.hops.mean",
    "links": "state.links",
}


@dataclass(frozen=True, repr=False)
class PlanDiff:
    """From one plan to another. Nodes go by their names, or by their numbers where they have none."""

    before: str  # the systems
    after: str
    moves: dict[str, tuple[str, str]]  # client -> (from, to)
    links_added: list[tuple[str, str]]
    links_dropped: list[tuple[str, str]]
    positions_changed: list[str]  # nodes with another place on the ring
    clients_new: int = 0  # in the second plan only
    clients_gone: int = 0
    bill: dict[str, tuple[float, float]] = field(default_factory=dict)  # (before, after)

    @property
    def is_same(self) -> bool:
        changed = self.moves or self.links_added or self.links_dropped or self.positions_changed
        return self.before == self.after and not changed

    @property
    def arrivals(self) -> dict[str, int]:
        """Node -> how many clients come to it."""
        return dict(Counter(to for _, to in self.moves.values()))

    def lines(self) -> list[str]:
        """In words, for people."""
        if self.is_same:
            return ["nothing changes"]
        told = [f"system: {self.before} -> {self.after}"] if self.before != self.after else []
        told.append(f"{len(self.moves):,} clients move")
        if self.clients_new or self.clients_gone:
            told.append(f"{self.clients_new:,} clients are new, {self.clients_gone:,} are gone")
        told.append(f"{len(self.links_added):,} links are added, {len(self.links_dropped):,} dropped")
        if self.positions_changed:
            told.append(f"{len(self.positions_changed):,} nodes get another place on the ring")
        told += [f"{name}: {old:,.3g} -> {new:,.3g}{_by(old, new)}" for name, (old, new) in self.bill.items()]
        return told

    def __repr__(self) -> str:
        return f"<PlanDiff: {'; '.join(self.lines())}>"

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in self.lines())}</ul>"


def _by(old: float, new: float) -> str:
    return f" ({new / old - 1:+.0%})" if old else ""


def diff(before: Plan, after: Plan) -> PlanDiff:
    names = _node_names(before, after)
    old_place, new_place = _place_of(before), _place_of(after)
    moves, both = _moves(before, after, names)
    old_links, new_links = (_links(plan.design.overlay, names[at]) for at, plan in enumerate((before, after)))
    turned = [node for node, place in new_place.items() if old_place.get(node, place) != place]
    return PlanDiff(
        before.system,
        after.system,
        moves,
        sorted(new_links - old_links),
        sorted(old_links - new_links),
        sorted(turned),
        len(after.clients) - both,
        len(before.clients) - both,
        _bill(before, after),
    )


def _node_names(before: Plan, after: Plan) -> tuple[list[str], list[str]]:
    if (before.nodes is None or after.nodes is None) and before.node_count != after.node_count:
        raise ConfigError(
            "plan",
            f"{after.node_count} nodes",
            f"one for {before.node_count} nodes, or both with names for their nodes",
        )
    numbers = [str(node) for node in range(max(before.node_count, after.node_count))]
    if before.nodes is None or after.nodes is None:
        return numbers, numbers
    return before.nodes, after.nodes


def _place_of(plan: Plan) -> dict[str, int]:
    positions = plan.design.overlay.positions
    names = plan.nodes or [str(node) for node in range(plan.node_count)]
    return {} if positions is None else dict(zip(names, positions.tolist(), strict=True))


def _moves(before: Plan, after: Plan, names: tuple[list[str], list[str]]) -> tuple[dict[str, tuple[str, str]], int]:
    """(who goes from where to where, how many clients both plans know)."""
    clients = pa.array(after.clients, pa.string())
    at = pc.fill_null(pc.index_in(clients, value_set=pa.array(before.clients, pa.string())), -1).to_numpy()
    known = np.flatnonzero(at >= 0)
    old, new = (np.array(some, object) for some in names)
    was = old[before.design.placement.node_of[at[known]]]
    goes = new[after.design.placement.node_of[known]]
    gone = np.flatnonzero(was != goes)
    moved = clients.take(pa.array(known[gone])).to_pylist()
    changed = zip(moved, gone.tolist(), strict=True)
    return {one: (str(was[row]), str(goes[row])) for one, row in changed if one != OUTSIDE}, len(known)


def _links(overlay: Overlay, names: list[str]) -> set[tuple[str, str]]:
    count = overlay.node_count
    if overlay.is_complete:
        pairs = [(one, other) for one in range(count) for other in range(one + 1, count)]
    else:
        both = overlay.undirected
        below = both.rows < both.columns
        pairs = list(zip(both.rows[below].tolist(), both.columns[below].tolist(), strict=True))
    return {(min(names[one], names[other]), max(names[one], names[other])) for one, other in pairs}


def _bill(before: Plan, after: Plan) -> dict[str, tuple[float, float]]:
    """Of the later windows where both have one, else of what each was learned from."""
    pair = (before.facts.later, after.facts.later)
    if None in pair:
        pair = (before.facts.predicted, after.facts.predicted)
    old, new = pair
    if old is None or new is None:
        return {}
    had, has = old.columns(), new.columns()
    found = {name: (had.get(column, 0.0), has.get(column, 0.0)) for name, column in COLUMNS.items()}
    return {name: values for name, values in found.items() if any(values)}
