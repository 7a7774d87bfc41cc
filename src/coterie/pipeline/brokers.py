"""The brokers of a given network: names, places and links from the tables, and who sits at which of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.tasks import part_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, eq=False)
class Brokers:
    """Node ids follow the order of the names."""

    names: pa.Array
    coordinates: NDArray[np.float64] | None  # longitude, latitude
    capacity: NDArray[np.float64]
    graph: BrokerGraph | None

    @property
    def count(self) -> int:
        return len(self.names)


def read_brokers(tables: Path) -> Brokers | None:
    """What the tables `nodes` and `links` say; None if there is neither. Links alone name the nodes as well."""
    listed, links = _rows(tables / "nodes"), _rows(tables / "links")
    if listed is None and links is None:
        return None
    if listed is not None:
        named = listed["node"]
    else:
        assert links is not None
        named = pa.chunked_array([*links["node_a"].chunks, *links["node_b"].chunks])
    names = pc.unique(named)
    names = names.take(pc.sort_indices(names))
    rows = pc.index_in(names, value_set=pc.unique(named)).to_numpy()
    coordinates, capacity = None, np.ones(len(names))
    if listed is not None:
        # A node listed twice is what its first row says.
        first = np.unique(pc.index_in(named, value_set=pc.unique(named)).to_numpy(), return_index=True)[1]
        unique = listed.take(first[rows])
        capacity = pc.fill_null(unique["capacity"], 1.0).to_numpy()
        if unique["lat"].null_count == unique["lon"].null_count == 0:
            coordinates = np.column_stack([unique["lon"].to_numpy(), unique["lat"].to_numpy()])
    if capacity.sum() <= 0:
        raise InputError("nodes", "no node has any capacity: leave the column empty or give a positive number")
    return Brokers(names, coordinates, capacity, None if links is None else _graph(names, links))


def attach(brokers: Brokers, people: pa.Array, places: pa.Table | None) -> Index:
    """Who is named like a node sits there; who was seen somewhere, at the nearest node; others by hash and capacity."""
    ids = np.arange(len(people), dtype=np.uint64)
    mixed = ((ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    shares = np.cumsum(brokers.capacity) / brokers.capacity.sum()
    node_of = np.searchsorted(shares, mixed / 2.0**53, side="right").clip(max=brokers.count - 1)
    if places is not None and brokers.coordinates is not None:
        who = pc.fill_null(pc.index_in(places["subscriber"], value_set=people), -1).to_numpy()
        nearest = _nearest(brokers.coordinates, np.column_stack([places["lon"].to_numpy(), places["lat"].to_numpy()]))
        node_of[who[who >= 0]] = nearest[who >= 0]
    named = pc.fill_null(pc.index_in(people, value_set=brokers.names), -1).to_numpy()
    attached: Index = np.where(named >= 0, named, node_of).astype(np.int32)
    return attached


def first_places(spark: SparkSession, tables: Path) -> pa.Table | None:
    """(subscriber, lat, lon): where each one was seen first."""
    from pyspark.sql import functions as sf

    if not part_files(tables / "positions"):
        return None
    seen = spark.read.parquet(str(tables / "positions")).groupBy("subscriber")
    first = seen.agg(sf.min(sf.struct("time", "lat", "lon")).alias("at"))
    return first.select("subscriber", "at.lat", "at.lon").toArrow()


def _rows(folder: Path) -> pa.Table | None:
    schema = table_schema(folder.name).arrow
    table = pa.concat_tables([schema.empty_table()] + [pq.read_table(path).cast(schema) for path in part_files(folder)])
    return table if len(table) else None


def _graph(names: pa.Array, links: pa.Table) -> BrokerGraph:
    ends = []
    for column in ("node_a", "node_b"):
        at = pc.index_in(links[column], value_set=names)
        if at.null_count:
            stranger = links[column].filter(pc.is_null(at))[0].as_py()
            raise InputError("links", f"{column} is {stranger!r}, which the table of nodes does not list: add it there")
        ends.append(at.to_numpy())
    cost = pc.fill_null(pc.coalesce(links["cost"], links["latency_ms"]), 1.0).to_numpy()
    graph = BrokerGraph.of(len(names), ends[0], ends[1], cost)
    reached = _reached(graph)
    if not reached.all():
        alone = names[int(np.argmin(reached))].as_py()
        raise InputError(
            "links", f"no path leads from {names[0].as_py()!r} to {alone!r}: the links must join all nodes"
        )
    return graph


def _reached(graph: BrokerGraph) -> NDArray[np.bool_]:
    """Which nodes can be reached from the first."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = (graph.source, graph.target)
    joined = coo_array((np.ones(graph.link_count), ends), shape=(graph.node_count, graph.node_count))
    group = connected_components(joined, directed=False)[1]
    same: NDArray[np.bool_] = group == group[0]
    return same


def _nearest(nodes: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.int64]:
    """The node closest to each place on the globe."""
    from scipy.spatial import cKDTree

    nearest: NDArray[np.int64] = cKDTree(_on_sphere(nodes)).query(_on_sphere(places))[1]
    return nearest


def _on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    lon, lat = np.radians(degrees).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
