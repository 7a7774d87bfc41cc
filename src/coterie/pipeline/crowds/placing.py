"""Places a crowd for the fewest copies between brokers: rounds over blocks, of which only a picture of all travels.

The picture is brokers by topics, loads and prices. Blocks join in waves, each as large as all before it. Blocks and the
seats of their classes stay in files, written anew in every round under its number, so a task that runs twice finds the
same. What comes out depends on the data and the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from coterie.errors import ConfigError
from coterie.kernels.placement.auction import Room
from coterie.kernels.placement.blocks import ROUNDS, WAVES, Passed, Picture, Round, Whole, pass_own
from coterie.kernels.placement.books import DUST
from coterie.kernels.placement.passes import GROWING, QUICK, layer_of
from coterie.pipeline.blocks import PICTURE_MAX, can_place
from coterie.pipeline.crowds.building import Outline
from coterie.pipeline.crowds.condensing import CrowdSeats
from coterie.pipeline.crowds.grouping import ClassBlock, Grouped, Region, group, load_block
from coterie.pipeline.crowds.roster import Roster
from coterie.pipeline.crowds.seating import write_seats
from coterie.pipeline.crowds.sums import load_arrays, save_arrays
from coterie.pipeline.legs import Leg, untold, within
from coterie.pipeline.storage import Folder, remove_all
from coterie.pipeline.tasks import map_array, run_tasks, task_frame
from coterie.substrate.placing import DIMENSIONS, EVEN_ENOUGH, Balance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Floats = NDArray[np.float64]
GANGS = 256  # so many tasks at most pass over a wave
ADDED = 16  # files of what tasks have changed that one task, or the driver, adds up
EARLY = 1.05  # while blocks join, a broker may have so much of its part of the room


@dataclass(frozen=True, eq=False)
class CrowdPlaced:
    """Where the seats lie, and how well the limits hold; copies are for the bills to say."""

    folder: Folder
    hottest: Floats  # by dimension: the largest load as a multiple of the mean
    is_within: bool


def place_crowd(
    spark: SparkSession,
    roster: Roster,
    seats: CrowdSeats,
    staying: Outline,
    clients: Any,
    out: Folder,
    balance: Balance = EVEN_ENOUGH,
    seed: int = 1,
    leg: Leg = untold,
) -> CrowdPlaced:
    """Write `out`/placed; `staying` outlines the first window with everybody where they are, `clients` how many."""
    nodes, topics = seats.nodes, roster.topics
    if not can_place(nodes, topics):
        allowed = f"at most {PICTURE_MAX}: take fewer brokers"
        raise ConfigError("brokers x topics", f"{nodes} x {topics}", allowed)
    work, target = out / "blocks", out / "placed"
    hottest, is_within = np.zeros(len(DIMENSIONS)), True
    seated: list[tuple[Folder, int, int, Any]] = []  # blocks: folder, number, the round of their seats, brokers' names
    all_regions = regions(seats, np.asarray(clients))
    for number, region in enumerate(all_regions):
        folder, each = work / f"region-{number}", 0.95 / len(all_regions)
        part = within(leg, number * each, (number + 1) * each)
        part(0.0, 0.2)
        found = _Rounds(spark, roster, seats, staying, region, folder, balance, seed)
        last, picture = found.run(within(part, 0.2, 1.0))
        names, capacity = found.names(last), found.capacity
        hottest = np.maximum(hottest, picture.load.max(axis=0) / np.maximum(picture.load.mean(axis=0), 1e-30))
        is_within &= bool((picture.load <= capacity * (1 + DUST) + 1e-9).all())
        seated += [(folder, block, last[block], names) for block in last]
    leg(0.95, 1.0)
    _write_places(spark, roster, seated, target)
    remove_all(work)
    return CrowdPlaced(target, hottest, is_within)


def regions(seats: CrowdSeats, clients: Any) -> list[Region]:
    """Nobody leaves its zone, where clients have one."""
    zone_of = seats.ground.zone_of
    if zone_of is None or seats.ground.is_anywhere:
        return [Region.of(range(seats.nodes), clients.sum())]
    found = [np.flatnonzero(zone_of == zone) for zone in range(int(zone_of.max()) + 1)]
    return [Region.of(nodes, clients[nodes].sum()) for nodes in found if clients[nodes].sum()]


class _Rounds:
    """All rounds of one region; the driver holds the picture, and nothing that grows with clients."""

    def __init__(
        self, spark: SparkSession, roster: Roster, seats: CrowdSeats, staying: Outline, region: Region,
        work: Folder, balance: Balance, seed: int,
    ) -> None:  # fmt: skip
        self.spark, self.region, self.work, self.seed = spark, region, work, seed
        self.rates = staying.rates
        self.grouped: Grouped = group(spark, roster, seats, region, staying, work)
        self.rank = np.empty(roster.topics, np.int32)
        self.rank[np.argsort(-staying.popular, kind="stable")] = np.arange(roster.topics, dtype=np.int32)
        self.is_counted = bool(staying.rates.any())
        self.totals = _totals(staying, region)
        self.capacity = _capacity(self.totals, len(region.nodes), balance.by_dimension, self.grouped.heaviest)

    def run(self, leg: Leg) -> tuple[dict[int, int], Picture]:
        """In which round every block was seated last, and the last picture."""
        unit = max(self.grouped.pins, 1) / np.maximum(self.totals, 1e-30)
        room = _room(self.capacity, self.totals, unit)
        about = {"limit": room.limit, "soft": room.soft, "capacity": self.capacity}
        save_arrays(self.work / "whole.npz", {"rank": self.rank, "unit": unit, **about})
        blocks, picture, done = self.region.blocks, self._empty(), 0
        last, passes = dict.fromkeys(range(blocks), -1), _passes(blocks)
        in_all = sum(len(wave) for _, wave, _ in passes)
        for number, (smoothing, wave, share) in enumerate(passes):
            leg(done / in_all, (done + len(wave)) / in_all)
            picture = self._passed(Round(number, smoothing, picture, wave, len(wave)), last, share)
            last |= dict.fromkeys(wave, number)
            done += len(wave)
        return last, picture._replace(load=picture.load / unit)

    def _empty(self) -> Picture:
        shape = self.capacity.shape
        layer = layer_of(len(self.rates), shape[0], is_counted=self.is_counted)
        return Picture(layer.counts, layer.entering, np.zeros(shape), np.zeros(shape, np.float32))

    def _passed(self, told: Round, seated: dict[int, int], share: float) -> Picture:
        """The picture after a pass over some blocks; `seated` says in which round each was seated last, -1: never."""
        work, before = self.work, dict(seated)
        folder = work / f"round-{told.number:03d}"
        save_arrays(folder / "picture.npz", told.picture._asdict())
        facts = (told.number, told.smoothing, told.blocks, self.seed, self.region.blocks, share)

        def run(gang: list[int]) -> pa.Table:
            pass_files(work, folder, gang, facts, before)
            return pa.table({"first": pa.array([gang[0]], pa.int32())})

        gangs = in_gangs(told.blocks)
        run_tasks(self.spark, gangs, run, "first int")
        changed = self._added([folder / f"changed-{gang[0]:05d}.npz" for gang in gangs], told.picture)
        picture = _changed(told.picture, changed, len(told.blocks))
        for block in told.blocks:
            if before[block] >= 0:
                _forget(seats_file(work, before[block], block))
        for path in (folder / "picture.npz", *changed):
            _forget(path)
        return picture

    def _added(self, paths: list[Folder], picture: Picture) -> list[Folder]:
        """Fewer files with the same sum: tasks add up, so that what the driver reads does not grow with the tasks."""
        shapes = [column.shape for column in picture]
        while len(paths) > ADDED:
            groups = [list(group) for group in np.array_split(np.array(paths, object), -(-len(paths) // ADDED))]

            def run(group: list[Folder]) -> pa.Table:
                sums: list[Any] = list(map(np.zeros, shapes, (np.int32, np.float32, float, float)))
                total = Picture(*sums)
                for path in group:
                    _add(total, path)
                _save_changed(total, _sum_of(group))
                return pa.table({"files": pa.array([len(group)], pa.int32())})

            run_tasks(self.spark, groups, run, "files int")
            for path in paths:
                _forget(path)
            paths = [_sum_of(group) for group in groups]
        return paths

    def names(self, last: dict[int, int]) -> Any:
        """Which broker each group is to be at, so that most clients stay and every group fits."""
        work, nodes = self.work, np.array(self.region.nodes)

        def run(gang: list[int]) -> pa.Table:
            staying = np.zeros((len(nodes), len(nodes)), np.int64)
            for block in gang:
                quotas, counts = _meeting(load_block(work, block), _seats(work, last[block], block), nodes)
                for broker in range(len(nodes)):
                    staying[broker] += np.minimum(quotas[:, broker, None], counts).sum(axis=0)
            return pa.table({"staying": pa.array([staying.tobytes()], pa.binary())})

        told = run_tasks(self.spark, in_gangs(tuple(last)), run, "staying binary")
        found = [np.frombuffer(one.as_buffer(), np.int64) for one in told["staying"]]
        staying = np.sum(found, axis=0).reshape(len(nodes), len(nodes))
        rows, names = linear_sum_assignment(staying, maximize=True)  # all brokers of a region have the same room
        new = np.empty(len(nodes), np.int64)
        new[rows] = nodes[names]
        return new


def growing(blocks: int) -> list[tuple[int, ...]]:
    """Waves in which blocks join: each as many as are there already, so that everybody joins a crowd but the first."""
    waves: list[tuple[int, ...]] = [(0,)]
    there = 1
    while there < blocks:
        waves.append(tuple(range(there, min(2 * there, blocks))))
        there *= 2
    return waves


def _passes(blocks: int) -> list[tuple[float, tuple[int, ...], float]]:
    """All rounds: how smooth, which blocks, and the part of all that is there."""
    joining = [(GROWING, wave, (wave[-1] + 1) / blocks) for wave in growing(blocks)]
    step = -(-blocks // WAVES)
    waves = [tuple(range(first, min(first + step, blocks))) for first in range(0, blocks, step)]
    return joining + [(smoothing, wave, 1.0) for smoothing, passes in ROUNDS for _ in range(passes) for wave in waves]


def in_gangs(blocks: tuple[int, ...]) -> list[list[int]]:
    """Blocks that one task works on, one after the other, and tells the sum of."""
    return [list(map(int, gang)) for gang in np.array_split(np.array(blocks), min(len(blocks), GANGS))]


def _totals(staying: Outline, region: Region) -> Floats:
    """What a region's clients take in all, by dimension; brokers stand for their clients here."""
    totals = np.asarray(staying.weight[list(region.nodes)].sum(axis=0))
    totals[0] = region.clients
    return totals


