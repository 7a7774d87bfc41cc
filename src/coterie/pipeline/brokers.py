"""The brokers of a given network: names, places and links from the tables, and who sits at which of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.storage import Folder, read_rows
from coterie.pipeline.tasks import part_files


@dataclass(frozen=True, eq=False)
class Brokers:
    """Node ids follow the order of the names."""

    names: pa.Array
    coordinates: NDArray[np.float64] | None  # longitude, latitude
    capacity: NDArray[np.float64]  # clients it can take, or relative to each other where that is not known of all
    graph: BrokerGraph | None
    is_limited: bool = False  # every node says how many clients it can take
    zone_of: Index | None = None
    zones: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.names)


def read_brokers(tables: Folder, seen: pa.ChunkedArray | None = None) -> Brokers | None:
    """What the tables `nodes` and `links` say; without the first, links or else attachments name the nodes as well.

    Who has read the attachments already gives the nodes `seen` in them.
    """
    listed, links = _rows(tables / "nodes"), _rows(tables / "links")
    if listed is not None:
        named = listed["node"]
    elif links is not None:
        named = pa.chunked_array([*links["node_a"].chunks, *links["node_b"].chunks])
    else:
        attached = _rows(tables / "attachments") if seen is None else pa.table({"node": seen})
        if attached is None or attached["node"].null_count == len(attached):
            return None
        named = attached["node"].drop_null()
    distinct = pc.unique(named)
    names = distinct.take(pc.sort_indices(distinct))
    graph = None if links is None else _graph(names, links)
    if listed is None:
        return Brokers(names, None, np.ones(len(names)), graph)
    # A node listed twice is what its first row says.
    first = np.unique(pc.index_in(named, value_set=names).to_numpy(), return_index=True)[1]
    unique = listed.take(first)
    coordinates = None
    if unique["lat"].null_count == unique["lon"].null_count == 0:
        coordinates = np.column_stack([unique["lon"].to_numpy(), unique["lat"].to_numpy()])
    capacity = _capacity(names, unique["capacity"])
    zone_of, zones = _zones(names, unique["zone"])
    return Brokers(names, coordinates, capacity, graph, not unique["capacity"].null_count, zone_of, zones)


def _capacity(names: pa.Array, given: pa.ChunkedArray) -> NDArray[np.float64]:
    """A node that does not say takes as many as the others on average."""
    told = pc.drop_null(given).to_numpy()
    if (told <= 0).any():
        at = int(np.argmax(pc.fill_null(pc.less_equal(given, 0.0), False).to_numpy()))
        raise InputError(
            "nodes",
            f"node {names[at].as_py()!r} has capacity {given[at].as_py():g}: give the number of clients it can take, "
            "or leave it empty",
        )
    capacity: NDArray[np.float64] = pc.fill_null(given, float(told.mean()) if len(told) else 1.0).to_numpy()
    return capacity


def _zones(names: pa.Array, given: pa.ChunkedArray) -> tuple[Index | None, tuple[str, ...]]:
    if given.null_count == len(given):
        return None, ()
    if given.null_count:
        alone = names[int(np.argmax(pc.is_null(given).to_numpy()))].as_py()
        raise InputError("nodes", f"node {alone!r} has no zone and others have one: give it to all or to none")
    distinct = pc.unique(given)
    zones = distinct.take(pc.sort_indices(distinct))
    return pc.index_in(given, value_set=zones).to_numpy().astype(np.int32), tuple(zones.to_pylist())


def in_zones(brokers: Brokers, told: Mapping[str, str]) -> Brokers:
    """The same brokers in the zones that somebody else knows them to be in; what the input says comes first."""
    if brokers.zone_of is not None or not told:
        return brokers
    given = pa.chunked_array([[told.get(name) for name in brokers.names.to_pylist()]], pa.string())
    zone_of, zones = _zones(brokers.names, given)
    return replace(brokers, zone_of=zone_of, zones=zones)


def attach(brokers: Brokers, people: pa.Array, tables: Path) -> Index:
    """Where the input says; who is named like a node, there; by position the nearest; others by hash and capacity."""
    if brokers.is_limited and brokers.capacity.sum() < len(people):
        room = f"{brokers.capacity.sum():,.0f}"
        raise InputError(
            "nodes", f"there is room for {room} clients in all, and there are {len(people):,}: raise the capacity"
        )
    draw = draws(np.arange(len(people)))
    node_of = spread_by_capacity(brokers, draw)
    places = _rows(tables / "positions")
    if places is not None and brokers.coordinates is not None:
        places = _first(places, "time")
        who = pc.fill_null(pc.index_in(places["subscriber"], value_set=people), -1).to_numpy()
        nearest = nearest_nodes(
            brokers.coordinates, np.column_stack([places["lon"].to_numpy(), places["lat"].to_numpy()])
        )
        node_of[who[who >= 0]] = nearest[who >= 0]
    named = pc.fill_null(pc.index_in(people, value_set=brokers.names), -1).to_numpy()
    attached: Index = np.where(named >= 0, named, node_of).astype(np.int32)
    given = _rows(tables / "attachments")
    if given is not None:
        who = pc.fill_null(pc.index_in(given["subscriber"], value_set=people), -1).to_numpy()
        where = given_node(brokers, given, who, draw)
        # Rows in order of time, those without one first: the last word counts.
        time_us = pc.fill_null(given["since"].cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
        order = np.argsort(time_us, kind="stable")
        order = order[who[order] >= 0]
        attached[who[order]] = where[order]
    return attached


def draws(clients: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from 0 to 1 that follows from a client's id."""
    mixed = ((clients.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    return np.asarray(mixed / 2.0**53)


def spread_by_capacity(brokers: Brokers, draw: NDArray[np.float64]) -> NDArray[np.int64]:
    shares = np.cumsum(brokers.capacity) / brokers.capacity.sum()
    return np.asarray(np.searchsorted(shares, draw, side="right").clip(max=brokers.count - 1))


def given_node(
    brokers: Brokers, given: pa.Table, who: NDArray[np.int64], draw: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The node that each row names; where it names a zone only, one of that zone's, by the client's hash."""
    where = _known(brokers.names, given["node"], "attachments", "node")
    zone = _known_zone(brokers, given["zone"])
    for number in range(len(brokers.zones)):
        rows = np.flatnonzero((where < 0) & (zone == number) & (who >= 0))
        nodes = np.flatnonzero(brokers.zone_of == number)
        shares = np.cumsum(brokers.capacity[nodes]) / brokers.capacity[nodes].sum()
        at = np.searchsorted(shares, draw[who[rows]], side="right").clip(max=len(nodes) - 1)
        where[rows] = nodes[at]
    return where


def _known_zone(brokers: Brokers, given: pa.ChunkedArray) -> NDArray[np.int64]:
    """Zone numbers, -1 where a row names none."""
    at = pc.fill_null(pc.index_in(given, value_set=pa.array(brokers.zones, pa.string())), -1).to_numpy()
    strange = np.flatnonzero((at < 0) & pc.is_valid(given).to_numpy())
    if len(strange):
        has = f"the nodes are in {', '.join(map(repr, brokers.zones))}" if brokers.zones else "the nodes have no zones"
        raise InputError("attachments", f"zone is {given[int(strange[0])].as_py()!r}, which no node has: {has}")
    found: NDArray[np.int64] = at.astype(np.int64)
    return found


def _first(rows: pa.Table, time: str) -> pa.Table:
    """The earliest row of each subscriber."""
    ordered = rows.sort_by([("subscriber", "ascending"), (time, "ascending")])
    names = ordered["subscriber"].combine_chunks()
    fresh = np.ones(len(names), bool)
    if len(names) > 1:
        fresh[1:] = pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
    return ordered.filter(pa.array(fresh))


def _rows(folder: Folder) -> pa.Table | None:
    schema = table_schema(folder.name).arrow
    table = pa.concat_tables([schema.empty_table()] + [read_rows(path).cast(schema) for path in part_files(folder)])
    return table if len(table) else None


def _graph(names: pa.Array, links: pa.Table) -> BrokerGraph:
    ends = [_known(names, links[column], "links", column) for column in ("node_a", "node_b")]
    cost = pc.fill_null(pc.coalesce(links["cost"], links["latency_ms"]), 1.0).to_numpy()
    graph = BrokerGraph.of(len(names), ends[0], ends[1], cost)
    reached = _reached(graph)
    if not reached.all():
        alone = names[int(np.argmin(reached))].as_py()
        raise InputError(
            "links", f"no path leads from {names[0].as_py()!r} to {alone!r}: the links must join all nodes"
        )
    return graph


def _known(names: pa.Array, given: pa.ChunkedArray, table: str, column: str) -> NDArray[np.int64]:
    """Node ids of names, -1 where there is none; a name that is no node is a mistake worth stopping for."""
    at = pc.index_in(given, value_set=names)
    strange = pc.and_(pc.is_null(at), pc.is_valid(given))
    if pc.any(strange, min_count=0).as_py():
        stranger = given.filter(strange)[0].as_py()
        raise InputError(table, f"{column} is {stranger!r}, which the table of nodes does not list: add it there")
    known: NDArray[np.int64] = pc.fill_null(at, -1).to_numpy().astype(np.int64)
    return known


def _reached(graph: BrokerGraph) -> NDArray[np.bool_]:
    """Which nodes can be reached from the first."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = (graph.source, graph.target)
    joined = coo_array((np.ones(graph.link_count), ends), shape=(graph.node_count, graph.node_count))
    group = connected_components(joined, directed=False)[1]
    same: NDArray[np.bool_] = group == group[0]
    return same


def nearest_nodes(nodes: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.int64]:
    """The node closest to each place on the globe."""
    from scipy.spatial import cKDTree

    nearest: NDArray[np.int64] = cKDTree(_on_sphere(nodes)).query(_on_sphere(places))[1]
    return nearest


def _on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    lon, lat = np.radians(degrees).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
