"""Clients with equal wishes are one class with a number; classes lie in blocks, each a file that one task works on.

A block has whole classes, so a pass over it sees each kind once, however many clients there are of it. A class too big
for its place at a broker is cut into pieces, and one that is too big for a block lies in several.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.kernels.placement.blocks import BLOCK_USERS
from coterie.kernels.placement.problem import Problem
from coterie.model.relation import Relation
from coterie.pipeline.crowds.building import Outline
from coterie.pipeline.crowds.condensing import CrowdSeats, seats_of, sizes_of, wishes_of
from coterie.pipeline.crowds.roster import SAID, STAYING, Roster
from coterie.pipeline.crowds.sums import load_arrays, save_arrays
from coterie.pipeline.storage import Folder, read_rows
from coterie.pipeline.tasks import map_array, part_name, save_array, task_frame
from coterie.pipeline.wishing import expanded_rows
from coterie.substrate.placing import DIMENSIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Arrays = dict[str, NDArray[Any]]
PIECES = 100  # a piece of a class takes at most so small a part of a broker's share
SPREAD = 8  # a class with more than this part of a block in one part of the roster lies in several blocks
CLIENTS_AT_ONCE = 20_000


class ClassBlock(NamedTuple):
    """What a pass needs: pieces of classes as if they were clients, and how many clients each stands for."""

    indptr: I64
    topics: NDArray[np.int32]
    number: I64  # clients of a piece
    messages: NDArray[np.float64]  # per second that a broker handles for a piece
    volume: NDArray[np.float64]  # and bytes
    publisher: NDArray[np.int32]  # piece
    said_topic: NDArray[np.int32]
    said_rate: NDArray[np.float64]
    class_of: I64  # of each piece
    members: I64  # client ids, class by class
    member_starts: I64
    at: NDArray[np.int32]  # of each member

    @property
    def weight(self) -> NDArray[np.float64]:
        """[piece, dimension], in the order of `placing.DIMENSIONS`."""
        return np.stack([self.number.astype(np.float64), self.messages, self.volume], axis=1)

    def problem(self, rate: Any, capacity: Any) -> Problem:
        weight = np.minimum(self.weight, capacity.max(axis=0))
        said = (self.publisher, self.said_topic, self.said_rate)
        return Problem(self.indptr, self.topics, rate, weight, capacity, *said)


_NONE, _NOBODY = np.zeros(0, np.int64), np.zeros(0, np.int32)
NO_BLOCK = ClassBlock(
    np.zeros(1, np.int64), _NOBODY, _NONE, np.zeros(0), np.zeros(0), _NOBODY, _NOBODY, np.zeros(0), _NONE, _NONE,
    np.zeros(1, np.int64), _NOBODY,
)  # fmt: skip


@dataclass(frozen=True)
class Region:
    """Brokers among which the clients who are at one of them may be placed."""

    nodes: tuple[int, ...]
    clients: int
    blocks: int
    piece: int  # so many clients of a class are placed together

    @classmethod
    def of(cls, nodes: Sequence[int] | I64, clients: int) -> Region:
        """Cut by the number of clients alone: machines must not show in the result."""
        piece = max(1, clients // (len(nodes) * PIECES))
        return cls(tuple(map(int, nodes)), int(clients), max(1, -(-int(clients) // BLOCK_USERS)), int(piece))


class Grouped(NamedTuple):
    """What all blocks together hold."""

    pins: int
    pieces: int
    heaviest: NDArray[np.float64]


def block_file(work: Folder, block: int) -> Folder:
    return work / f"block-{block:05d}.npz"


def load_block(work: Folder, block: int) -> ClassBlock:
    return ClassBlock(**load_arrays(block_file(work, block)))


def group(
    spark: SparkSession, roster: Roster, seats: CrowdSeats, region: Region, staying: Outline, work: Folder
) -> Grouped:
    """Write the blocks of a region into `work`; wishes of the first window count, on topics that are published."""
    from pyspark.sql import functions as sf

    save_array(staying.rates, work, "rates")
    save_array(staying.volumes, work, "volumes")
    parts = list(range(roster.parts))
    rows = task_frame(spark, parts, _cutter(roster, seats, region, work), "block int, part int, data binary")
    cut = rows.repartitionById(region.blocks, sf.col("block"))
    schema = "block int, pins long, pieces long, heaviest array<double>"
    table = cut.mapInArrow(_packer(region, work), schema).toArrow().sort_by("block")
    for number in set(range(region.blocks)) - set(table["block"].to_pylist()):
        save_arrays(block_file(work, number), NO_BLOCK._asdict())
    return Grouped(
        sum(table["pins"].to_pylist()),
        sum(table["pieces"].to_pylist()),
        np.max(np.array(table["heaviest"].to_pylist()).reshape(-1, len(DIMENSIONS)), axis=0, initial=0.0),
    )


# --- from the roster to blocks ---


def _cutter(roster: Roster, seats: CrowdSeats, region: Region, work: Folder) -> Any:
    """One part of the roster as pieces of data, one for each block that gets some of its clients."""

    def run(part: int) -> pa.Table:
        rates = np.asarray(map_array(work, "rates"), np.float64)
        indptr, topics = _topics_of(roster, part, rates > 0)
        at = seats_of(roster.folder / STAYING, part)
        ids = np.arange(roster.starts[part], roster.starts[part + 1])
        said = _said_of(roster, part)
        kind = _kinds(indptr, topics, said, ids)
        block = _blocks(kind, ids, region.blocks)
        block[~np.isin(at, region.nodes)] = -1
        rows: list[tuple[int, bytes]] = []
        order = np.argsort(block, kind="stable")
        cuts = np.searchsorted(block[order], np.arange(region.blocks + 1))
        for number in range(region.blocks):
            mine = np.sort(order[cuts[number] : cuts[number + 1]])
            if len(mine):
                about = {"client": ids[mine], "at": at[mine], "kind": kind[mine]}
                rows.append((number, pickle.dumps(_rows(indptr, topics, said, mine) | about)))  # parts x blocks of them
        return pa.table(
            {
                "block": pa.array([row[0] for row in rows], pa.int32()),
                "part": pa.array([part] * len(rows), pa.int32()),
                "data": pa.array([row[1] for row in rows], pa.binary()),
            }
        )

    return run


def _topics_of(roster: Roster, part: int, is_heard: Any) -> tuple[I64, NDArray[np.int32]]:
    """Client -> topics of the first window that are published, of one part."""
    if part >= roster.people_parts:
        count = int(roster.starts[part + 1] - roster.starts[part])
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int32)
    wish, lengths, marks = wishes_of(roster, part)
    alive = marks & 1 > 0
    matches = roster.matches()
    if matches is None:
        alive &= is_heard[wish]
    client = np.repeat(np.arange(len(lengths)), lengths)[alive]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(client, minlength=len(lengths)))]).astype(np.int64)
    if matches is None:
        return indptr, wish[alive].astype(np.int32)
    of = Relation(indptr, wish[alive].astype(np.int32), matches.row_count)
    whole, each = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for low in range(0, len(lengths), CLIENTS_AT_ONCE):
        high = min(low + CLIENTS_AT_ONCE, len(lengths))
        length, column, _ = expanded_rows(of, matches, np.ones(matches.row_count), low, high)
        heard = is_heard[column]
        row = np.repeat(np.arange(high - low), length)[heard]
        whole.append(column[heard])
        each.append(np.bincount(row, minlength=high - low))
    return np.concatenate([[0], np.cumsum(np.concatenate(each))]).astype(np.int64), np.concatenate(whole)


def _said_of(roster: Roster, part: int) -> tuple[I64, NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """(client in the part, topic, rate, bytes per second) of the first window."""
    path = roster.folder / SAID / part_name(part)
    if not path.exists():
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0)
    rows = read_rows(path)
    mine = rows["window"].to_numpy() == 0
    rate = rows["events"].to_numpy()[mine] / roster.windows.lengths_s[0]
    client = rows["client_id"].to_numpy()[mine] - roster.starts[part]
    return client, rows["topic"].to_numpy()[mine], rate, rate * sizes_of(rows)[mine]


def _mixed(values: Any) -> U64:
    """Whole numbers scattered over 64 bits (the finish of splitmix64)."""
    found = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(found ^ (found >> np.uint64(31)))


def _kinds(indptr: I64, topics: Any, said: Any, ids: I64) -> U64:
    """A number that clients with equal wishes share; who publishes is of a kind of its own."""
    sums = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(topics), dtype=np.uint64)])
    kind = _mixed(sums[indptr[1:]] - sums[indptr[:-1]] + _mixed(np.diff(indptr)))
    speaks = np.zeros(len(ids), bool)
    speaks[said[0]] = True
    kind[speaks] = _mixed(kind[speaks] ^ _mixed(ids[speaks]))
    return kind


def _blocks(kind: U64, ids: I64, blocks: int) -> I64:
    """All of a kind in one block, but for kinds that would fill it."""
    block = (kind % np.uint64(blocks)).astype(np.int64)
    order = np.argsort(kind, kind="stable")
    ascending = kind[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: len(kind)])
    sizes = np.diff(np.append(first, len(kind)))
    many = np.repeat(sizes > max(len(kind) // (SPREAD * blocks), 1), sizes)
    spread = order[many]
    block[spread] = (_mixed(ids[spread]) % np.uint64(blocks)).astype(np.int64)
    return block


def _rows(indptr: I64, topics: Any, said: Any, mine: I64) -> Arrays:
    """What belongs to some clients of a part."""
    lengths = np.diff(indptr)[mine]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = np.repeat(indptr[mine] - starts[:-1], lengths) + np.arange(starts[-1])
    number = np.full(len(indptr) - 1, -1, np.int64)
    number[mine] = np.arange(len(mine))
    kept = number[said[0]] >= 0
    return {
        "lengths": lengths,
        "topics": topics[source],
        "publisher": number[said[0][kept]],
        "said_topic": said[1][kept],
        "said_rate": said[2][kept],
        "said_volume": said[3][kept],
    }


# --- a block ---


def _packer(region: Region, work: Folder) -> Any:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        rows.sort(key=lambda row: row["part"])
        number = rows[0]["block"]
        rates, volumes = (np.asarray(map_array(work, name), np.float64) for name in ("rates", "volumes"))
        block = packed_block([pickle.loads(row.pop("data")) for row in rows], rates, volumes, region.piece)
        save_arrays(block_file(work, number), block._asdict())
        weight = block.weight.max(axis=0, initial=0.0)
        told = {
            "block": pa.array([number], pa.int32()),
            "pins": pa.array([len(block.topics)], pa.int64()),
            "pieces": pa.array([len(block.number)], pa.int64()),
            "heaviest": pa.array([weight.tolist()], pa.list_(pa.float64())),
        }
        yield pa.RecordBatch.from_pydict(told)

    return pack


def packed_block(found: list[Arrays], rates: Any, volumes: Any, piece: int) -> ClassBlock:
    """Clients that came from parts of the roster as classes, cut into pieces of at most `piece` clients."""
    counts = np.cumsum([0] + [len(one["client"]) for one in found])
    client, at, kind, lengths, topics, said_topic, said_rate, said_volume = (
        np.concatenate([one[name] for one in found])
        for name in ("client", "at", "kind", "lengths", "topics", "said_topic", "said_rate", "said_volume")
    )
    publisher = np.concatenate([one["publisher"] + first for one, first in zip(found, counts[:-1], strict=True)])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    order = np.argsort(kind, kind="stable")
    ascending = kind[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    sizes = np.diff(np.append(first, len(kind)))
    pieces = -(-sizes // piece)
    class_of = np.repeat(np.arange(len(first)), pieces)
    within = np.arange(len(class_of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    number = sizes[class_of] // pieces[class_of] + (within < sizes[class_of] % pieces[class_of])
    shown = order[first][class_of]  # one client of the class stands for all
    length = lengths[shown]
    starts = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    wished = topics[np.repeat(indptr[shown] - starts[:-1], length) + np.arange(starts[-1])]
    wishing = np.repeat(np.arange(len(shown)), length)
    piece_of = np.full(len(client), -1, np.int64)
    piece_of[shown] = np.arange(len(shown))  # who publishes is alone in its class
    speaker = piece_of[publisher]
    messages, volume = (
        np.bincount(wishing, heard[wished], len(shown)) * number + np.bincount(speaker, said, len(shown))
        for heard, said in ((rates, said_rate), (volumes, said_volume))
    )
    return ClassBlock(
        starts, wished.astype(np.int32), number.astype(np.int64), messages, volume,
        speaker.astype(np.int32),
        said_topic.astype(np.int32), said_rate, class_of, client[order], np.append(first, len(kind)), at[order],
    )  # fmt: skip
