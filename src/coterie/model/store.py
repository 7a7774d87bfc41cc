"""Workloads and designs as files: one .npz of plain arrays each, described in docs/FORMATS.md.

A file is written beside its place and renamed into it, so a reader sees a whole file or none. Reading trusts nothing:
whatever is missing, truncated or out of range gives InputError with the file's name and the part that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import CoterieError, InputError
from coterie.model.design import Bundles, Channels, Design, Entries, Overlay, Placement, Spread, Trees, Upkeep
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Relation
from coterie.model.workload import Content, Publications, Stays, Wishes, Workload
from coterie.writing import replacing

FORMAT_VERSION = 2
Arrays = dict[str, NDArray[Any]]
Thing = TypeVar("Thing")


def save_workload(workload: Workload, path: Path | str) -> None:
    arrays: Arrays = {
        **_relation_out("interests", workload.interests),
        "publications.publisher": workload.publications.publisher,
        "publications.topic": workload.publications.topic,
        "publications.rate": workload.publications.rate,
        "publications.size": workload.publications.size,
        "attachment": workload.attachment,
    }
    if workload.coordinates is not None:
        arrays["coordinates"] = workload.coordinates
    for name in ("modes", "topic_bytes", "weights", "zone_of"):
        if (found := getattr(workload, name)) is not None:
            arrays[name] = found
    if workload.wishes is not None:
        arrays |= _relation_out("wishes.of", workload.wishes.of)
        arrays |= _relation_out("wishes.matches", workload.wishes.matches)
    if (stays := workload.stays) is not None:
        arrays |= {f"stays.{name}": getattr(stays, name) for name in ("client", "filter", "begin_s", "end_s")}
    if workload.graph is not None:
        graph = workload.graph
        arrays |= {"graph.source": graph.source, "graph.target": graph.target, "graph.cost": graph.cost}
    if workload.content is not None:
        arrays |= _relation_out("content.documents", workload.content.documents)
        arrays |= _relation_out("content.subscriptions", workload.content.subscriptions)
    about = {
        "name": workload.name,
        "node_count": workload.node_count,
        "zones": list(workload.zones),
        "is_anywhere": workload.is_anywhere,
        "span_s": 0.0 if workload.stays is None else workload.stays.span_s,
    }
    _write(Path(path), "workload", about, arrays)


def load_workload(path: Path | str) -> Workload:
    return _read(Path(path), "workload", _workload)


def save_design(design: Design, path: Path | str) -> None:
    trees, entries, overlay = design.trees, design.entries, design.overlay
    arrays: Arrays = {
        "placement.node_of": design.placement.node_of,
        **_relation_out("channels.topics", design.channels.topics),
        **_relation_out("overlay.links", overlay.links),
        **_relation_out("trees.members", trees.members),
        "trees.root": trees.root,
        "trees.indptr": trees.indptr,
        "trees.node": trees.node,
        "trees.parent": trees.parent,
        "entries.publication": entries.publication,
        "entries.channel": entries.channel,
        "entries.after": entries.after,
        "entries.indptr": entries.indptr,
        "entries.hops": entries.hops,
    }
    if overlay.positions is not None:
        arrays["overlay.positions"] = overlay.positions
    if overlay.costs is not None:
        arrays["overlay.costs"] = overlay.costs
    if overlay.zone_of is not None:
        arrays["overlay.zone_of"] = overlay.zone_of
    if overlay.beside is not None:
        arrays |= _relation_out("overlay.beside", overlay.beside)
    if entries.targets is not None:
        arrays |= _relation_out("entries.targets", entries.targets)
    if design.bundles is not None:
        arrays |= _relation_out("bundles.topics", design.bundles.topics)
        arrays |= _relation_out("bundles.members", design.bundles.members)
    about = {
        "system": design.system,
        "node_count": design.node_count,
        "spread": trees.spread.value,
        "is_announced": trees.is_announced,
        "has_homes": trees.has_homes,
        "has_relays": trees.has_relays,
        "is_complete": overlay.is_complete,
        "settings": design.settings,
        "announcements": design.announcements,
        "upkeep": {"tree": design.upkeep.tree, "link": design.upkeep.link, "associations": design.upkeep.associations},
    }
    _write(Path(path), "design", about, arrays)


def load_design(path: Path | str) -> Design:
    return _read(Path(path), "design", _design)


# --- inside ---


class _Parts:
    """The arrays of one open file, checked as they are taken out."""

    def __init__(self, source: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.source = source
        self.about = about
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def array(self, name: str, dtype: type[np.generic], below: int | None = None, from_: int = 0) -> NDArray[Any]:
        """A one-dimensional array of this type; if `below` is given, of indices in [from_, below)."""
        if name not in self._arrays:
            raise InputError(self.source, f"part {name!r} is missing")
        found = self._arrays[name]
        if found.dtype != dtype:
            raise InputError(self.source, f"part {name!r} holds {found.dtype}, expected {np.dtype(dtype)}")
        if below is not None and len(found) and (found.min() < from_ or found.max() >= below):
            raise InputError(self.source, f"part {name!r} has an index outside of [{from_}, {below})")
        return found

    def relation(self, name: str) -> Relation:
        width = self.array(f"{name}.column_count", np.int64)
        if width.shape != (1,) or width[0] < 0:
            raise InputError(self.source, f"part {name}.column_count must be one number, at least 0")
        relation = Relation(
            self.array(f"{name}.indptr", np.int64), self.array(f"{name}.columns", np.int32), int(width[0])
        )
        return relation.check(f"{self.source}, {name}")

    def offsets(self, name: str, rows: int, values: int) -> NDArray[Any]:
        found = self.array(name, np.int64)
        if len(found) != rows + 1 or found[0] != 0 or found[-1] != values or np.any(np.diff(found) < 0):
            raise InputError(self.source, f"part {name!r} does not rise from 0 to {values} over {rows} rows")
        return found


def _workload(parts: _Parts) -> Workload:
    interests = parts.relation("interests")
    nodes = int(parts.about["node_count"])
    publications = Publications(
        parts.array("publications.publisher", np.int32, below=interests.row_count),
        parts.array("publications.topic", np.int32, below=interests.column_count),
        parts.array("publications.rate", np.float64),
        parts.array("publications.size", np.float64),
    )
    if len({len(column) for column in vars(publications).values()}) > 1:
        raise InputError(parts.source, "the publication columns differ in length")
    graph = content = None
    if "graph.source" in parts:
        ends = (parts.array("graph.source", np.int32, below=nodes), parts.array("graph.target", np.int32, below=nodes))
        graph = BrokerGraph(nodes, *ends, parts.array("graph.cost", np.float64))
    if "content.documents.indptr" in parts:
        content = Content(parts.relation("content.documents"), parts.relation("content.subscriptions"))
    return Workload(
        name=str(parts.about["name"]),
        interests=interests,
        publications=publications,
        attachment=parts.array("attachment", np.int32, below=nodes),
        node_count=nodes,
        coordinates=parts.array("coordinates", np.float64) if "coordinates" in parts else None,
        graph=graph,
        content=content,
        modes=parts.array("modes", np.int32) if "modes" in parts else None,
        topic_bytes=_aligned(parts, "topic_bytes", np.float64, interests.column_count),
        weights=_aligned(parts, "weights", np.float64, interests.pair_count),
        wishes=_wishes(parts, interests) if "wishes.of.indptr" in parts else None,
        stays=_stays(parts, interests) if "stays.client" in parts else None,
        zone_of=_aligned(parts, "zone_of", np.int32, nodes),
        zones=tuple(parts.about["zones"]),
        is_anywhere=bool(parts.about["is_anywhere"]),
    )


def _aligned(parts: _Parts, name: str, dtype: type[np.generic], length: int) -> NDArray[Any] | None:
    if name not in parts:
        return None
    found = parts.array(name, dtype)
    if len(found) != length:
        raise InputError(parts.source, f"part {name!r} has {len(found)} entries, expected {length}")
    return found


def _wishes(parts: _Parts, interests: Relation) -> Wishes:
    of, matches = parts.relation("wishes.of"), parts.relation("wishes.matches")
    shapes = (of.row_count, matches.row_count, matches.column_count)
    if shapes != (interests.row_count, of.column_count, interests.column_count):
        raise InputError(parts.source, "the wishes fit neither the clients nor the topics")
    return Wishes(of, matches)


def _stays(parts: _Parts, interests: Relation) -> Stays:
    filters = interests.column_count
    if "wishes.of.indptr" in parts:
        filters = parts.relation("wishes.of").column_count
    client = parts.array("stays.client", np.int32, below=interests.row_count)
    filter = parts.array("stays.filter", np.int32, below=filters)
    begin_s, end_s = parts.array("stays.begin_s", np.float64), parts.array("stays.end_s", np.float64)
    if not len(client) == len(filter) == len(begin_s) == len(end_s):
        raise InputError(parts.source, "the columns of the stays differ in length")
    return Stays(client, filter, begin_s, end_s, float(parts.about["span_s"]))


def _design(parts: _Parts) -> Design:
    about = parts.about
    nodes = int(about["node_count"])
    channels = Channels(parts.relation("channels.topics"))
    node = parts.array("trees.node", np.int32, below=nodes)
    trees = Trees(
        Spread(about["spread"]),
        parts.relation("trees.members"),
        parts.array("trees.root", np.int32, below=nodes, from_=-1),
        parts.offsets("trees.indptr", channels.count, len(node)),
        node,
        parts.array("trees.parent", np.int32, below=nodes),
        **{name: bool(about.get(name, False)) for name in ("is_announced", "has_homes", "has_relays")},
    )
    publication = parts.array("entries.publication", np.int32)
    hops = parts.array("entries.hops", np.int32, below=nodes)
    entries = Entries(
        publication,
        parts.array("entries.channel", np.int32, below=channels.count),
        parts.array("entries.after", np.int32, below=max(len(publication), 1), from_=-1),
        parts.offsets("entries.indptr", len(publication), len(hops)),
        hops,
        parts.relation("entries.targets") if "entries.targets.indptr" in parts else None,
    )
    positions = parts.array("overlay.positions", np.uint64) if "overlay.positions" in parts else None
    costs = parts.array("overlay.costs", np.float64) if "overlay.costs" in parts else None
    zone_of = _aligned(parts, "overlay.zone_of", np.int32, nodes)
    beside = parts.relation("overlay.beside") if "overlay.beside.indptr" in parts else None
    overlay = Overlay(parts.relation("overlay.links"), positions, bool(about["is_complete"]), costs, zone_of, beside)
    placement = Placement(parts.array("placement.node_of", np.int32, below=nodes), nodes)
    settings, upkeep = dict(about["settings"]), Upkeep(**about["upkeep"])
    bundles = None
    if "bundles.topics.indptr" in parts:
        bundles = Bundles(parts.relation("bundles.topics"), parts.relation("bundles.members"))
    told = about["announcements"]
    return Design(str(about["system"]), placement, channels, overlay, trees, entries, settings, upkeep, bundles, told)


def _relation_out(name: str, relation: Relation) -> Arrays:
    return {
        f"{name}.indptr": relation.indptr,
        f"{name}.columns": relation.columns,
        f"{name}.column_count": np.array([relation.column_count], np.int64),
    }


def _write(path: Path, kind: str, about: Mapping[str, object], arrays: Arrays) -> None:
    header = json.dumps({"format": f"coterie {kind}", "version": FORMAT_VERSION, **about}, sort_keys=True)
    try:
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez_compressed(file, about=np.array(header), **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}") from None


def _read(path: Path, kind: str, build: Callable[[_Parts], Thing]) -> Thing:
    source = str(path)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        if about.get("format") != f"coterie {kind}":
            raise InputError(source, f"holds a {about.get('format')}, expected a coterie {kind}")
        if about.get("version") != FORMAT_VERSION:
            raise InputError(source, f"has format version {about.get('version')}, this program reads {FORMAT_VERSION}")
        return build(_Parts(source, about, arrays))
    except CoterieError:
        raise
    except FileNotFoundError:
        raise InputError(source, "there is no such file") from None
    except OSError as error:
        raise InputError(source, f"cannot be read: {error.strerror or error}") from None
    except Exception as error:  # damaged archives fail in many ways: zip, zlib, array headers, JSON
        reason = "it is no archive" if "pickle" in str(error) else error  # numpy would have it loaded all the same
        raise InputError(source, f"is damaged or not a coterie {kind} file ({reason})") from None
