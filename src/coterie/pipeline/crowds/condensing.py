"""A crowd at its brokers as a workload of brokers: how many deliveries an event makes at each, and what enters there.

What a design costs between brokers depends on nothing else, so its bill over this workload is the bill over everybody
(but for moves, clients by broker and changes of interest, which are counted here as well). Tasks add up bins of parts,
other tasks add up ranges of keys, and one for each window makes its workload a file; the driver hears of sums only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.accounting.changes import transitions
from coterie.model import Relation
from coterie.model.workload import PAYLOAD_BYTES
from coterie.pipeline.crowds.building import build_window
from coterie.pipeline.crowds.roster import SAID, STAYING, STAYS, STEADY, WISHES, Roster
from coterie.pipeline.crowds.sums import gather, range_start, ranges_of, save_arrays, scatter, summed
from coterie.pipeline.legs import Leg, untold
from coterie.pipeline.stays import Stays, joined_pieces
from coterie.pipeline.storage import Folder, read_rows, remove_all
from coterie.pipeline.tasks import map_array, part_name, run_tasks, save_array
from coterie.pipeline.windows import Ground
from coterie.pipeline.wishing import expanded_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS, BINS_MAX, PARTS_PER_BIN = 16, 256, 16  # of parts; decided by the data alone, so that sums do not show the machine
I64 = NDArray[np.int64]


class CrowdCounted(msgspec.Struct, frozen=True):
    """What of a bill no workload of brokers can tell."""

    clients: list[int]  # by broker
    moves: int = 0
    changes: tuple[float, ...] = ()  # by window: announcements and retractions per second
    wishes: tuple[int, ...] = ()  # by window: wishes of clients


@dataclass(frozen=True, eq=False)
class CrowdSeats:
    """Where everybody is: a table beside the roster."""

    folder: Folder
    ground: Ground

    @property
    def nodes(self) -> int:
        return self.ground.node_count


def condense(
    spark: SparkSession, roster: Roster, seats: CrowdSeats, out: Folder, name: str, leg: Leg = untold
) -> CrowdCounted:
    """Write each window's workload and outline into `out`, brokers in the place of their clients; what else counts."""
    work, windows, nodes = out / "sums", roster.windows.count, seats.nodes
    tasks = bins_of(roster.parts)
    ranges = ranges_of(len(tasks))
    leg(0.0, 0.3)
    shares = _shares(spark, roster, work, ranges)
    run = partial(_add_up, roster=roster, seats=seats, work=work, shares=shares, ranges=ranges)
    told = run_tasks(spark, tasks, run, "bin int, moves long, clients array<long>, wishes array<long>")
    leg(0.3, 0.4)
    add = partial(_add_range, roster=roster, nodes=nodes, work=work, ranges=ranges)
    run_tasks(spark, list(range(ranges)), add, "number int")
    build = partial(build_window, roster=roster, ground=seats.ground, work=work, ranges=ranges, out=out, name=name)
    leg(0.4, 0.6)
    run_tasks(spark, list(range(windows)), build, "window int")
    leg(0.6, 1.0)
    clients, wishes = (np.array(told[name].to_pylist(), np.int64).sum(axis=0) for name in ("clients", "wishes"))
    changes = _changes(spark, roster, seats, work, tasks, ranges) if roster.is_timed else (0.0,) * windows
    remove_all(work)
    moves = int(pc.sum(told["moves"]).as_py())
    assert len(clients) == nodes
    return CrowdCounted(list(map(int, clients)), moves, changes, tuple(map(int, wishes)))


