"""Windows of a log that is in memory: the same arrays that the pipeline makes of files, made here without Spark.

A test holds the two equal. Ids follow the order of the names; who only publishes comes after those who want something.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model import Publications, Relation, Stays, Wishes, Workload
from coterie.model.workload import PAYLOAD_BYTES
from coterie.pipeline.brokers import attach, in_zones, read_brokers
from coterie.pipeline.cutting import HOUR_S, WindowChoices, Windows
from coterie.pipeline.filters import FilterTrie, bodies_of, has_filters, is_shared, taken_rows, without_wildcards
from coterie.pipeline.tasks import part_files, write_part
from coterie.pipeline.windows import BROKERS_MAX, BROKERS_MIN, CLIENTS_PER_BROKER, spread_over
from coterie.pipeline.wishing import HELD_OUT, expanded, short_stays
from coterie.plans.tables import OUTSIDE, NamedWorkload

Tables = Mapping[str, pa.Table]
F64 = NDArray[np.float64]


def windows_of(
    tables: Tables, name: str, shares: Sequence[float], choices: WindowChoices, is_plain: bool
) -> list[NamedWorkload]:
    """The log cut where these shares of its publications have happened: a window more than shares, same ids."""
    if not len(tables["subscriptions"]):
        raise InputError(name, "holds no subscriptions: not one row was found")
    windows = _cut(tables, shares)
    wishes = _wishes(tables, is_plain)
    sent = _sent(tables, wishes, windows, len(shares) + 1)
    clients = pa.concat_arrays([wishes.clients, sent.strangers])
    network = _network(tables, clients, choices)
    rates = sent.windows
    found, stays = _held(tables, wishes, windows, len(shares) + 1, choices.seed)
    made = []
    for number, keep in enumerate(found):
        workload = _workload(name, wishes, keep, stays[number], rates[number], len(clients))
        facts = _facts(wishes, sent, network, windows, choices, workload, stays)
        made.append(NamedWorkload(network.seated(workload), wishes.topics, clients, network.names, wishes.asked, facts))
    return made


# --- who wants what ---


@dataclass(frozen=True, eq=False)
class _WishBook:
    clients: pa.Array
    filters: pa.Array
    topics: pa.Array
    of: Relation  # client -> filters
    matches: Relation | None
    row: NDArray[np.int64]  # of each row of the table: its place in `of`
    is_shared: NDArray[np.bool_]

    @property
    def asked(self) -> pa.Array | None:
        return None if self.matches is None else self.filters


def _wishes(tables: Tables, is_plain: bool) -> _WishBook:
    rows = tables["subscriptions"]
    clients, client = _numbered(rows["subscriber"])
    filters, wish = _numbered(rows["topic"])
    of = Relation.from_pairs(client, wish, len(clients), len(filters))
    key = client * np.int64(len(filters)) + wish
    place = np.searchsorted(of.rows.astype(np.int64) * len(filters) + of.columns, key)
    if is_plain or not has_filters(filters):
        return _WishBook(clients, filters, filters, of, None, place, np.zeros(len(filters), bool))
    bodies = bodies_of(filters)
    named = [without_wildcards(bodies)]
    if "publications" in tables:
        named.append(without_wildcards(pc.unique(tables["publications"]["topic"].combine_chunks())))
    topics = _sorted_names(pa.concat_arrays([one.combine_chunks() if hasattr(one, "chunks") else one for one in named]))
    distinct = pc.unique(bodies)
    body, topic = FilterTrie.of(distinct).matches(topics)
    by_body = Relation.from_pairs(body, topic, len(distinct), len(topics))
    wanted = np.bincount(by_body.columns, minlength=len(topics)) > 0
    number = np.cumsum(wanted, dtype=np.int64) - 1
    by_body = Relation(by_body.indptr, number[by_body.columns].astype(np.int32), int(wanted.sum()))
    matches = taken_rows(by_body, pc.index_in(bodies, value_set=distinct).to_numpy().astype(np.int64))
    return _WishBook(clients, filters, topics.filter(pa.array(wanted)), of, matches, place, is_shared(filters))


def _sorted_names(names: pa.Array) -> pa.Array:
    distinct = pc.unique(names)
    return distinct.take(pc.sort_indices(distinct))


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    flat = column.combine_chunks()
    names = _sorted_names(flat)
    return names, pc.index_in(flat, value_set=names).to_numpy().astype(np.int64)


# --- when ---


def _seconds(column: pa.ChunkedArray, missing: float) -> F64:
    found: F64 = pc.fill_null(pc.divide(column.cast(pa.int64()).cast(pa.float64()), 1e6), missing).to_numpy()
    return found


def _cut(tables: Tables, shares: Sequence[float]) -> Windows:
    for table, column in (("publications", "time"), ("subscriptions", "since")):
        if table not in tables:
            continue
        rows = tables[table]
        at = _seconds(rows[column], np.nan)
        weight = rows["count"].to_numpy().astype(np.float64) if table == "publications" else np.ones(len(at))
        known = ~np.isnan(at)
        if known.any() and at[known].max() > at[known].min():
            order = np.argsort(at[known], kind="stable")
            moments, upto = at[known][order], np.cumsum(weight[known][order])
            cuts = [moments[np.searchsorted(upto, share * upto[-1])] for share in shares]
            edges = [moments[0]]
            for cut_s in cuts:
                edges.append(max(float(cut_s), edges[-1] + 1e-6))
            return Windows((*map(float, edges), float(moments[-1]) + 1.0))
    return Windows()


def _held(
    tables: Tables, wishes: _WishBook, windows: Windows, count: int, seed: int
) -> tuple[list[NDArray[np.bool_]], list[Stays | None]]:
    """For each window which wishes held in it, and which came or went meanwhile."""
    rows = tables["subscriptions"]
    since, until = _seconds(rows["since"], -np.inf), _seconds(rows["until"], np.inf)
    pairs = wishes.of.pair_count
    if not windows.is_timed or not (np.isfinite(since) | np.isfinite(until)).any():
        everything = [np.ones(pairs, bool) for _ in range(count)]
        if count > 1:
            everything[0] = np.random.default_rng(seed).random(pairs) >= HELD_OUT
        return everything, [None] * count
    found, stays = [], []
    for period in windows.periods:
        assert period.start_s is not None
        assert period.end_s is not None
        alive = (since < period.end_s) & (until > period.start_s)
        keep = np.zeros(pairs, bool)
        keep[wishes.row[alive]] = True
        begin = np.where(since[alive] > period.start_s, since[alive] - period.start_s, -np.inf)
        end = np.where(until[alive] < period.end_s, until[alive] - period.start_s, np.inf)
        place, begun, ended = short_stays(wishes.row[alive], begin, end)
        client, wish = wishes.of.rows[place], wishes.of.columns[place]
        found.append(keep)
        stays.append(Stays(client, wish, begun, ended, period.end_s - period.start_s))
    return found, list(stays)


# --- who publishes ---


@dataclass(frozen=True, eq=False)
class _Sent:
    windows: list[Publications]
    strangers: pa.Array
    publishers: int
    is_logged: bool
    is_rate_assumed: bool
    sizes_assumed: float
    unwanted_rate: float


def _sent(tables: Tables, wishes: _WishBook, windows: Windows, count: int) -> _Sent:
    people, topics = wishes.clients, wishes.topics
    if "publications" not in tables or not len(tables["publications"]):
        rates = np.full(len(topics), 1.0 / HOUR_S)
        made = Publications.of(np.full(len(topics), len(people)), np.arange(len(topics)), rates)
        return _Sent([made] * count, pa.array([OUTSIDE]), 1, False, True, 1.0, 0.0)
    rows = tables["publications"]
    who = pc.fill_null(rows["publisher"], OUTSIDE).combine_chunks()
    known = pc.fill_null(pc.index_in(who, value_set=people), -1).to_numpy().astype(np.int64)
    strangers = _sorted_names(who.filter(pa.array(known < 0)))
    number = pc.fill_null(pc.index_in(who, value_set=strangers), 0).to_numpy().astype(np.int64)
    publisher = np.where(known >= 0, known, len(people) + number)
    topic = pc.fill_null(pc.index_in(rows["topic"], value_set=topics), -1).to_numpy().astype(np.int64)
    events = rows["count"].to_numpy().astype(np.float64)
    sized = pc.is_valid(rows["bytes"]).to_numpy()
    total = pc.fill_null(rows["bytes"], 0).to_numpy().astype(np.float64)
    lengths = windows.lengths_s if windows.is_timed else [HOUR_S] * count
    parts = _parts(rows, windows, lengths, count)
    made_windows = [
        _rates(publisher, topic, events * part, np.where(sized, events, 0.0) * part, total * part, len(topics), length)
        for part, length in zip(parts, lengths, strict=True)
    ]
    wanted, counted = topic >= 0, sum(parts)
    known_events = float((events * sized * counted)[wanted].sum())
    in_all = float((events * counted)[wanted].sum())
    unwanted = float((events * counted)[~wanted].sum()) / sum(lengths)
    publishers = len(set(publisher.tolist()))
    told = 1 - known_events / in_all if in_all else 1.0
    return _Sent(made_windows, strangers, publishers, True, not windows.is_timed, told, unwanted)


def _parts(rows: pa.Table, windows: Windows, lengths: Sequence[float], count: int) -> list[F64]:
    """For each window the share of each row that belongs to it: rows without a time are spread over all."""
    if not windows.is_timed:
        return [np.ones(len(rows))] * count
    at, span_s = _seconds(rows["time"], np.nan), sum(lengths)
    return [
        np.where(np.isnan(at), length / span_s, ((at >= low) & (at < high)).astype(np.float64))
        for low, high, length in zip(windows.edges_s[:-1], windows.edges_s[1:], lengths, strict=True)
    ]


def _rates(
    publisher: NDArray[np.int64],
    topic: NDArray[np.int64],
    events: F64,
    known: F64,
    total: F64,
    topics: int,
    length_s: float,
) -> Publications:
    rows = np.flatnonzero((topic >= 0) & (events > 0))
    key = topic[rows] * np.int64(publisher.max(initial=0) + 1) + publisher[rows]
    distinct, at = np.unique(key, return_inverse=True)
    count = len(distinct)
    sums = [np.bincount(at, one[rows], count) for one in (events, known, total)]
    topic_of, publisher_of = np.divmod(distinct, publisher.max(initial=0) + 1)
    size = np.where(sums[1] > 0, sums[2] / np.maximum(sums[1], 1e-300), PAYLOAD_BYTES)
    return Publications.of(publisher_of, topic_of, sums[0] / length_s, size)


# --- where ---


@dataclass(frozen=True, eq=False)
class _Seats:
    attachment: NDArray[np.int32]
    node_count: int
    names: tuple[str, ...] = ()
    fields: Mapping[str, Any] | None = None
    is_assumed: bool = False
    zones_asked: int = 0

    def seated(self, workload: Workload) -> Workload:
        if self.fields is None:
            if workload.is_peer_network and self.node_count == workload.subscriber_count:
                return workload
            return spread_over(workload, self.node_count, max(self.zones_asked, 1))
        return replace(workload, attachment=self.attachment, node_count=self.node_count, **self.fields)


def _network(tables: Tables, clients: pa.Array, choices: WindowChoices) -> _Seats:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name in ("nodes", "links", "attachments", "positions"):
            if name in tables:
                write_part(tables[name], home / name, 0)
        brokers = read_brokers(home)
        if brokers is None:
            return _unnamed(len(clients), choices)
        brokers = in_zones(brokers, dict(choices.zone_of))
        seated = attach(brokers, clients, home)
        known = bool(part_files(home / "attachments"))
    fields = {
        "coordinates": brokers.coordinates,
        "graph": brokers.graph,
        "zone_of": brokers.zone_of,
        "zones": brokers.zones,
        "is_anywhere": not known,
    }
    return _Seats(seated, brokers.count, tuple(brokers.names.to_pylist()), fields)


def _unnamed(clients: int, choices: WindowChoices) -> _Seats:
    if choices.is_peers:
        return _Seats(np.arange(clients, dtype=np.int32), clients, fields={})
    count = choices.brokers or min(max(BROKERS_MIN, -(-clients // CLIENTS_PER_BROKER)), BROKERS_MAX)
    return _Seats(np.zeros(clients, np.int32), count, is_assumed=not choices.brokers, zones_asked=choices.zones)


# --- together ---


def _workload(
    name: str, wishes: _WishBook, keep: NDArray[np.bool_], stays: Stays | None, sent: Publications, rows: int
) -> Workload:
    kept = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
    of = Relation(kept[wishes.of.indptr], wishes.of.columns[keep], wishes.of.column_count)
    interests, weights, asked = of, None, None
    if wishes.matches is not None:
        interests, weights = expanded(of, wishes.matches, wishes.is_shared)
        asked = Wishes(_with_rows(of, rows), wishes.matches)
    return Workload(
        name,
        _with_rows(interests, rows),
        sent,
        np.arange(rows, dtype=np.int32),
        rows,
        topic_bytes=pc.binary_length(wishes.topics).to_numpy().astype(np.float64),
        weights=weights,
        wishes=asked,
        stays=stays,
    )


def _with_rows(relation: Relation, rows: int) -> Relation:
    more = np.full(rows - relation.row_count, relation.indptr[-1])
    return Relation(np.concatenate([relation.indptr, more]), relation.columns, relation.column_count)


def _facts(
    wishes: _WishBook,
    sent: _Sent,
    network: _Seats,
    windows: Windows,
    choices: WindowChoices,
    workload: Workload,
    stays: Sequence[Stays | None],
) -> dict[str, object]:
    """The same keys that the pipeline tells."""
    zones = network.seated(workload).zones
    edges = windows.edges_s or (0.0, 0.0, 0.0)
    return {
        "clients": workload.subscriber_count,
        "subscribers": len(wishes.clients),
        "publishers": sent.publishers,
        "publishers_outside": len(sent.strangers),
        "publishers_per_topic": None,
        "topics": len(wishes.topics),
        "filters": None if wishes.matches is None else len(wishes.filters),
        "shared_filters": int(wishes.is_shared.sum()),
        "filters_without_topics": int((wishes.matches.lengths == 0).sum()) if wishes.matches is not None else 0,
        "subscriptions": wishes.of.pair_count,
        "nodes": network.node_count,
        "brokers_assumed": network.is_assumed,
        "is_peers": choices.is_peers,
        "links": None,
        "zones": list(zones),
        "zones_assumed": len(zones) > 1 and not network.names,
        "is_timed": windows.is_timed,
        "is_held_out": all(one is None for one in stays) and len(stays) > 1,
        "has_publications": sent.is_logged,
        "is_rate_assumed": sent.is_rate_assumed,
        "sizes_assumed": sent.sizes_assumed,
        "events_on_topics_nobody_wants": sent.unwanted_rate,
        "times_set_aside": 0,
        "times_set_aside_first_s": None,
        "times_set_aside_last_s": None,
        "published_per_s": float(workload.publications.rate.sum()),
        "start_s": edges[0],
        "cut_s": edges[1] if len(edges) > 1 else edges[0],
        "end_s": edges[-1],
    }
