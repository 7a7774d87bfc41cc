"""The plan: a versioned design with the interests it was made for, its bill, and one slice per node."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import InputError
from coterie.model import Design, Ledger, Slice
from coterie.model.plan import slices
from coterie.model.store import load_design, save_design
from coterie.plans.tables import CLIENTS, NODES, OUTSIDE, TOPICS, NamedWorkload, column_of, write_tables

if TYPE_CHECKING:
    from coterie.model.prices import Prices
    from coterie.plans.bill import Bill
    from coterie.plans.diff import PlanDiff

DESIGN, FORMAT, FORMAT_VERSION = "design.npz", "coterie plan", 2


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan says of itself: the manifest of its folder. Bills are per second."""

    system: str
    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    version: int = 0  # 0: not in a store yet
    key: str = ""  # names what was planned: the same key is one version
    design_digest: str = ""
    input: str = ""
    about: dict[str, Any] = {}
    predicted: Ledger | None = None  # on the window it was learned from
    later: Ledger | None = None  # on a later window, which it never saw
    now: Ledger | None = None  # what runs now, on that window
    against: str | None = None  # the name of what runs now
    because: str = ""
    told: tuple[str, ...] = ()
    decision: dict[str, Any] | None = None


class PlanParts(Protocol):
    """Where a plan's design and tables come from."""

    def design(self) -> Design: ...

    def table(self, name: str) -> pa.Table | None: ...

    @property
    def source(self) -> str: ...


class PartsInMemory:
    """Of a plan that was just made."""

    source = "the plan"

    def __init__(self, design: Design, tables: Mapping[str, pa.Table]) -> None:
        self._design, self._tables = design, tables

    def design(self) -> Design:
        return self._design

    def table(self, name: str) -> pa.Table | None:
        return self._tables.get(name)


