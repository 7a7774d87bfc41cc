"""Broker networks from files: GraphML (Topology Zoo), GT-ITM's .alt and Inet."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model import BrokerGraph
from coterie.workloads.graphs import COSTS, BrokerNetwork, largest_component
from coterie.workloads.parameters import one_of

Source = str | Path | tuple[str | Path, str]  # a file, or a member of a tar archive
COMPONENTS = ("largest", "refuse")
FILE_BYTES_MAX = 64 * 2**20
EARTH_RADIUS_KM = 6371.0


def read_network(source: Source, cost: str = "unit", component: str = "largest") -> BrokerNetwork:
    """By the name's ending: .graphml, .alt, else Inet. Nodes are numbered in the file's order.

    cost: every link 1, or its length (.alt and Inet: as the file says; GraphML: kilometres between the ends, the median
    of the others where an end has no position). A graph in pieces is cut down to its largest one, or refused.
    """
    one_of("cost", cost, COSTS)
    one_of("component", component, COMPONENTS)
    name, text = _text_of(source)
    readers = {".graphml": _read_graphml, ".alt": _read_alt}
    network = readers.get(Path(name).suffix, _read_inet)(name, text, cost == "length")
    return _connected(name, network, component)


def _text_of(source: Source) -> tuple[str, str]:
    path, member = source if isinstance(source, tuple) else (source, None)
    name = str(path) if member is None else f"{path}:{member}"
    try:
        if member is None:
            with Path(path).open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
        else:
            with tarfile.open(path) as archive:
                inner = archive.extractfile(member)
                if inner is None:
                    raise InputError(name, "not a file")
                content = inner.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise InputError(name, f"larger than {FILE_BYTES_MAX} bytes")
        return name, content.decode()
    except KeyError as error:
        raise InputError(name, "the archive has no such member") from error
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise InputError(name, f"cannot be read ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(name, "not text in UTF-8") from error


def _connected(name: str, network: BrokerNetwork, component: str) -> BrokerNetwork:
    graph = network.graph
    if graph.node_count == 0:
        raise InputError(name, "has no nodes")
    kept = largest_component(graph)
    if len(kept) == graph.node_count:
        return network
    if component == "refuse":
        raise InputError(name, f"is in pieces; the largest has {len(kept)} of {graph.node_count} nodes")
    number = np.full(graph.node_count, -1, np.int64)
    number[kept] = np.arange(len(kept))
    inside = number[graph.source] >= 0
    source, target = number[graph.source[inside]], number[graph.target[inside]]
    where = None if network.coordinates is None else network.coordinates[kept]
    return BrokerNetwork(BrokerGraph.of(len(kept), source, target, graph.cost[inside]), where)


def _read_graphml(name: str, text: str, is_length: bool) -> BrokerNetwork:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(name, f"not well-formed XML ({error})", line=error.position[0]) from error
    space = root.tag[: root.tag.index("}") + 1] if root.tag.startswith("{") else ""
    graph = root.find(f"{space}graph")
    if root.tag != f"{space}graphml" or graph is None:
        raise InputError(name, "not GraphML: no <graphml> with a <graph> in it")
    keys = {key.get("attr.name"): key.get("id") for key in root.iter(f"{space}key") if key.get("for") == "node"}
    number: dict[str, int] = {}
    points: list[tuple[float, float]] = []
    for node in graph.iter(f"{space}node"):
        number[_attribute(name, node, "id")] = len(points)
        points.append(_position(name, node, space, keys.get("Longitude"), keys.get("Latitude")))
    if len(number) != len(points):
        raise InputError(name, "two nodes have the same id")
    links = _graphml_links(name, graph, space, number)
    where = np.array(points).reshape(-1, 2)
    cost = _kilometres(where, links) if is_length else np.ones(len(links))
    broker_graph = BrokerGraph.of(len(points), links[:, 0], links[:, 1], cost)
    return BrokerNetwork(broker_graph, where if not np.isnan(where).all() else None)


def _attribute(name: str, element: ElementTree.Element, key: str) -> str:
    value = element.get(key)
    if value is None:
        raise InputError(name, f"a <{element.tag.rpartition('}')[2]}> without {key}")
    return value


def _position(
    name: str, node: ElementTree.Element, space: str, longitude: str | None, latitude: str | None
) -> tuple[float, float]:
    """(longitude, latitude), not a number where unknown."""
    data = {entry.get("key"): entry.text for entry in node.findall(f"{space}data")}
    try:
        return float(data.get(longitude) or "nan"), float(data.get(latitude) or "nan")
    except ValueError as error:
        raise InputError(name, f"node {node.get('id')} has a position that is no number") from error


def _graphml_links(name: str, graph: ElementTree.Element, space: str, number: dict[str, int]) -> NDArray[np.int64]:
    ends = []
    for edge in graph.iter(f"{space}edge"):
        for key in ("source", "target"):
            end = _attribute(name, edge, key)
            if end not in number:
                raise InputError(name, f"an edge names the node {end!r}, which is not there")
            ends.append(number[end])
    return np.array(ends, np.int64).reshape(-1, 2)


def _kilometres(points: NDArray[np.float64], links: NDArray[np.int64]) -> NDArray[np.float64]:
    """Great-circle lengths of links; the median of the known ones where a position is missing."""
    longitude, latitude = np.radians(points[links]).transpose(2, 1, 0)
    half = np.sin(np.diff(latitude, axis=0)[0] / 2) ** 2
    half += np.cos(latitude).prod(axis=0) * np.sin(np.diff(longitude, axis=0)[0] / 2) ** 2
    length = np.round(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0))), 6)
    known = length[~np.isnan(length)]
    return np.where(np.isnan(length), np.median(known) if len(known) else 1.0, length)


def _read_alt(name: str, text: str, is_length: bool) -> BrokerNetwork:
    """GT-ITM: GRAPH, VERTICES and EDGES, each a heading and rows; the heading's edge count is twice the rows."""
    lines = [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    heads = {fields[0]: place for place, (_, fields) in enumerate(lines) if fields[0] in ("GRAPH", "VERTICES", "EDGES")}
    if list(heads) != ["GRAPH", "VERTICES", "EDGES"]:
        raise InputError(name, "not GT-ITM .alt: GRAPH, VERTICES and EDGES are not there in this order")
    vertices = _numbers(name, lines[heads["VERTICES"] + 1 : heads["EDGES"]], (0, 2, 3))
    edges = _numbers(name, lines[heads["EDGES"] + 1 :], (0, 1, 2))
    count = int(_numbers(name, lines[heads["GRAPH"] + 1 : heads["VERTICES"]], (0,))[:1].sum())
    return _numbered(name, count, vertices, edges, is_length)


def _read_inet(name: str, text: str, is_length: bool) -> BrokerNetwork:
    """Inet: counts, then (index, x, y) per node, maybe after a letter, then (node, node, length) per link."""
    lines = [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    counts = _numbers(name, lines[:1], (0, 1))
    if len(counts) == 0:
        raise InputError(name, "is empty")
    nodes, links = (int(value) for value in counts[0])
    if nodes < 0 or links < 0 or len(lines) != 1 + nodes + links:
        raise InputError(name, f"promises {nodes} nodes and {links} links, has {len(lines) - 1} rows: truncated?")
    rows = [(at, fields[1:] if fields[0].isalpha() else fields) for at, fields in lines[1 : 1 + nodes]]
    vertices = _numbers(name, rows, (0, 1, 2))
    return _numbered(name, nodes, vertices, _numbers(name, lines[1 + nodes :], (0, 1, 2)), is_length)


def _numbers(name: str, lines: list[tuple[int, list[str]]], places: tuple[int, ...]) -> NDArray[np.float64]:
    """These fields of every line as numbers."""
    table = np.empty((len(lines), len(places)))
    for row, (at, fields) in enumerate(lines):
        try:
            table[row] = [float(fields[place]) for place in places]
        except (IndexError, ValueError):
            table[row] = np.nan
        if not np.isfinite(table[row]).all():
            raise InputError(name, f"expected numbers at fields {places}, found {' '.join(fields)!r}", at)
    return table


def _numbered(
    name: str, count: int, vertices: NDArray[np.float64], edges: NDArray[np.float64], is_length: bool
) -> BrokerNetwork:
    if len(vertices) != count or not np.array_equal(vertices[:, 0], np.arange(count)):
        raise InputError(name, f"promises {count} nodes numbered from 0, has {len(vertices)} or other numbers")
    ends = edges[:, :2]
    if not (np.isin(ends, np.arange(count)).all() and (edges[:, 2] >= 0).all()):
        raise InputError(name, f"a link does not join two of the nodes 0 to {count - 1} with a length from 0")
    source, target = ends.astype(np.int64).T
    return BrokerNetwork(
        BrokerGraph.of(count, source, target, edges[:, 2] if is_length else 1.0), vertices[:, 1:].copy()
    )
