"""Where the clients of a crowd are: part by part, by the same rules as for the few (`brokers.attach`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import ConfigError, InputError
from coterie.pipeline.brokers import (
    Brokers,
    draws,
    given_node,
    in_zones,
    nearest_nodes,
    read_brokers,
    spread_by_capacity,
)
from coterie.pipeline.crowds.roster import NAMES, STAYING, Roster, write_by_part
from coterie.pipeline.cutting import WindowChoices
from coterie.pipeline.storage import Folder, write_rows
from coterie.pipeline.tasks import part_files, part_name, run_tasks
from coterie.pipeline.windows import Ground, node_count_of, spread_ids, zoned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEATED_SCHEMA = "client_id long, client string, node string, zone string, lat double, lon double"

NOBODY = np.zeros(0, np.int32)


def seat_clients(spark: SparkSession, roster: Roster, choices: WindowChoices) -> Ground:
    """Write `seats/stay` and return the brokers' network; its attachment is empty, because it is that table."""
    if choices.is_peers:
        raise ConfigError("peers", True, f"off, because {roster.clients:,} clients are too many to be peers")
    tables = roster.tables
    attached = spark.read.parquet(str(tables / "attachments")) if part_files(tables / "attachments") else None
    seen = None if attached is None else attached.select("node").distinct().toArrow()["node"]
    brokers = read_brokers(tables, pa.chunked_array([[]], pa.string()) if seen is None else seen)
    if brokers is None:
        count = node_count_of(roster.clients, choices)
        starts = [(index, int(first), int(last)) for index, (first, last) in _ranges(roster)]
        run_tasks(spark, starts, _spreader(roster.folder / STAYING, count), "part int")
        return zoned(Ground(NOBODY, count, is_assumed=not choices.brokers), choices)
    if choices.brokers not in (0, brokers.count):
        raise ConfigError("brokers", choices.brokers, f"0, because the input lists {brokers.count} nodes itself")
    brokers = in_zones(brokers, dict(choices.zone_of))
    if brokers.is_limited and brokers.capacity.sum() < roster.clients:
        room = f"{brokers.capacity.sum():,.0f}"
        raise InputError(
            "nodes", f"there is room for {room} clients in all, and there are {roster.clients:,}: raise the capacity"
        )
    _seat_by_tables(spark, roster, brokers, attached)
    where = (brokers.coordinates, brokers.graph, brokers.zone_of, brokers.zones)
    return zoned(Ground(NOBODY, brokers.count, *where, is_anywhere=attached is None), choices)


def _ranges(roster: Roster) -> list[tuple[int, tuple[Any, Any]]]:
    return list(enumerate(zip(roster.starts[:-1], roster.starts[1:], strict=True)))


def _spreader(target: Folder, count: int) -> Any:
    def run(task: tuple[int, int, int]) -> pa.Table:
        index, first, last = task
        ids = np.arange(first, last)
        write_seats(ids, spread_ids(ids, count), target, index)
        return pa.table({"part": pa.array([index], pa.int32())})

    return run


def write_seats(ids: Any, nodes: Any, target: Folder, index: int) -> None:
    table = {"client_id": pa.array(ids, pa.int64()), "node": pa.array(nodes, pa.int32())}
    write_rows(pa.table(table), target / part_name(index))


def _seat_by_tables(spark: SparkSession, roster: Roster, brokers: Brokers, attached: DataFrame | None) -> None:
    """Names meet what the tables say of them; then each part decides for its clients."""
    names = spark.read.parquet(str(roster.folder / NAMES))
    found = names.join(_last_word(attached), "client", "left") if attached is not None else _without(names, True)
    positions = roster.tables / "positions"
    if part_files(positions) and brokers.coordinates is not None:
        found = found.join(_first_place(spark.read.parquet(str(positions))), "client", "left")
    else:
        found = _without(found, False)
    target = roster.folder / STAYING

    def seat(index: int, table: pa.Table) -> None:
        table = table.sort_by("client_id")
        write_seats(table["client_id"].to_numpy(), seated(brokers, table), target, index)

    write_by_part(found, roster, SEATED_SCHEMA, seat)


def _last_word(attached: DataFrame) -> DataFrame:
    """The row of each client that counts: the latest, those without a time before all others."""
    from pyspark.sql import functions as sf

    when = sf.coalesce(sf.unix_micros("since"), sf.lit(-(1 << 62)))
    last = sf.max(sf.struct(when.alias("at"), sf.coalesce("node", sf.lit("")).alias("n"), "node", "zone"))
    found = attached.groupBy(sf.col("subscriber").alias("client")).agg(last.alias("last"))
    return found.select("client", "last.node", "last.zone")


def _first_place(positions: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    first = sf.min(sf.struct("time", "lat", "lon")).alias("first")
    return positions.groupBy(sf.col("subscriber").alias("client")).agg(first).select("client", "first.lat", "first.lon")


def _without(frame: DataFrame, is_attachment: bool) -> DataFrame:
    from pyspark.sql import functions as sf

    kind, names = ("string", ("node", "zone")) if is_attachment else ("double", ("lat", "lon"))
    return frame.select("*", *[sf.lit(None).cast(kind).alias(name) for name in names])


def seated(brokers: Brokers, rows: pa.Table) -> Any:
    """The node of each row: what attachments say, else of its own name, else the nearest, else by its id."""
    draw = draws(rows["client_id"].to_numpy())
    node_of = spread_by_capacity(brokers, draw)
    if brokers.coordinates is not None:
        there = np.flatnonzero(pc.is_valid(rows["lat"]).to_numpy())
        if len(there):
            places = np.column_stack([rows[name].take(pa.array(there)).to_numpy() for name in ("lon", "lat")])
            node_of[there] = nearest_nodes(brokers.coordinates, places)
    named = pc.fill_null(pc.index_in(rows["client"].cast(pa.string()), value_set=brokers.names), -1).to_numpy()
    node_of = np.where(named >= 0, named, node_of)
    told = np.flatnonzero(pc.or_(pc.is_valid(rows["node"]), pc.is_valid(rows["zone"])).to_numpy())
    if len(told):
        given = rows.select(["node", "zone"]).take(pa.array(told))
        node_of[told] = given_node(brokers, given, told, draw)
    return node_of.astype(np.int32)
