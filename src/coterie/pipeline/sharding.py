"""The stream's state in Spark's own state store: lines in, what the shards tell out (transformWithState, RocksDB)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from coterie.pipeline.clock import TimeRules
from coterie.pipeline.portions import Portion, told_to_shards
from coterie.pipeline.shards import PARTS, Shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

REPORT = "shard int, window bigint, told binary"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ONLY_CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ASKING = "transform_with_state_driver_worker"
_portion_of = msgspec.msgpack.Decoder(Portion).decode


class StoredMap:
    """One variable of a shard, in the state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, key: int) -> bytes | None:
        found = self._state.getValue((key,))
        return None if found is None else bytes(found[0])

    def put(self, key: int, value: bytes) -> None:
        self._state.updateValue((key,), (value,))

    def remove(self, key: int) -> None:
        self._state.removeKey((key,))

    def items(self) -> Iterator[tuple[int, bytes]]:
        return ((key[0], bytes(value[0])) for key, value in self._state.iterator())


class ShardProcessor(StatefulProcessor):
    """Spark calls it for every shard in every micro-batch: each portion has something for each shard."""

    def __init__(self, alpha: float, rules: TimeRules) -> None:
        self.alpha = alpha
        self.rules = rules

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Where Spark only asks which variables there are, its worker tells every step of that on standard error."""
        self.__dict__.update(state)
        if str(getattr(sys.modules["__main__"].__spec__, "name", "")).endswith(ASKING):
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- until the process ends

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.kept = {name: StoredMap(handle.getMapState(name, "key bigint", "value binary")) for name in PARTS}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        from pyspark.sql import Row

        portions = [_portion_of(row["told"]) for row in rows]
        for window, told in Shard(key[0], self.kept, self.alpha, self.rules).take(portions):
            yield Row(shard=key[0], window=window, told=told)

    def close(self) -> None:
        pass


def reports(lines: DataFrame, window_s: float, shards: int, alpha: float, rules: TimeRules) -> DataFrame:
    """(shard, window, told): how things stand after windows that matter, and how far each shard is."""
    told = told_to_shards(lines, window_s, shards)
    return told.groupBy("shard").transformWithState(ShardProcessor(alpha, rules), REPORT, "Update", "None")


def use_state_store(spark: SparkSession) -> None:
    """RocksDB, which transformWithState needs; a micro-batch writes what it has changed."""
    if "rocksdb" not in str(spark.conf.get(PROVIDER, "")).lower():
        spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(ONLY_CHANGES, "true")
