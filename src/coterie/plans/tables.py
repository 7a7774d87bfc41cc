"""What a plan holds beside its design: names by id, who wants what, who publishes what; in memory or in a folder.

One format for all uses, a Parquet file a table (docs/FORMATS.md): `topics` (topic), `clients` (client, kind, attached),
`nodes` (node, zone; only where the input lists them), `wishes` (client, filter, is_learned, is_later), `publishes`
(client, topic, rate). Rows of the first three are in the order of the ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model import Relation, Workload
from coterie.model.relation import Index

TOPICS, CLIENTS, NODES, WISHES, PUBLISHES = "topics", "clients", "nodes", "wishes", "publishes"
TABLE_NAMES = (TOPICS, CLIENTS, NODES, WISHES, PUBLISHES)
OUTSIDE = "(outside)"  # among the clients: whoever publishes where the log does not say; nobody connects by that name


@dataclass(frozen=True, eq=False)
class NamedWorkload:
    """A workload in memory and what its ids mean; `nodes` is empty where nobody named them."""

    workload: Workload
    topics: pa.Array
    clients: pa.Array
    nodes: tuple[str, ...] = ()
    filters: pa.Array | None = None  # where wishes are more than topics
    facts: Mapping[str, object] = field(default_factory=dict)  # what is worth saying about the input

    def tables(self) -> dict[str, pa.Table]:
        """As a plan keeps them; all wishes count as learned and as holding to the end."""
        demand = self.workload
        wishes = demand.interests if demand.wishes is None else demand.wishes.of
        asked = self.topics if self.filters is None else self.filters
        held = np.ones(wishes.pair_count, bool)
        publishes = np.zeros(len(self.clients), bool)
        publishes[demand.publications.publisher] = True
        clients = client_table(self.clients, publishes, wishes.lengths > 0, demand.attachment)
        return named_tables(demand, self.topics, clients, WishesHeld(wishes, held, held), asked, self.nodes)


@dataclass(frozen=True, eq=False)
class WishesHeld:
    """Client -> filters, and of each pair whether it held in the window that is learned from and in the later one."""

    of: Relation
    is_learned: NDArray[np.bool_]
    is_later: NDArray[np.bool_]


def named_tables(
    demand: Workload, topics: pa.Array, clients: pa.Table, wishes: WishesHeld, filters: pa.Array, nodes: Sequence[str]
) -> dict[str, pa.Table]:
    """All tables of a plan for this demand; numbers become names, in dictionaries."""
    named = pa.DictionaryArray.from_arrays
    people, sent = clients["client"].combine_chunks(), demand.publications
    wished = {"client": named(wishes.of.rows, people), "filter": named(wishes.of.columns, filters)}
    said = {"client": named(sent.publisher, people), "topic": named(sent.topic, topics), "rate": sent.rate}
    made = {
        TOPICS: pa.table({"topic": topics}),
        CLIENTS: clients,
        WISHES: pa.table(wished | {"is_learned": wishes.is_learned, "is_later": wishes.is_later}),
        PUBLISHES: pa.table(said),
    }
    return made | {NODES: _nodes(nodes, demand)} if len(nodes) else made


def client_table(
    clients: pa.Array, publishes: NDArray[np.bool_], wants: NDArray[np.bool_], attachment: Index
) -> pa.Table:
    """What each client does, and where it was found."""
    kinds = np.where(publishes & wants, "both", np.where(publishes, "publisher", "subscriber"))
    return pa.table(
        {"client": clients, "kind": pa.array(kinds.tolist(), pa.string()), "attached": pa.array(attachment)}
    )


def _nodes(names: Sequence[str], demand: Workload) -> pa.Table:
    columns = {"node": pa.array(names, pa.string())}
    if demand.zone_of is not None and demand.zones:
        columns["zone"] = pa.array(demand.zones, pa.string()).take(pa.array(demand.zone_of))
    return pa.table(columns)


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd", write_page_checksum=True)


def column_of(table: pa.Table | None, column: str, source: str) -> list[str]:
    """A column as a list; InputError where the table or the column is missing."""
    if table is None or column not in table.column_names:
        raise InputError(source, f"has no column {column!r}; plan again with this version")
    values: list[str] = table.column(column).to_pylist()
    return values