def bins_of(parts: int) -> list[tuple[int, list[int]]]:
    """Numbered; enough of them for a large cluster where there are many parts, few where they would be small."""
    count = min(max(BINS, -(-parts // PARTS_PER_BIN)), BINS_MAX, parts)
    return [(index, list(map(int, one))) for index, one in enumerate(np.array_split(np.arange(parts), count))]


# --- bins of parts ---


def _shares(spark: SparkSession, roster: Roster, work: Folder, ranges: int) -> bool:
    """Members of each shared filter, where there are some: how often each of them is asked."""
    if not roster.is_shared().any():
        return False

    def count(index: int) -> pa.Table:
        wish, _, marks = wishes_of(roster, index)
        sums = [
            np.bincount(wish[marks >> bit & 1 > 0], minlength=roster.filters) for bit in range(roster.windows.count)
        ]
        key = np.arange(roster.filters)
        columns = {str(bit): one for bit, one in enumerate(sums)}
        scatter(work / "members", index, roster.filters, ranges, key, columns)
        return pa.table({"part": pa.array([index], pa.int32())})

    run_tasks(spark, list(range(roster.people_parts)), count, "part int")
    totals = np.zeros((roster.windows.count, roster.filters))
    for number in range(ranges):
        found = gather(work / "members", number, _bits(roster))
        for bit, members in enumerate(totals):
            members += np.bincount(found["key"], found[str(bit)], roster.filters)
    for bit, members in enumerate(totals):
        share = np.where(roster.is_shared(), 1.0 / np.maximum(members, 1), 1.0)
        save_array(share, work, f"share-{bit}")
    return True


def _bits(roster: Roster) -> tuple[str, ...]:
    return tuple(str(bit) for bit in range(roster.windows.count))


def wishes_of(roster: Roster, index: int) -> tuple[I64, I64, I64]:
    """Of one part: filters, how many each client has, and marks."""
    rows = read_rows(roster.folder / WISHES / part_name(index), ["filters", "marks"])
    lists, bits = rows["filters"].combine_chunks(), rows["marks"].combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return lists.flatten().to_numpy().astype(np.int64), lengths, bits.flatten().to_numpy()


def seats_of(folder: Folder, index: int) -> NDArray[np.int32]:
    seats: NDArray[np.int32] = read_rows(folder / part_name(index), ["node"])["node"].to_numpy()
    return seats


def _add_up(
    task: tuple[int, list[int]], roster: Roster, seats: CrowdSeats, work: Folder, shares: bool, ranges: int
) -> pa.Table:
    """One bin: deliveries by topic and broker, wishes by filter and broker, and what was said."""
    index, parts = task
    nodes, windows = seats.nodes, roster.windows.count
    matches = roster.matches()
    wanted = np.zeros((windows, roster.topics * nodes), np.float64 if shares else np.int64)
    asked = np.zeros((windows, roster.filters * nodes if matches is not None else 0), bool)
    steady = np.zeros((windows, roster.filters * nodes if roster.is_timed else 0), bool)
    clients, moves, counts = np.zeros(nodes, np.int64), 0, np.zeros(windows, np.int64)
    said: list[tuple[I64, dict[str, Any]]] = []
    for part in parts:
        node_of = seats_of(seats.folder, part)
        clients += np.bincount(node_of, minlength=nodes)
        moves += int(np.count_nonzero(node_of != seats_of(roster.folder / STAYING, part)))
        said.append(_said_at(roster, part, node_of, nodes))
        if part >= roster.people_parts:
            continue
        wish, lengths, marks = wishes_of(roster, part)
        at = np.repeat(node_of, lengths)
        for bit in range(windows):
            alive = marks >> bit & 1 > 0
            counts[bit] += int(np.count_nonzero(alive))
            if roster.is_timed:
                always = marks >> bit + STEADY & 1 > 0
                steady[bit][wish[always] * nodes + at[always]] = True
            if matches is None:
                wanted[bit] += np.bincount(wish[alive] * nodes + at[alive], minlength=wanted.shape[1])
                continue
            asked[bit][wish[alive] * nodes + at[alive]] = True
            share: Any = map_array(work, f"share-{bit}") if shares else np.ones(roster.filters)
            _add_matched(wanted[bit], wish, lengths, alive, node_of, nodes, matches, share)
    _scatter_some(work / "wanted", index, ranges, wanted)
    if matches is not None:
        _scatter_some(work / "asked", index, ranges, asked)
    if roster.is_timed:
        _scatter_some(work / "steady", index, ranges, steady)
    _scatter_said(work / "said", index, roster.topics * nodes * windows, ranges, said)
    return pa.table(
        {
            "bin": pa.array([index], pa.int32()),
            "moves": pa.array([moves], pa.int64()),
            "clients": pa.array([clients.tolist()], pa.list_(pa.int64())),
            "wishes": pa.array([counts.tolist()], pa.list_(pa.int64())),
        }
    )


def _scatter_some(folder: Folder, index: int, ranges: int, by_window: NDArray[Any]) -> None:
    some = np.zeros(by_window.shape[1], bool)
    for column in by_window:
        some |= column != 0
    key = np.flatnonzero(some)
    scatter(folder, index, len(some), ranges, key, {str(bit): column[key] for bit, column in enumerate(by_window)})


def _add_matched(
    total: Any, wish: I64, lengths: I64, alive: Any, node_of: Any, nodes: int, matches: Relation, share: Any
) -> None:
    """Filters as the topics they match; a client that asked in several ways gets an event once."""
    client = np.repeat(np.arange(len(lengths)), lengths)[alive]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(client, minlength=len(lengths)))]).astype(np.int64)
    of = Relation(indptr, wish[alive].astype(np.int32), matches.row_count)
    for low in range(0, len(lengths), 20_000):
        high = min(low + 20_000, len(lengths))
        length, column, weight = expanded_rows(of, matches, share, low, high)
        at = np.repeat(node_of[low:high], length)
        np.add.at(total, column.astype(np.int64) * nodes + at, weight if total.dtype.kind == "f" else 1)


def _said_at(roster: Roster, part: int, node_of: Any, nodes: int) -> tuple[I64, dict[str, Any]]:
    """Events and bytes by (topic, broker, window)."""
    path = roster.folder / SAID / part_name(part)
    if not path.exists():
        return np.zeros(0, np.int64), {"events": np.zeros(0), "volume": np.zeros(0)}
    rows = read_rows(path)
    at = node_of[rows["client_id"].to_numpy() - roster.starts[part]].astype(np.int64)
    key = (rows["topic"].to_numpy().astype(np.int64) * nodes + at) * roster.windows.count + rows["window"].to_numpy()
    events = rows["events"].to_numpy()
    return summed(key, {"events": events, "volume": events * sizes_of(rows)})


