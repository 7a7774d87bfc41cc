"""Broker graphs: connected whatever the sizes, close to GT-ITM's, and clear about malformed files."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError, InputError
from coterie.model import BrokerGraph
from coterie.workloads import graphfiles
from coterie.workloads.graphfiles import read_network
from coterie.workloads.graphs import Flat, TransitStub, flat, is_connected, largest_component, transit_stub
from coterie.workloads.traces import trace_file

GRAPHML = """<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="Latitude" for="node" id="d1"/><key attr.name="Longitude" for="node" id="d2"/>
<graph edgedefault="undirected">
<node id="a"><data key="d1">0</data><data key="d2">0</data></node>
<node id="b"><data key="d1">0</data><data key="d2">90</data></node>
<node id="c"/><node id="alone"/>
<edge source="a" target="b"/><edge source="b" target="c"/><edge source="b" target="a"/>
</graph></graphml>"""
ALT = """GRAPH (#nodes #edges id uu vv ww xx yy zz):
3 4 transtub(0) 1 2

VERTICES (index name u v w x y z):
0 T:0.0 10 20
1 S:0.0/0.0 11 21
2 S:0.0/0.1 12 22

EDGES (from-node to-node length a b):
0 1 5 3
1 2 7 1
"""
INET = "3 2\nR\t0\t10\t20\nR\t1\t11\t21\nN\t2\t12\t22\n0\t1\t5\n1\t2\t7\n"


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300), st.integers(0, 4), st.integers(1, 6), st.integers(1, 4), st.integers(0, 5), st.integers(0, 99)
)
def test_transit_stub_is_connected_for_any_sizes(
    nodes: int, domains: int, transit: int, stubs: int, extra: int, seed: int
) -> None:
    parameters = TransitStub(
        nodes=nodes,
        transit_domains=min(domains, nodes),
        transit_nodes=transit,
        stubs=stubs,
        domain_probability=0.3,
        transit_probability=0.2,
        stub_probability=0.1,
        transit_stub_links=extra,
        stub_stub_links=extra,
        cost="length",
    )
    network = transit_stub(parameters, seed)
    assert network.graph.node_count == nodes
    assert is_connected(network.graph)
    assert (network.graph.cost >= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.floats(0, 12), st.integers(0, 99))
def test_flat_is_connected_with_the_stated_degree(nodes: int, degree: float, seed: int) -> None:
    graph = flat(Flat(nodes=nodes, degree=min(degree, nodes)), seed).graph
    assert is_connected(graph)
    wanted = min(max(round(nodes * min(degree, nodes) / 2), nodes - 1), nodes * (nodes - 1) // 2)
    assert graph.link_count == wanted


def test_transit_stub_resembles_gt_itm() -> None:
    """The real 1,000-node graph has 10 transit domains of about 4 nodes, 8 nodes a stub and 1,810 links."""
    links = [transit_stub(TransitStub(nodes=1000), seed).graph.link_count for seed in range(3)]
    assert np.mean(links) == pytest.approx(1810, rel=0.15)


def test_graph_parameters_are_validated() -> None:
    for wrong in ({"nodes": 0}, {"stub_probability": 2}, {"stubs": 0}, {"cost": "price"}):
        with pytest.raises(ConfigError):
            TransitStub(**wrong)
    with pytest.raises(ConfigError):
        Flat(nodes=10, degree=11)


def test_largest_component_of_equals_is_the_first() -> None:
    graph = BrokerGraph.of(5, [0, 2, 3], [1, 3, 4])
    assert largest_component(graph).tolist() == [2, 3, 4]
    assert largest_component(BrokerGraph.of(4, [0, 2], [1, 3])).tolist() == [0, 1]


def test_graphml_keeps_the_largest_piece_with_kilometres(tmp_path: Path) -> None:
    path = written(tmp_path, "x.graphml", GRAPHML)
    network = read_network(path, cost="length")
    graph = network.graph
    assert (graph.node_count, graph.source.tolist(), graph.target.tolist()) == (3, [0, 1], [1, 2])
    quarter = np.pi / 2 * 6371
    assert graph.cost == pytest.approx([quarter, quarter])  # the second end has no position: the median of the others
    assert read_network(path).graph.cost.tolist() == [1, 1]
    with pytest.raises(InputError, match="3 of 4 nodes"):
        read_network(path, component="refuse")


@pytest.mark.parametrize(("name", "text"), [("x.alt", ALT), ("inet", INET)])
def test_alt_and_inet_read_the_same_graph(tmp_path: Path, name: str, text: str) -> None:
    network = read_network(written(tmp_path, name, text), cost="length")
    assert network.graph.cost.tolist() == [5, 7]
    assert network.graph.target.tolist() == [1, 2]
    assert network.coordinates is not None
    assert network.coordinates.tolist() == [[10, 20], [11, 21], [12, 22]]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("x.graphml", GRAPHML[:-30], "XML"),
        ("x.graphml", "<html/>", "not GraphML"),
        ("x.graphml", GRAPHML.replace('target="c"', 'target="z"'), "'z'"),
        ("x.graphml", GRAPHML.replace('target="c"', ""), "without target"),
        ("x.graphml", GRAPHML.replace('id="c"', 'id="a"'), "same id"),
        ("x.graphml", GRAPHML.replace(">90<", ">east<"), "no number"),
        ("x.graphml", "<graphml><graph></graph></graphml>", "no nodes"),
        ("x.alt", ALT.replace("EDGES", "LINKS"), "EDGES"),
        ("x.alt", ALT.replace("1 2 7 1", "1 2"), "line 11"),
        ("x.alt", ALT.replace("1 2 7 1", "1 3 7 1"), "0 to 2"),
        ("x.alt", ALT.replace("1 2 7 1", "1 1.5 7 1"), "0 to 2"),
        ("x.alt", ALT.replace("2 S:0.0/0.1 12 22\n", ""), "promises 3"),
        ("inet", "", "empty"),
        ("inet", INET[:-6], "truncated"),
        ("inet", INET.replace("\t7", "\t-7"), "length"),
        ("inet", INET.replace("\t7", "\tnan"), "expected numbers"),
        ("inet", "nan 1\n", "expected numbers"),
        ("inet", "1e999 1\n", "expected numbers"),
        ("inet", "1e12 1\n", "truncated"),
        ("x.alt", ALT.replace("3 4 trans", "inf 4 trans"), "expected numbers"),
        ("inet", "\x00\x01 garbage", "expected numbers"),
    ],
)
def test_malformed_files_are_refused_with_a_reason(tmp_path: Path, name: str, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_network(written(tmp_path, name, text))


def test_unreadable_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_network(tmp_path / "nothing.alt")
    (tmp_path / "x.alt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_network(tmp_path / "x.alt")
    with pytest.raises(InputError, match="cannot be read"):
        read_network((tmp_path / "x.alt", "member"))
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        member = tarfile.TarInfo("inet")
        member.size = len(INET)
        archive.addfile(member, io.BytesIO(INET.encode()))
    assert read_network((tmp_path / "x.tar", "inet")).graph.node_count == 3
    with pytest.raises(InputError, match="no such member"):
        read_network((tmp_path / "x.tar", "other"))


@given(st.text(max_size=200), st.sampled_from(["x.graphml", "x.alt", "inet"]))
@settings(max_examples=100, deadline=None)
def test_garbage_gives_an_input_error_or_a_graph(text: str, name: str) -> None:
    readers = {"x.graphml": graphfiles._read_graphml, "x.alt": graphfiles._read_alt, "inet": graphfiles._read_inet}
    with contextlib.suppress(InputError):
        assert readers[name](name, text, True).graph.node_count >= 0


@pytest.mark.traces
@pytest.mark.usefixtures("traces")
def test_real_topologies_have_the_recorded_sizes() -> None:
    archive = trace_file("gtitm_inet_topologies.tar.gz")
    sizes = {"topo-0.alt": (100, 166), "topo-0-big.alt": (1000, 1810), "inet-1000": (1000, 1126)}
    for member, expected in sizes.items():
        graph = read_network((archive, member)).graph
        assert (graph.node_count, graph.link_count) == expected
    zoo = trace_file("topology_zoo_graphml.tar.gz")
    assert read_network((zoo, "graphml/Kdl.graphml"), cost="length").graph.node_count == 754
