"""Makes a window's sums a workload of brokers, in a task; beside it lies an outline, all that a driver has to know."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.accounting.bounds import lower_bounds
from coterie.model import Publications, Relation, Workload
from coterie.model.store import save_workload
from coterie.model.workload import PAYLOAD_BYTES, Wishes
from coterie.pipeline.crowds.roster import LENGTHS, Roster
from coterie.pipeline.crowds.sums import load_arrays, save_arrays
from coterie.pipeline.planning import LATER, LEARN
from coterie.pipeline.storage import Folder, Remote
from coterie.pipeline.tasks import map_array
from coterie.pipeline.windows import Ground
from coterie.substrate.placing import client_weights

I64 = NDArray[np.int64]
Floats = NDArray[np.float64]
OUTLINES = ("outline-learn.npz", "outline-later.npz")


@dataclass(frozen=True, eq=False)
class Outline:
    """What placing must know of a condensed window; as long as there are topics, however many brokers there are."""

    rates: Floats  # by topic: events per second
    volumes: Floats  # by topic: bytes per second
    popular: Floats  # by topic: deliveries of an event
    weight: Floats  # [broker, dimension of `placing.DIMENSIONS`]
    copies: Floats  # one number: the fewest per second between brokers, clients being where they are

    @classmethod
    def of(cls, workload: Workload) -> Outline:
        said, topics, interests = workload.publications, workload.topic_count, workload.interests
        return cls(
            workload.rates,
            np.bincount(said.topic, said.rate * said.size, topics).astype(np.float64),
            np.bincount(interests.columns, workload.weights, topics).astype(np.float64),
            client_weights(workload),
            np.array([lower_bounds(workload, workload.attachment).dissemination.wanted]),
        )


def load_outline(folder: Folder, window: int) -> Outline:
    return Outline(**load_arrays(folder / OUTLINES[window]))


def build_window(
    window: int, roster: Roster, ground: Ground, work: Folder, ranges: int, out: Folder, name: str
) -> pa.Table:
    """Write the workload that `condensing` has added up in `work`, and its outline."""
    workload = _workload(roster, ground, work, window, ranges, name)
    with_local(out / (LEARN, LATER)[window], lambda path: save_workload(workload, path))
    save_arrays(out / OUTLINES[window], vars(Outline.of(workload)))
    return pa.table({"window": pa.array([window], pa.int32())})


def _whole(work: Folder, kind: str, ranges: int) -> dict[str, Any]:
    found = [load_arrays(work / f"{kind}-{number}.npz") for number in range(ranges)]
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _workload(roster: Roster, ground: Ground, work: Folder, window: int, ranges: int, name: str) -> Workload:
    """Clients are the brokers, and one that wants nothing, so that nobody takes them for peers."""
    nodes, bit = ground.node_count, str(window)
    found = _whole(work, "wanted", ranges)
    there = found[bit] > 0
    topic, node = np.divmod(found["key"][there], nodes)
    interests, weights = _relation(node, topic, found[bit][there].astype(np.float64), nodes + 1, roster.topics)
    wishes = None
    matches = roster.matches()
    if matches is not None:
        asked = _whole(work, "asked", ranges)
        wish, at = np.divmod(asked["key"][asked[bit] > 0], nodes)
        of, _ = _relation(at, wish, np.ones(len(at)), nodes + 1, roster.filters)
        wishes = Wishes(of, matches)
    return Workload(
        name,
        interests,
        _publications(roster, work, window, nodes, ranges),
        np.append(np.arange(nodes, dtype=np.int32), np.int32(0)),
        nodes,
        coordinates=ground.coordinates,
        graph=ground.graph,
        topic_bytes=np.asarray(map_array(roster.folder, LENGTHS), np.float64),
        weights=weights,
        wishes=wishes,
        zone_of=ground.zone_of,
        zones=ground.zones,
        is_anywhere=ground.is_anywhere,
    )


def _relation(row: I64, column: I64, weight: Any, rows: int, columns: int) -> tuple[Relation, Any]:
    order = np.lexsort((column, row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    return Relation(indptr, column[order].astype(np.int32), columns), weight[order]


def _publications(roster: Roster, work: Folder, window: int, nodes: int, ranges: int) -> Publications:
    said = _whole(work, "said", ranges)
    key, at = np.divmod(said["key"], roster.windows.count)
    mine = at == window
    topic, node = np.divmod(key[mine], nodes)
    events, volume = said["events"][mine], said["volume"][mine]
    size = np.where(events > 0, volume / np.maximum(events, 1e-300), PAYLOAD_BYTES)
    order = np.lexsort((node, topic))
    rate = events[order] / roster.windows.lengths_s[window]
    return Publications.of(node[order], topic[order], rate, size[order])


# --- files that only this machine's readers and writers understand ---


def with_local(path: Folder, write: Any) -> None:
    """Let `write` make a file of this machine, and put it where it belongs."""
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / path.name
        write(local)
        path.write_bytes(local.read_bytes())


def from_local(path: Folder, read: Any) -> Any:
    """What `read` makes of a file, wherever it lies."""
    if not isinstance(path, Remote):
        return read(path)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / path.name
        local.write_bytes(path.read_bytes())
        return read(local)
