"""From canonical tables to workloads over the same ids: the window to learn from, and a later one; or several pairs.

A wish belongs to a window if it was alive in it. Rates are what each window really showed, in events per second;
publications without a time are spread evenly over all windows. Data without any times is cut by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import ConfigError, InputError
from coterie.model import Publications, Relation, Workload
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index
from coterie.model.workload import Wishes
from coterie.pipeline.brokers import attach, in_zones, read_brokers
from coterie.pipeline.cutting import (
    DEFAULT_WINDOWS,
    WindowChoices,
    Windows,
    cut_rolling,
    cut_windows,
)
from coterie.pipeline.interests import MARKS, load_interests, names_in
from coterie.pipeline.publishing import WindowPublications, count_publications
from coterie.pipeline.tasks import map_array, part_files
from coterie.pipeline.wishing import Wanted, WishBook, is_held_out, read_wishes, wanted_in
from coterie.plans.tables import WishesHeld, client_table, named_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DEFAULT_WINDOWS",
    "WindowChoices",
    "all_windows",
    "build_rolling",
    "build_windows",
    "build_workloads",
    "cut_windows",
    "plan_tables",
    "spread_over",
]

PEERS_MAX = 20_000
BROKERS_MIN, BROKERS_MAX, CLIENTS_PER_BROKER = 4, 64, 500
INTERESTS, CLIENTS = "interests", "clients.parquet"
Facts = dict[str, object]


def build_workloads(
    spark: SparkSession, tables: Path, out: Path, name: str, choices: WindowChoices
) -> tuple[Workload, Workload, Facts]:
    """The learning and the later workload, and what is worth saying about them."""
    _check_there(tables)
    learn, later, facts = _pairs(spark, tables, out, name, choices, cut_windows(spark, tables, choices))[0]
    return learn, later, facts


def build_rolling(
    spark: SparkSession, tables: Path, out: Path, name: str, choices: WindowChoices, count: int
) -> list[tuple[Workload, Workload, Facts]]:
    """So many pairs: learn on window k, price on k + 1, all over the same ids. Data without times has one pair."""
    _check_there(tables)
    return _pairs(spark, tables, out, name, choices, cut_rolling(spark, tables, count))


def build_windows(
    spark: SparkSession, tables: Path, out: Path, name: str, choices: WindowChoices, count: int
) -> tuple[list[Workload], list[float], Facts]:
    """So many windows that follow each other over the same ids, and their lengths in seconds; two without times."""
    _check_there(tables)
    windows = cut_rolling(spark, tables, count - 1)
    made, _, facts = all_windows(spark, tables, out, name, choices, windows)
    return made, windows.lengths_s, facts | {"edges_s": list(windows.edges_s)}


def spread_over(workload: Workload, brokers: int, zones: int) -> Workload:
    """The same demand at another number of brokers, spread by the same hash."""
    choices = WindowChoices(brokers=brokers, zones=zones)
    network = zoned(Ground(_spread(workload.subscriber_count, brokers, False), brokers), choices)
    return replace(
        workload,
        attachment=network.attachment,
        node_count=brokers,
        zone_of=network.zone_of,
        zones=network.zones,
        is_anywhere=network.is_anywhere,
        graph=None,
        coordinates=None,
    )


def _check_there(tables: Path) -> None:
    if not part_files(tables / "subscriptions"):
        raise InputError(str(tables), "the input has no subscriptions; give a file of them or name its columns")


def _pairs(
    spark: SparkSession, tables: Path, out: Path, name: str, choices: WindowChoices, windows: Windows
) -> list[tuple[Workload, Workload, Facts]]:
    made, wanted, facts = all_windows(spark, tables, out, name, choices, windows)
    pairs = []
    for number in range(len(made) - 1):
        told = {
            "learned_subscriptions": _wish_count(wanted[number]),
            "later_subscriptions": _wish_count(wanted[number + 1]),
            **_bounds(windows, number),
        }
        pairs.append((made[number], made[number + 1], facts | told))
    return pairs


def all_windows(
    spark: SparkSession, tables: Path, out: Path, name: str, choices: WindowChoices, windows: Windows
) -> tuple[list[Workload], list[Wanted], Facts]:
    """The workload of each window, who wanted what in it, and what is the same for all; names land in `out`."""
    encoded = out / INTERESTS
    book = read_wishes(spark, tables, encoded, windows.periods)
    wanted = wanted_in(book, windows.periods, choices.seed)
    topics, people = names_in(encoded), names_in(encoded, "subscriber")
    clients, published = count_publications(spark, tables, windows, topics, people, choices.publisher_pairs_max)
    wants = np.arange(len(clients)) < len(people)
    network = zoned(_ground(tables, clients, choices), choices)
    pq.write_table(client_table(clients, published.publishes, wants, network.attachment), encoded / CLIENTS)
    topic_bytes = pc.binary_length(topics).to_numpy().astype(np.float64)
    made = [
        _workload(name, one, publications, topic_bytes, network)
        for one, publications in zip(wanted, published.windows, strict=True)
    ]
    return made, wanted, _facts(book, wanted, published, network, windows, choices)


def _workload(name: str, wanted: Wanted, publications: Publications, topic_bytes: Any, network: Ground) -> Workload:
    rows = len(network.attachment)
    wishes = wanted.wishes and Wishes(_with_rows(wanted.wishes.of, rows), wanted.wishes.matches)
    return Workload(
        name,
        _with_rows(wanted.interests, rows),
        publications,
        network.attachment,
        network.node_count,
        coordinates=network.coordinates,
        graph=network.graph,
        topic_bytes=topic_bytes,
        weights=wanted.weights,
        wishes=wishes,
        stays=wanted.stays,
        zone_of=network.zone_of,
        zones=network.zones,
        is_anywhere=network.is_anywhere,
    )


def _with_rows(relation: Relation, rows: int) -> Relation:
    """The same relation with empty rows added: who only publishes wants nothing."""
    missing = rows - relation.row_count
    indptr = np.concatenate([relation.indptr, np.full(missing, relation.indptr[-1])])
    return Relation(indptr, relation.columns, relation.column_count)


def _wish_count(wanted: Wanted) -> int:
    return (wanted.wishes.of if wanted.wishes else wanted.interests).pair_count


def _facts(
    book: WishBook,
    wanted: list[Wanted],
    published: WindowPublications,
    network: Ground,
    windows: Windows,
    choices: WindowChoices,
) -> Facts:
    """What is the same for all pairs; rates are per second."""
    strays = windows.strays
    return {
        "clients": len(network.attachment),
        "subscribers": book.of.row_count,
        "publishers": int(published.publishes.sum()),
        "publishers_outside": len(network.attachment) - book.of.row_count,
        "publishers_per_topic": published.publishers_per_topic,
        "topics": wanted[0].interests.column_count,
        "filters": book.of.column_count if book.matches is not None else None,
        "shared_filters": int(book.is_shared.sum()),
        "filters_without_topics": int((book.matches.lengths == 0).sum()) if book.matches is not None else 0,
        "subscriptions": book.of.pair_count,
        "nodes": network.node_count,
        "brokers_assumed": network.is_assumed,
        "is_peers": choices.is_peers,
        "links": network.graph.link_count if network.graph else None,
        "zones": list(network.zones),
        "zones_assumed": network.is_zoned,
        "is_timed": windows.is_timed,
        "is_held_out": is_held_out(wanted),
        "has_publications": published.is_logged,
        "is_rate_assumed": published.is_rate_assumed,
        "sizes_assumed": published.sizes_assumed,
        "events_on_topics_nobody_wants": published.unwanted_rate,
        **strays.facts(),
    }


def _bounds(windows: Windows, number: int) -> Facts:
    start_s, cut_s, end_s = windows.edges_s[number : number + 3] if windows.is_timed else (0.0, 0.0, 0.0)
    return {"start_s": start_s, "cut_s": cut_s, "end_s": end_s}


# --- nodes ---


@dataclass(frozen=True, eq=False)
class Ground:
    """Where everybody sits, the number of nodes, and where the input gives them: their places, links and zones."""

    attachment: Index
    node_count: int
    coordinates: NDArray[np.float64] | None = None
    graph: BrokerGraph | None = None
    zone_of: Index | None = None
    zones: tuple[str, ...] = ()
    is_assumed: bool = False
    is_zoned: bool = False  # by us, in turn
    is_anywhere: bool = False  # nobody said where clients are, so they may be attached in any zone


def zoned(found: Ground, choices: WindowChoices) -> Ground:
    if found.zone_of is not None or choices.is_peers or choices.zones < 2:
        return found
    count = min(choices.zones, found.node_count)
    zone_of = (np.arange(found.node_count) % count).astype(np.int32)
    return replace(
        found,
        zone_of=zone_of,
        zones=tuple(f"zone {number + 1}" for number in range(count)),
        is_zoned=True,
        is_anywhere=True,
    )


def _ground(tables: Path, clients: pa.Array, choices: WindowChoices) -> Ground:
    brokers = read_brokers(tables)
    if brokers is None:
        node_count = node_count_of(len(clients), choices)
        is_assumed = not choices.is_peers and not choices.brokers
        return Ground(_spread(len(clients), node_count, choices.is_peers), node_count, is_assumed=is_assumed)
    if choices.is_peers:
        raise ConfigError("peers", True, f"off, because the input lists {brokers.count} nodes itself")
    if choices.brokers not in (0, brokers.count):
        raise ConfigError("brokers", choices.brokers, f"0, because the input lists {brokers.count} nodes itself")
    brokers = in_zones(brokers, dict(choices.zone_of))
    seated = attach(brokers, clients, tables)
    known = bool(part_files(tables / "attachments"))
    return Ground(
        seated, brokers.count, brokers.coordinates, brokers.graph, brokers.zone_of, brokers.zones, is_anywhere=not known
    )


def node_count_of(clients: int, choices: WindowChoices) -> int:
    if not choices.is_peers:
        return choices.brokers or min(max(BROKERS_MIN, -(-clients // CLIENTS_PER_BROKER)), BROKERS_MAX)
    if clients > PEERS_MAX:
        raise ConfigError("peers", True, f"off, because {clients:,} clients are more than {PEERS_MAX:,} peers")
    return clients


def _spread(clients: int, node_count: int, is_peers: bool) -> Index:
    """Peers sit at themselves."""
    return np.arange(clients, dtype=np.int32) if is_peers else spread_ids(np.arange(clients), node_count)


def spread_ids(clients: NDArray[np.int64], node_count: int) -> Index:
    """A hash of the id spreads clients evenly, without regard to interest."""
    ids = clients.astype(np.uint64)
    mixed = (ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(33)) % np.uint64(node_count)).astype(np.int32)


# --- names ---


def plan_tables(workloads: Path, tables: Path, later: Workload) -> dict[str, pa.Table]:
    """What a plan needs to be understood outside: names of topics, clients and listed nodes by id, and the wishes."""
    encoded = workloads / INTERESTS
    clients = pq.read_table(encoded / CLIENTS)
    marks: Any = map_array(encoded, MARKS)
    held = [marks >> np.uint64(bit) & np.uint64(1) > 0 for bit in (0, 1)]
    wishes = WishesHeld(load_interests(encoded), held[0], held[1])
    brokers = read_brokers(tables)
    nodes = () if brokers is None else brokers.names.to_pylist()
    return named_tables(later, names_in(encoded), clients, wishes, names_in(encoded, "filter"), nodes)