def _capacity(totals: Floats, nodes: int, imbalance: Floats, heaviest: Floats) -> Floats:
    """So much above the mean, and never less than the heaviest piece takes."""
    room = np.maximum((1 + imbalance) * totals / nodes, heaviest)
    room[0] = max(room[0], np.ceil(totals[0] / nodes))
    return np.tile(np.maximum(room, 1e-12), (nodes, 1))


def _room(capacity: Floats, totals: Floats, unit: Floats) -> Room:
    """As `passes.room_of`, from totals."""
    limit = capacity * unit
    even = totals * unit * limit / np.maximum(limit.sum(axis=0), 1e-30)
    between = np.maximum(even + QUICK.soft * np.maximum(limit - even, 0.0), 1e-12)
    return Room(np.maximum(limit, 1e-12) * (1 + DUST / 2), between, np.zeros(len(limit), np.int32))


# --- in a task ---


def seats_file(work: Folder, number: int, block: int) -> Folder:
    return work / f"round-{number:03d}" / f"seats-{block:05d}.npz"


def _seats(work: Folder, number: int, block: int) -> Any:
    return load_arrays(seats_file(work, number, block))["part"]


def pass_files(work: Folder, folder: Folder, gang: list[int], facts: tuple[Any, ...], before: dict[int, int]) -> None:
    """One pass over blocks that lie in files; seats, and what all of them changed in the picture, go to files."""
    number, smoothing, blocks, seed, block_count, share = facts
    about = load_arrays(work / "whole.npz")
    picture = Picture(**load_arrays(folder / "picture.npz"))
    limit = about["limit"] * min(1.0, share * EARLY)
    room = Room(limit, about["soft"] * share, np.zeros(len(limit), np.int32))
    whole = Whole(about["rank"], about["unit"], room, seed, block_count)
    rates = np.asarray(map_array(work, "rates"), np.float64)
    told = Round(number, smoothing, picture, blocks, len(blocks))
    total: Passed | None = None
    for block in gang:
        own = load_block(work, block).problem(rates, about["capacity"])
        part = None if before[block] < 0 else _seats(work, before[block], block)
        passed = pass_own(own, whole, told, block, part)
        save_arrays(seats_file(work, number, block), {"part": passed.part})
        total = passed if total is None else _sum(total, passed)
    assert total is not None
    _save_changed(Picture(*total[1:]), folder / f"changed-{gang[0]:05d}.npz")


