"""Who wants the same things: exact co-subscription counts and interest neighbours as Spark tasks.

The relation is compact (four bytes a pair), so it is not shuffled: workers map the same array files and each takes a
range of topics or a band of hashes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from coterie.errors import ConfigError
from coterie.kernels.interests import cosubscription, minhash
from coterie.model.relation import Relation
from coterie.pipeline.storage import write_rows
from coterie.pipeline.tasks import map_array, part_name, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = "part int, rows long"
SAVED_AT_ONCE = 4
Job = tuple[int, int, int]


@dataclass(frozen=True)
class Bands:
    """MinHash setting: a pair of similarity s agrees in some band with probability 1 - (1 - s^rows)^bands."""

    bands: int = 16
    rows: int = 4
    bucket_max: int = 50  # above it a bucket is a crowd, and only rows within `reach` of each other are paired
    reach: int = 8
    size_min: int = 2  # smaller interests say too little
    similarity_min: float = 0.5
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("bands", "rows", "bucket_max", "reach", "size_min"):
            if getattr(self, name) < 1:
                raise ConfigError(f"neighbours.{name}", getattr(self, name), "a whole number of at least 1")
        if not 0 <= self.similarity_min <= 1:
            raise ConfigError("neighbours.similarity_min", self.similarity_min, "between 0 and 1")


DEFAULT_BANDS = Bands()


def co_subscriptions(spark: SparkSession, interests: Relation, out: Path, count_min: int, tasks: int = 16) -> int:
    """Write parts of (topic_a, topic_b, subscribers) for topics sharing at least `count_min`; their number.

    A topic with fewer subscribers than the threshold cannot be in a pair and leaves before the counting.
    """
    if count_min < 1:
        raise ConfigError("count_min", count_min, "a whole number of at least 1")
    arrays = out / "arrays"
    sizes = np.bincount(interests.columns, minlength=interests.column_count)
    indptr, columns = cosubscription.without_columns(interests.indptr, interests.columns, sizes >= count_min)
    turned = cosubscription.transpose(indptr, columns, interests.column_count)
    _save(arrays, indptr=indptr, columns=columns, t_indptr=turned[0], t_rows=turned[1], t_places=turned[2])
    ranges = cosubscription.ranges_of_equal_work(
        cosubscription.pair_work(indptr, columns, interests.column_count), tasks
    )
    jobs = [(index, start, stop) for index, (start, stop) in enumerate(ranges)]
    found = run_tasks(spark, jobs, _count_range(arrays, out, count_min), REPORT)
    _drop(arrays)
    return int(found["rows"].to_numpy().sum())


def interest_neighbours(spark: SparkSession, interests: Relation, out: Path, bands: Bands = DEFAULT_BANDS) -> int:
    """Write parts of (subscriber_a, subscriber_b, similarity) for likely pairs above the threshold; their number."""
    arrays = out / "arrays"
    _save(arrays, indptr=interests.indptr, columns=interests.columns)
    shape = (bands.bands, interests.row_count)
    for name, dtype in (("hashes", np.uint64), ("ranks", np.int32), ("crowded", np.bool_)):
        # One file for all bands: each task fills its own row in place.
        np.lib.format.open_memmap(arrays / f"{name}.npy", "w+", dtype, shape)
    seeds = minhash.band_seeds(bands.bands, bands.rows, bands.seed)
    run_tasks(spark, range(bands.bands), _hash_band(arrays, seeds, bands), REPORT)
    found = run_tasks(spark, range(bands.bands), _pair_band(arrays, out, bands), REPORT)
    _drop(arrays)
    return int(found["rows"].to_numpy().sum())


def _count_range(arrays: Path, out: Path, count_min: int) -> Callable[[Job], pa.Table]:
    def work(job: Job) -> pa.Table:
        index, start, stop = job
        mapped = [map_array(arrays, name) for name in ("indptr", "columns", "t_indptr", "t_rows", "t_places")]
        a, b, counts = _call(cosubscription.count_pairs, *mapped, start, stop, count_min)
        write_rows(pa.table({"topic_a": a, "topic_b": b, "subscribers": counts}), out / part_name(index))
        return _report(index, len(a))

    return work


def _hash_band(arrays: Path, seeds: minhash.U64, bands: Bands) -> Callable[[int], pa.Table]:
    def work(band: int) -> pa.Table:
        hashes = _call(
            minhash.band_hashes, map_array(arrays, "indptr"), map_array(arrays, "columns"), seeds[band], bands.size_min
        )
        order, ranks, crowded = minhash.bucket_order(hashes, bands.bucket_max)
        for name, row in (("hashes", hashes), ("ranks", ranks), ("crowded", crowded)):
            whole = np.load(arrays / f"{name}.npy", mmap_mode="r+")
            whole[band] = row
            whole.flush()
        save_array(order, arrays, f"order-{band}")
        return _report(band, len(order))

    return work


def _pair_band(arrays: Path, out: Path, bands: Bands) -> Callable[[int], pa.Table]:
    def work(band: int) -> pa.Table:
        mapped = [map_array(arrays, name) for name in ("indptr", "columns", "hashes", "ranks", "crowded")]
        order = map_array(arrays, f"order-{band}")
        limits = (band, bands.reach, bands.similarity_min)
        a, b, similarity = _call(minhash.neighbours_in_band, *mapped, order, *limits)
        write_rows(pa.table({"subscriber_a": a, "subscriber_b": b, "similarity": similarity}), out / part_name(band))
        return _report(band, len(a))

    return work


def _call(function: Callable[..., Any], *arguments: object) -> Any:
    """Kernels are typed for exact array types; arrays from files carry only their generic type."""
    return function(*arguments)


def _report(part: int, rows: int) -> pa.Table:
    return pa.table({"part": pa.array([part], pa.int32()), "rows": pa.array([rows], pa.int64())})


def _save(folder: Path, **arrays: np.ndarray[Any, Any]) -> None:
    with ThreadPoolExecutor(SAVED_AT_ONCE) as pool:  # hundreds of megabytes, while the executors have nothing to do
        list(pool.map(lambda name: save_array(arrays[name], folder, name), arrays))


def _drop(folder: Path) -> None:
    for path in folder.glob("*.npy"):
        path.unlink()
    folder.rmdir()