def sizes_of(said: pa.Table) -> Any:
    """Mean bytes of the events of each row; assumed where the log does not tell."""
    known = said["known"].to_numpy()
    return np.where(known > 0, said["bytes"].to_numpy() / np.maximum(known, 1e-300), PAYLOAD_BYTES)


def _scatter_said(folder: Folder, index: int, width: int, ranges: int, said: list[tuple[I64, dict[str, Any]]]) -> None:
    key = np.concatenate([one[0] for one in said])
    columns = {name: np.concatenate([one[1][name] for one in said]) for name in ("events", "volume")}
    key, columns = summed(key, columns)
    scatter(folder, index, width, ranges, key, columns)


# --- ranges of keys ---


def _add_range(number: int, roster: Roster, nodes: int, work: Folder, ranges: int) -> pa.Table:
    for kind, names in (("wanted", _bits(roster)), ("asked", _bits(roster)), ("said", ("events", "volume"))):
        found = gather(work / kind, number, names)
        columns = {name: found[name].astype(np.int64) if kind == "asked" else found[name] for name in names}
        key, columns = summed(found["key"], columns)
        save_arrays(work / f"{kind}-{number}.npz", {"key": key, **columns})
    if roster.is_timed:
        _unite_steady(number, roster, roster.filters * nodes, work, ranges)
    return pa.table({"number": pa.array([number], pa.int32())})


def _unite_steady(number: int, roster: Roster, width: int, work: Folder, ranges: int) -> None:
    """What somebody at a broker wants all the time, a bit for each key of the range."""
    found = gather(work / "steady", number, _bits(roster))
    first, end = range_start(width, ranges, number), range_start(width, ranges, number + 1)
    for window in range(roster.windows.count):
        always = np.zeros(end - first, bool)
        always[found["key"][found[str(window)] > 0] - first] = True
        save_array(np.packbits(always), work, f"always-{window}-{number}")


def _always(width: int, work: Folder, window: int, ranges: int) -> NDArray[np.bool_]:
    pieces = []
    for number in range(ranges):
        count = range_start(width, ranges, number + 1) - range_start(width, ranges, number)
        bits = np.asarray(map_array(work, f"always-{window}-{number}"), np.uint8)
        pieces.append(np.unpackbits(bits)[:count].astype(bool))
    return np.concatenate(pieces)


# --- comings and goings ---


def _changes(
    spark: SparkSession,
    roster: Roster,
    seats: CrowdSeats,
    work: Folder,
    tasks: list[tuple[int, list[int]]],
    ranges: int,
) -> tuple[float, ...]:
    """How often what a broker wants changes, by window; what somebody there wants all the time changes nothing."""
    run_tasks(spark, tasks, partial(_move, roster=roster, seats=seats, work=work, ranges=ranges), "bin int")
    counts = [(window, number) for window in range(roster.windows.count) for number in range(ranges)]
    lengths_s = roster.windows.lengths_s
    told = run_tasks(spark, counts, partial(_count, work=work, lengths_s=lengths_s), "window int, changes long")
    changes = np.bincount(told["window"].to_numpy(), told["changes"].to_numpy(), len(lengths_s))
    return tuple((changes / np.array(lengths_s)).tolist())


def _move(task: tuple[int, list[int]], roster: Roster, seats: CrowdSeats, work: Folder, ranges: int) -> pa.Table:
    """What a bin's clients wanted for a while, where nobody wants the same all the time."""
    index, parts = task
    width = roster.filters * seats.nodes
    for window in range(roster.windows.count):
        always = _always(width, work, window, ranges)
        free = (_free_stays(roster, seats, window, part, always) for part in parts if part < roster.people_parts)
        key, begin, end = joined_pieces(free)
        scatter(work / f"moving-{window}", index, width, ranges, key, {"begin": begin, "end": end})
    return pa.table({"bin": pa.array([index], pa.int32())})


def _free_stays(roster: Roster, seats: CrowdSeats, window: int, part: int, always: NDArray[np.bool_]) -> Stays:
    rows = read_rows(roster.folder / STAYS / str(window) / part_name(part))
    at = seats_of(seats.folder, part)[rows["client_id"].to_numpy() - roster.starts[part]]
    key = rows["filter"].to_numpy() * seats.nodes + at
    free = ~always[key]
    return key[free], rows["begin"].to_numpy()[free], rows["end"].to_numpy()[free]


def _count(task: tuple[int, int], work: Folder, lengths_s: list[float]) -> pa.Table:
    window, number = task
    found = gather(work / f"moving-{window}", number, ("begin", "end"))
    changes = transitions(found["key"], found["begin"], found["end"], lengths_s[window])
    return pa.table({"window": pa.array([window], pa.int32()), "changes": pa.array([changes], pa.int64())})