def _save_changed(total: Picture, path: Folder) -> None:
    """The cells that are not 0."""
    cells, said = np.flatnonzero(total.counts), np.flatnonzero(total.entering)
    changed: dict[str, Any] = {
        "cells": cells,
        "changes": total.counts.ravel()[cells],
        "said_cells": said,
        "entered": total.entering.ravel()[said],
        "load": total.load,
        "price": total.price,
    }
    save_arrays(path, changed)


def _sum(left: Passed, right: Passed) -> Passed:
    """What both have changed; seats are of the second alone."""
    counts, entering = left.counts + right.counts, left.entering + right.entering
    return Passed(right.part, counts, entering, left.load + right.load, left.price + right.price)


def _changed(picture: Picture, paths: list[Folder], blocks: int) -> Picture:
    """As `blocks.merged`, file by file: a driver holds one at a time, and two pictures."""
    price: Any = np.zeros(picture.price.shape)  # the sum is a double
    total = Picture(picture.counts.copy(), picture.entering.copy(), picture.load.copy(), price)
    for path in paths:
        _add(total, path)
    return total._replace(price=(price / blocks).astype(np.float32))


def _add(total: Picture, path: Folder) -> None:
    """What a file says has changed, in place."""
    found = load_arrays(path)
    total.counts.reshape(-1)[found["cells"]] += found["changes"]
    total.entering.reshape(-1)[found["said_cells"]] += found["entered"]
    for name in ("load", "price"):
        sums = getattr(total, name)
        sums += found[name]


