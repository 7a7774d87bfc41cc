"""How fast content trees are: a million filters against a scan, SQLite and DuckDB; MULT on 5,000 brokers.

All four matchers get the same filters and documents and must find the same. Half of the filters are keyword
disjunctions, half are `symbol = s and price >= low and price <= high`. The scan sees a share of the filters and of the
documents and is scaled up. Times are processor time of the whole process, threads included.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from time import process_time

import numpy as np

from coterie.substrate.filterindex import FilterIndex
from coterie.substrate.filters import Filter, Interval, OneOf
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import documents_of_workload
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.stages import learn
from coterie.systems.content.strategy import single
from coterie.workloads import make_workload

FILTERS, DOCUMENTS, SCANNED_FILTERS, SCANNED_DOCUMENTS = 1_000_000, 200, 20_000, 10
KEYWORDS, SYMBOLS = 20_000, 5_000
BROKERS, TOPICS = 5_000, 10_000

Found = list[list[int]]
Words = list[tuple[int, list[int]]]  # filter -> keywords
Ranges = list[tuple[int, int, float, float]]  # filter, symbol, low, high


def filters(random: np.random.Generator) -> tuple[list[Filter], Words, Ranges]:
    words: Words = []
    ranges: Ranges = []
    made: list[Filter] = []
    drawn = random.integers(KEYWORDS, size=(FILTERS, 3)).tolist()
    symbol = random.integers(SYMBOLS, size=FILTERS).tolist()
    low = np.round(random.random(FILTERS) * 100, 2).tolist()
    for number in range(FILTERS):
        if number % 2:
            words.append((number, sorted(set(drawn[number]))))
            made.append(Filter.keywords(f"k{word}" for word in drawn[number]))
        else:
            ranges.append((number, symbol[number], low[number], low[number] + 5))
            parts = (
                ("price", Interval(low[number], low[number] + 5)),
                ("symbol", OneOf(frozenset({f"s{symbol[number]}"}))),
            )
            made.append(Filter((parts,)))
    return made, words, ranges


def documents(random: np.random.Generator) -> list[tuple[list[int], int, float]]:
    return [
        (
            sorted(set(random.integers(KEYWORDS, size=6).tolist())),
            int(random.integers(SYMBOLS)),
            round(random.random() * 100, 2),
        )
        for _ in range(DOCUMENTS)
    ]


def timed(run: Callable[[], Found]) -> tuple[float, Found]:
    start = process_time()
    found = run()
    return process_time() - start, found


def as_document(words: list[int], symbol: int, price: float) -> dict[str, float | str]:
    return {**{f"k{word}": 1.0 for word in words}, "symbol": f"s{symbol}", "price": price}


def in_sql(execute: Callable[..., object], words: Words, ranges: Ranges, load: Callable[..., object]) -> None:
    execute("create table keyword (word integer, filter integer)")
    execute("create table span (symbol integer, low double, high double, filter integer)")
    load("keyword", [(word, number) for number, some in words for word in some])
    load("span", [(symbol, low, high, number) for number, symbol, low, high in ranges])
    execute("create index by_word on keyword (word)")
    execute("create index by_symbol on span (symbol, low)")


QUERY = (
    "select distinct filter from keyword where word in ({}) union "
    "select filter from span where symbol = ? and low <= ? and high >= ? order by 1"
)


def bench_matching() -> None:
    random = np.random.default_rng(1)
    some, words, ranges = filters(random)
    published = documents(random)
    start = process_time()
    index = FilterIndex(some)
    print(f"index of {FILTERS:,} filters built in {process_time() - start:.1f} s")
    index.match(as_document(*published[0]))
    ours_s, found = timed(lambda: [index.match(as_document(*one)).tolist() for one in published])
    per_document = {"index": ours_s / DOCUMENTS}
    few, short = some[:SCANNED_FILTERS], published[:SCANNED_DOCUMENTS]
    scan_s, scanned = timed(
        lambda: [[at for at, one in enumerate(few) if one.matches(as_document(*document))] for document in short]
    )
    assert scanned == [[number for number in row if number < SCANNED_FILTERS] for row in found[:SCANNED_DOCUMENTS]]
    per_document["scan in Python"] = scan_s / SCANNED_DOCUMENTS * FILTERS / SCANNED_FILTERS
    per_document["SQLite"] = bench_sqlite(words, ranges, published, found)
    per_document["DuckDB"] = bench_duckdb(words, ranges, published, found)
    for name, seconds in per_document.items():
        print(f"  {name:15} {seconds * 1e3:10.3f} ms a document, {seconds / per_document['index']:10.1f} x the index")
    print(f"  {np.mean([len(row) for row in found]):.0f} filters match a document")


def bench_sqlite(words: Words, ranges: Ranges, published: list[tuple[list[int], int, float]], found: Found) -> float:
    base = sqlite3.connect(":memory:")
    places = {"keyword": "(?, ?)", "span": "(?, ?, ?, ?)"}
    in_sql(
        base.execute,
        words,
        ranges,
        lambda table, rows: base.executemany(f"insert into {table} values {places[table]}", rows),
    )
    seconds, rows = timed(
        lambda: [
            [row[0] for row in base.execute(QUERY.format(",".join("?" * len(some))), (*some, symbol, price, price))]
            for some, symbol, price in published
        ]
    )
    assert rows == found
    return seconds / DOCUMENTS


def bench_duckdb(words: Words, ranges: Ranges, published: list[tuple[list[int], int, float]], found: Found) -> float:
    import duckdb
    import pyarrow as pa

    base = duckdb.connect()

    def load(table: str, rows: list[tuple[float, ...]]) -> None:
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        base.register("rows", pa.table(columns, names=[f"c{at}" for at in range(len(columns))]))
        base.execute(f"insert into {table} select * from rows")

    in_sql(base.execute, words, ranges, load)
    base.execute("set threads to 1")
    seconds, rows = timed(
        lambda: [
            [
                row[0]
                for row in base.execute(
                    QUERY.format(",".join("?" * len(some))), [*some, symbol, price, price]
                ).fetchall()
            ]
            for some, symbol, price in published
        ]
    )
    assert rows == found
    return seconds / DOCUMENTS


def bench_planning() -> None:
    for network in ("transit-stub", "flat"):
        workload = make_workload("content", {"nodes": BROKERS, "network": network, "topics": TOPICS}, 1)
        assert workload.graph is not None
        demand = documents_of_workload(workload, workload.attachment, "keyword")
        start = process_time()
        terrain = Terrain(workload.graph)
        terrain.routes  # noqa: B018 - computed on first use
        paths_s = process_time() - start
        for share in (0.03, 1.0):
            known = demand.sampled(share, np.random.default_rng(0))
            learn(terrain, known.only(np.arange(2)), ContentParameters(), 0)  # compiles
            start = process_time()
            strategy = learn(terrain, known, ContentParameters(), 0)
            mult_s = process_time() - start
            start = process_time()
            single(terrain, known)
            single_s = process_time() - start
            print(
                f"MULT on {network}, {BROKERS:,} brokers, {known.document_count:,} documents: {mult_s:.1f} s "
                f"({strategy.group_count} groups), {mult_s / max(single_s, 1e-9):.0f} x one tree ({single_s:.2f} s); "
                f"shortest paths {paths_s:.1f} s"
            )


if __name__ == "__main__":
    bench_matching()
    bench_planning()