class PartsInFolder:
    """Of a plan in a store; nothing is read before it is asked for."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder, self._digest = folder, digest

    @property
    def source(self) -> str:
        return str(self.folder)

    def design(self) -> Design:
        path = self.folder / DESIGN
        if digest_of(path) != self._digest:
            raise InputError(str(path), f"is not the design that plan {int(self.folder.name)} was published with")
        return load_design(path)

    def table(self, name: str) -> pa.Table | None:
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return None
        try:
            table = pq.read_table(path, page_checksum_verification=True)
            table.validate(full=True)  # texts that are none, offsets that point elsewhere
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError(str(path), f"cannot be read: {(str(error) or 'damaged').splitlines()[0]}") from None
        return table


class Plan:
    """What a network should look like, for whom it was made, and what that costs.

    `ct.plan(...)` makes one, `plan.save(folder)` gives it a version, `ct.load_plan(folder)` reads it again. `price`
    says what it costs on a log, `diff` what a change from or to another plan means, `ct.up` runs it.
    """

    def __init__(self, facts: PlanFacts, parts: PlanParts) -> None:
        self.facts, self._parts = facts, parts

    @classmethod
    def of(cls, design: Design, demand: NamedWorkload, facts: PlanFacts | None = None) -> Plan:
        """A plan in memory, for the clients, topics and nodes of this workload."""
        told = facts or PlanFacts(system=design.system)
        return cls(told, PartsInMemory(design, demand.tables()))

    def with_facts(self, **changes: Any) -> Plan:
        """The same plan with something else said of it."""
        return Plan(msgspec.structs.replace(self.facts, **changes), self._parts)

    # --- what it is ---

    @property
    def version(self) -> int:
        return self.facts.version

    @property
    def system(self) -> str:
        return self.facts.system

    @property
    def source(self) -> str:
        """Where it is, for messages."""
        return self._parts.source

    @cached_property
    def design(self) -> Design:
        return self._parts.design()

    @property
    def node_count(self) -> int:
        return self.design.node_count

    @property
    def settings(self) -> dict[str, Any]:
        """The system's parameters."""
        return {name: value for name, value in self.design.settings.items() if name != "seed"}

    @property
    def seed(self) -> int:
        return int(str(self.design.settings.get("seed", 0)))

    def table(self, name: str) -> pa.Table | None:
        """One of `coterie.plans.tables.TABLE_NAMES`; None where the plan has none."""
        return self._parts.table(name)

    @cached_property
    def topics(self) -> list[str]:
        return column_of(self._parts.table(TOPICS), "topic", self.source)

    @cached_property
    def clients(self) -> list[str]:
        names = column_of(self._parts.table(CLIENTS), "client", self.source)
        if len(names) != len(self.design.placement.node_of):
            placed = len(self.design.placement.node_of)
            raise InputError(self.source, f"names {len(names)} clients where its design places {placed}")
        return names

    @cached_property
    def nodes(self) -> list[str] | None:
        """Names by number; None where the input named none."""
        listed = self.table(NODES)
        return None if listed is None else column_of(listed, "node", self.source)

    @property
    def placement(self) -> dict[str, int]:
        """Client -> node."""
        placed = dict(zip(self.clients, self.design.placement.node_of.tolist(), strict=True))
        placed.pop(OUTSIDE, None)
        return placed

    @property
    def outside_node(self) -> int | None:
        """Where those enter whom the log does not name, if there are any."""
        clients = self.clients
        return int(self.design.placement.node_of[clients.index(OUTSIDE)]) if OUTSIDE in clients else None

    @property
    def moves(self) -> list[str]:
        """The clients that are to leave the node where the log found them."""
        listed = self.table(CLIENTS)
        if listed is None or "attached" not in listed.column_names:
            return []
        gone = np.flatnonzero(listed["attached"].to_numpy() != self.design.placement.node_of)
        names: list[str] = listed["client"].take(pa.array(gone)).to_pylist()
        return [name for name in names if name != OUTSIDE]

    # --- what it is for ---

    def slices(self, nodes: Sequence[int] | None = None) -> list[Slice]:
        """What each node is told (all of them by default), by the numbers of the plan."""
        return slices(self.design, nodes, self.version)

    def diff(self, other: Plan) -> PlanDiff:
        """What a change from this plan to the other one means: who moves, which links, what of the bill."""
        from coterie.plans.diff import diff

        return diff(self, other)

    def price(self, log: Any, *, against: str | None = "mesh", prices: Prices | None = None) -> Bill:
        """What this plan costs under the demand of a log (or of a window of it), beside what runs now.

        Placement, channels and links stay as they were learned; trees follow the new demand, as they do live.
        """
        from coterie.plans.pricing import price_plan

        return price_plan(self, log, against=against, prices=prices)

    def save(self, folder: str | Path) -> Plan:
        """Publish it in the store at `folder`, as its current version; saving the same plan twice changes nothing."""
        from coterie.plans.store import PlanStore

        store = PlanStore(Path(folder))
        return store.load(store.add(self))

    def write(self, folder: Path) -> None:
        """Design and tables into an empty folder; the store adds the manifest."""
        from coterie.plans.tables import TABLE_NAMES

        save_design(self.design, folder / DESIGN)
        found = {name: table for name in TABLE_NAMES if (table := self.table(name)) is not None}
        write_tables(found, folder)

    @property
    def key(self) -> str:
        """What it was published as; of one that was not, a digest of what it holds."""
        if self.facts.key:
            return self.facts.key
        told = hashlib.blake2b(self.system.encode(), digest_size=8)
        for array in (self.design.placement.node_of, self.design.overlay.links.columns, self.design.trees.node):
            told.update(np.ascontiguousarray(array).tobytes())
        told.update(repr(sorted(self.design.settings.items())).encode())
        told.update("\n".join(self.topics).encode())
        return f"plan/{told.hexdigest()}"

    def __repr__(self) -> str:
        version = f"version {self.version}" if self.version else "not saved"
        return (
            f"<Plan {self.system}, {version}: {self.node_count:,} nodes, {len(self.clients):,} clients, "
            f"{len(self.topics):,} topics, {len(self.moves):,} clients to move>"
        )

    def _repr_html_(self) -> str:
        told = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.facts.told)
        bill = ""
        if self.facts.later is not None:
            from coterie.plans.bill import Bill

            bill = Bill(self.system, self.facts.later, now=self.facts.now, against=self.facts.against)._repr_html_()
        return f"<p><b>{escape(repr(self)[1:-1])}</b></p><ul>{told}</ul>{bill}"


def digest_of(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise InputError(str(path), "is missing; plan again: coterie plan") from None