def _sum_of(group: list[Folder]) -> Folder:
    return group[0].with_name(f"sum-{group[0].name}")


def _forget(path: Folder) -> None:
    path.unlink(missing_ok=True)


def _meeting(block: ClassBlock, part: Any, nodes: Any) -> tuple[Any, Any]:
    """For every class: how many clients each broker is to have of it, and how many it has."""
    local = np.full(int(nodes.max()) + 1, -1, np.int64)
    local[nodes] = np.arange(len(nodes))
    classes, count = len(block.member_starts) - 1, len(nodes)
    quota = np.bincount(block.class_of * count + part, block.number, classes * count).astype(np.int64)
    owner = np.repeat(np.arange(classes), np.diff(block.member_starts))
    there = np.bincount(owner * count + local[block.at], minlength=classes * count)
    return quota.reshape(classes, count), there.reshape(classes, count)


def _write_places(
    spark: SparkSession, roster: Roster, seated: list[tuple[Folder, int, int, Any]], target: Folder
) -> None:
    """Back from blocks to the parts of the roster."""
    from pyspark.sql import functions as sf

    starts = roster.starts

    def run(task: tuple[Folder, int, int, Any]) -> pa.Table:
        folder, block, number, names = task
        found = load_block(folder, block)
        node = members_placed(found, _seats(folder, number, block), names)
        order = np.argsort(found.members, kind="stable")
        client, node = found.members[order], node[order]
        cuts = np.searchsorted(client, starts)
        some = np.flatnonzero(np.diff(cuts)).tolist()
        rows = [(part, slice(cuts[part], cuts[part + 1])) for part in some]
        return pa.table(
            {
                "part": pa.array([part for part, _ in rows], pa.int32()),
                "client": pa.array([client[cut].tobytes() for _, cut in rows], pa.binary()),
                "node": pa.array([node[cut].astype(np.int32).tobytes() for _, cut in rows], pa.binary()),
            }
        )

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        client = np.concatenate([np.frombuffer(row["client"], np.int64) for row in rows])
        node = np.concatenate([np.frombuffer(row["node"], np.int32) for row in rows])
        order = np.argsort(client)
        write_seats(client[order], node[order], target, rows[0]["part"])
        yield pa.RecordBatch.from_pydict({"part": pa.array([rows[0]["part"]], pa.int32())})

    cut = task_frame(spark, seated, run, "part int, client binary, node binary")
    cut.repartitionById(roster.parts, sf.col("part")).mapInArrow(write, "part int").toArrow()


def members_placed(block: ClassBlock, part: Any, names: Any) -> Any:
    """The broker of every member: whoever is where the class has a place stays, the others fill what is left."""
    classes, brokers = len(block.member_starts) - 1, int(names.max()) + 1
    owner = np.repeat(np.arange(classes), np.diff(block.member_starts))
    place = np.repeat(block.class_of * brokers + names[part], block.number)  # one for each client, class by class
    place.sort()
    wish = owner * brokers + np.minimum(block.at, brokers - 1)
    wish[block.at >= brokers] = -1
    order = np.argsort(wish, kind="stable")
    nth = _nth(wish[order])
    offered = np.searchsorted(place, wish[order], side="right") - np.searchsorted(place, wish[order])
    stays = np.zeros(len(owner), bool)
    stays[order] = (nth < offered) & (wish[order] >= 0)
    taken = np.zeros(len(place), bool)
    kept = np.searchsorted(place, wish[order]) + nth
    taken[kept[(nth < offered) & (wish[order] >= 0)]] = True
    node = np.where(stays, block.at, -1).astype(np.int64)
    node[~stays] = place[~taken] % brokers  # both in the order of classes
    return node


def _nth(ascending: Any) -> Any:
    """How many equal ones come before each."""
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: len(ascending)])
    return np.arange(len(ascending)) - np.repeat(first, np.diff(np.append(first, len(ascending))))
