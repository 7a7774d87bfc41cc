"""Tables that imply subscriptions, and the brokers a user lists, through the whole job."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from coterie.errors import ConfigError, InputError
from coterie.model.store import load_workload
from coterie.pipeline import brokers, deriving, job, storage
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.storage import Remote, read_rows, write_rows
from coterie.pipeline.tasks import part_files, part_name
from coterie.pipeline.windows import WindowChoices
from coterie.plans.store import PlanStore
from coterie.systems import SYSTEMS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DOCUMENTS = """\
{"document": "d1", "keywords": ["spark", "join"], "time": 10, "publisher": "press"}
{"document": "d2", "keywords": ["spark", "stream", "join"], "time": 20, "publisher": "press"}
{"document": "d3", "keywords": ["cooking"], "time": 30, "publisher": "press"}
"""
FILTERS = """\
{"subscriber": "ann", "keywords": ["spark", "join"]}
{"subscriber": "bob", "keywords": ["stream"]}
{"subscriber": "bob", "keywords": ["cooking"]}
{"subscriber": "cat", "keywords": ["opera"]}
"""
NODES = "node,lat,lon\nvienna,48.2,16.4\noslo,59.9,10.7\nrome,41.9,12.5\n"
LINKS = "node_a,node_b,latency_ms\nvienna,rome,8\noslo,vienna,21\n"


def run(spark, folder: Path, systems=("scribe",), **files: str):
    sources = []
    for table, text in files.items():
        path = folder / f"{table}.{'jsonl' if text.startswith('{') else 'csv'}"
        path.write_text(text)
        sources.append(Source((str(path),), table, duplicates="quarantine"))
    request = job.Request("tiny", sources=tuple(sources), windows=WindowChoices())
    chosen = [job.Candidate(SYSTEMS[name], SYSTEMS[name].parameters()) for name in systems]
    outcome = job.run_job(spark, request, chosen, folder / "out")
    return outcome, load_workload(job.only(folder / "out" / "work" / "workloads") / "later.npz")


def wanted(folder: Path) -> set[tuple[str, str]]:
    parts = (job.only(folder / "out" / "work" / "tables") / "subscriptions").glob("part*")
    table = pa.concat_tables(pq.read_table(path) for path in parts)
    return set(zip(table["subscriber"].to_pylist(), table["topic"].to_pylist(), strict=True))


def test_documents_become_topics_for_those_whose_filters_they_meet(spark, tmp_path):
    outcome, later = run(spark, tmp_path, documents=DOCUMENTS, filters=FILTERS)
    assert wanted(tmp_path) == {("ann", "d1"), ("ann", "d2"), ("bob", "d2"), ("bob", "d3")}
    assert outcome.priced[0].problem == ""
    assert later.rates.sum() > 0
    assert outcome.accounts["publications"]["kept"] == 3


@pytest.mark.parametrize("where", ["disk", "store"])
def test_filters_in_parts_match_documents_with_all_their_words(monkeypatch, tmp_path, where):
    draw = np.random.default_rng(5)
    words = [f"w{number}" for number in range(12)]
    documents = {f"d{number}": draw.choice(words[:9], draw.integers(1, 8)).tolist() for number in range(40)}
    filters = [(f"u{draw.integers(6)}", draw.choice(words, draw.integers(1, 4)).tolist()) for _ in range(60)]
    tables = tmp_path
    if where == "store":
        monkeypatch.setattr(
            storage, "_file_system", lambda *how: fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        )
        (tmp_path / "box/tables").mkdir(parents=True)
        monkeypatch.setattr(
            Remote, "mkdir", lambda self, **how: (tmp_path / self.key).mkdir(exist_ok=True, parents=True)
        )
        tables = Remote("s3a://box/tables")
        for name in ("documents", "filters", "matches/found"):  # a disk wants folders, a store has none
            (tmp_path / "box/tables" / name).mkdir(parents=True)
    kinds = pa.list_(pa.string())
    write_rows(
        pa.table({"document": [*documents], "keywords": pa.array([*documents.values()], kinds)}),
        tables / "documents" / part_name(0),
    )
    for part in range(2):  # cut by subscriber, as they are read
        mine = sorted((who, what) for who, what in filters if int(who[1:]) % 2 == part)
        rows = {"subscriber": [who for who, _ in mine], "keywords": pa.array([what for _, what in mine], kinds)}
        write_rows(pa.table(rows), tables / "filters" / part_name(part))
    work = tables / "matches"
    lengths = deriving._number_documents(tables, work)
    ranges = deriving.cosubscription.ranges_of_equal_work(lengths, 3)
    jobs = [(path, start, stop) for path in part_files(tables / "filters") for start, stop in ranges]
    told = [deriving._matcher(work)(job)["rows"][0].as_py() for job in enumerate(jobs)]
    rows = pa.concat_tables([read_rows(path) for path in part_files(work / "found")])
    found = list(zip(rows["subscriber"].to_pylist(), rows["topic"].to_pylist(), strict=True))
    assert len(found) == len(set(found)) == sum(told)
    assert set(found) == {
        (who, name) for who, what in filters for name, held in documents.items() if set(what) <= set(held)
    }


def test_one_of_documents_and_filters_is_not_enough(spark, tmp_path):
    with pytest.raises(InputError, match="filters=PATH"):
        run(spark, tmp_path, documents=DOCUMENTS)
    with pytest.raises(InputError, match="same words"):
        run(spark, tmp_path, documents=DOCUMENTS, filters='{"subscriber": "cat", "keywords": ["opera"]}\n')


def test_listed_nodes_and_links_are_the_network(spark, tmp_path):
    positions = "subscriber,time,lat,lon\nann,100,41.0,12.0\nann,200,60.5,11.5\nbob,150,47.5,15.5\noslo,160,41.0,12.1\n"
    outcome, later = run(spark, tmp_path, ("scribe", "content"), positions=positions, nodes=NODES, links=LINKS)
    assert outcome.facts["nodes"] == 3
    assert outcome.facts["links"] == 2
    assert later.graph is not None
    links = later.graph
    assert [links.source.tolist(), links.target.tolist(), links.cost.tolist()] == [[0, 1], [2, 2], [21.0, 8.0]]
    assert later.coordinates is not None
    assert later.coordinates[2].tolist() == [16.4, 48.2]
    # ann was seen near Rome first, bob near Vienna; who is called oslo is the node itself.
    assert later.attachment.tolist() == [1, 2, 0]
    assert [entry.problem for entry in outcome.priced] == ["", ""]


def test_a_number_of_nodes_contradicts_a_list_of_them(spark, tmp_path):
    positions = "subscriber,time,lat,lon\nann,100,41.0,12.0\n"
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    (tmp_path / "p.csv").write_text(positions)
    sources = (Source((str(tmp_path / "p.csv"),), "positions"), Source((str(path),), "nodes"))
    request = job.Request("tiny", sources=sources, windows=WindowChoices(brokers=7))
    with pytest.raises(ConfigError, match="lists 3 nodes"):
        job.run_job(spark, request, [], tmp_path / "out")


def tables(folder: Path, **rows: list[dict]) -> Path:
    for name, listed in rows.items():
        write_rows(pa.Table.from_pylist(listed, table_schema(name).arrow), folder / name / part_name(0))
    return folder


def test_links_must_name_listed_nodes_and_join_them(tmp_path):
    links = [{"node_a": "a", "node_b": "b"}, {"node_a": "c", "node_b": "d"}]
    with pytest.raises(InputError, match="from 'a' to 'c'"):
        brokers.read_brokers(tables(tmp_path / "apart", links=links))
    with pytest.raises(InputError, match="'c'"):
        brokers.read_brokers(tables(tmp_path / "stranger", links=links, nodes=[{"node": "a"}, {"node": "b"}]))
    assert brokers.read_brokers(tmp_path / "nothing") is None


def test_the_last_word_about_an_attachment_counts(tmp_path):
    moved = [
        {"subscriber": "ann", "node": "b", "since": datetime(2024, 1, 2, tzinfo=UTC)},
        {"subscriber": "ann", "node": "a", "since": datetime(2024, 1, 1, tzinfo=UTC)},
        {"subscriber": "bob", "node": "b"},
        {"subscriber": "bob", "node": "a", "since": datetime(2020, 1, 1, tzinfo=UTC)},
        {"subscriber": "nobody", "node": "b"},
    ]
    home = tables(tmp_path, nodes=[{"node": "a"}, {"node": "b"}], attachments=moved)
    given = brokers.read_brokers(home)
    assert given is not None
    assert brokers.attach(given, pa.array(["ann", "bob"]), home).tolist() == [1, 0]
    with pytest.raises(InputError, match="'z'"):
        brokers.attach(given, pa.array(["ann"]), tables(tmp_path, attachments=[{"subscriber": "ann", "node": "z"}]))


def test_the_nodes_of_a_journal_are_the_brokers_and_clients_sit_where_they_spoke_last(spark, tmp_path):
    journal = tmp_path / "journal"
    said = {
        "node-0": [(1, "subscribe", "ann", "x"), (2, "publish", "bob", "x"), (3, "publish", "bob", "x")],
        "node-1": [(4, "subscribe", "ann", "y"), (6, "publish", "cat", "y")],
    }
    for node, lines in said.items():
        (journal / node).mkdir(parents=True)
        names = ("t", "kind", "client", "topic")
        text = "".join(json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines)
        (journal / node / "000000000001.jsonl").write_text(text)
    request = job.Request("live", trace=journal, windows=WindowChoices())
    chosen = [job.Candidate(SYSTEMS["scribe"], SYSTEMS["scribe"].parameters())]
    outcome = job.run_job(spark, request, chosen, tmp_path / "out")
    later = load_workload(job.only(tmp_path / "out" / "work" / "workloads") / "later.npz")
    assert later.node_count == 2
    assert later.attachment.tolist() == [1, 0, 1]  # ann, then the publishers bob and cat
    store = PlanStore(tmp_path / "out")
    job.publish_plan(outcome, store)
    assert pq.read_table(store.folder(1) / "nodes.parquet")["node"].to_pylist() == ["node-0", "node-1"]


def test_people_spread_by_capacity_and_a_repeated_node_is_its_first_row(tmp_path):
    nodes = [{"node": "b", "capacity": 3500.0}, {"node": "a", "capacity": 1200.0}, {"node": "b", "capacity": 9.0}]
    given = brokers.read_brokers(tables(tmp_path, nodes=nodes))
    assert given is not None
    assert given.names.to_pylist() == ["a", "b"]
    assert given.capacity.tolist() == [1200.0, 3500.0]
    node_of = brokers.attach(given, pa.array([f"p{number}" for number in range(4000)]), tmp_path)
    assert np.bincount(node_of) == pytest.approx([4000 * 12 / 47, 4000 * 35 / 47], rel=0.1)


@pytest.mark.parametrize("capacity", [0.0, -2.0])
def test_a_broker_without_capacity_is_named(tmp_path, capacity):
    nodes = [{"node": "a"}, {"node": "b", "capacity": capacity}]
    with pytest.raises(InputError, match=f"node 'b' has capacity {capacity:g}: give the number of clients"):
        brokers.read_brokers(tables(tmp_path, nodes=nodes))


def test_brokers_must_have_room_for_all_clients_if_they_say_how_much(tmp_path):
    people = pa.array([f"p{number}" for number in range(5)])
    full = brokers.read_brokers(tables(tmp_path / "full", nodes=[{"node": "a", "capacity": 4.0}]))
    assert full is not None
    with pytest.raises(InputError, match="room for 4 clients in all, and there are 5"):
        brokers.attach(full, people, tmp_path)
    open_end = brokers.read_brokers(tables(tmp_path / "open", nodes=[{"node": "a", "capacity": 1.0}, {"node": "b"}]))
    assert open_end is not None
    assert len(brokers.attach(open_end, people, tmp_path)) == 5


ZONED = [{"node": "b", "zone": "west"}, {"node": "a", "zone": "east"}, {"node": "c", "zone": "west"}]


def test_nodes_have_zones_and_clients_of_a_zone_sit_in_it(tmp_path):
    listed = [{"subscriber": f"p{number}", "zone": "west"} for number in range(50)] + [{"subscriber": "q", "node": "a"}]
    home = tables(tmp_path, nodes=ZONED, attachments=listed)
    given = brokers.read_brokers(home)
    assert given is not None
    assert given.zones == ("east", "west")
    assert given.zone_of.tolist() == [0, 1, 1]
    seated = brokers.attach(given, pa.array([f"p{number}" for number in range(50)] + ["q"]), home)
    assert seated[50] == 0
    assert np.bincount(seated[:50]).tolist() == pytest.approx([0, 25, 25], abs=5)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (ZONED, "zone is 'mars', which no node has: the nodes are in 'east', 'west'"),
        ([{"node": "a"}], "zone is 'mars', which no node has: the nodes have no zones"),
        ([*ZONED, {"node": "d"}], "node 'd' has no zone and others have one"),
    ],
)
def test_a_zone_that_no_node_has_is_told(tmp_path, nodes, told):
    home = tables(tmp_path, nodes=nodes, attachments=[{"subscriber": "ann", "zone": "mars"}])
    with pytest.raises(InputError, match=told):
        brokers.attach(brokers.read_brokers(home), pa.array(["ann"]), home)


def test_attachments_alone_name_the_brokers(tmp_path):
    home = tables(tmp_path, attachments=[{"subscriber": "ann", "node": "b"}, {"subscriber": "bob", "node": "a"}])
    given = brokers.read_brokers(home)
    assert given is not None
    assert given.names.to_pylist() == ["a", "b"]
    assert brokers.attach(given, pa.array(["ann", "bob"]), home).tolist() == [1, 0]


def test_zones_that_somebody_else_knows_are_taken_where_the_input_says_nothing():
    plain = brokers.Brokers(pa.array(["east", "north", "south"]), None, np.ones(3), None)
    told = brokers.in_zones(plain, {"south": "b", "north": "a", "east": "b", "elsewhere": "c"})
    assert told.zone_of is not None
    assert (told.zone_of.tolist(), told.zones) == ([1, 0, 1], ("a", "b"))
    assert brokers.in_zones(plain, {}) is plain
    assert brokers.in_zones(told, {"east": "other"}) is told
    with pytest.raises(InputError, match="'east' has no zone and others have one"):
        brokers.in_zones(plain, {"north": "a", "south": "a"})
