"""Frame-to-frame functions shared by batch and stream: events by window, EWMA rates, change sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ALPHA = 0.3  # alpha_pub, DYNATOPS section 5.1
FORGOTTEN = 1e-30  # a rate so low that adding one event to it gives the same bits as starting anew
BETA = 0.1  # the share of a complete change from which a plan is worth a look, same section


def window_index(time: Column, window_s: float, origin_s: float = 0.0) -> Column:
    """The number of the window that a timestamp falls into; window k is [origin + k w, origin + (k+1) w)."""
    from pyspark.sql import functions as sf

    if window_s <= 0:
        raise ConfigError("window_s", window_s, "a positive number of seconds")
    # Whole microseconds: floating seconds would move events that sit on a border.
    offset = sf.unix_micros(time) - sf.lit(round(origin_s * 1e6)).cast("long")
    width = sf.lit(round(window_s * 1e6)).cast("long")
    return ((offset - sf.pmod(offset, width)) / width).cast("long")


def events_by_window(publications: DataFrame, window_s: float, origin_s: float = 0.0) -> DataFrame:
    """(topic, window, events, bytes): a busy topic is combined before the shuffle, so it cannot sink a task."""
    from pyspark.sql import functions as sf

    return (
        publications.where(sf.col("time").isNotNull())
        .groupBy("topic", window_index(sf.col("time"), window_s, origin_s).alias("window"))
        .agg(sf.sum("count").alias("events"), sf.sum("bytes").alias("bytes"))
    )


def ewma(rates: NDArray[np.float64], observed: NDArray[np.float64], alpha: float = ALPHA) -> NDArray[np.float64]:
    """DYNATOPS eq. 8: R' = (1 - alpha) R + alpha r."""
    return (1.0 - alpha) * rates + alpha * observed


def decayed(rates: NDArray[np.float64], silent: NDArray[np.int64], alpha: float = ALPHA) -> NDArray[np.float64]:
    """Rates after so many windows without events each: step by step, so that the bits are those of `ewma`."""
    found = rates.copy()
    step = 0
    while (is_falling := (silent > step) & (found >= FORGOTTEN)).any():
        found[is_falling] *= 1.0 - alpha
        step += 1
    return found


def ewma_rates(events: pa.Table, topics: pa.Array, first: int, last: int, alpha: float = ALPHA) -> NDArray[np.float64]:
    """Rates expected for window `last` + 1, in events per window, from the windows first..last of `events_by_window`.

    The estimate starts from what the first window showed. Windows are taken in order with the very step that the
    stream uses, so both give the same bits.
    """
    if not 0 < alpha <= 1:
        raise ConfigError("alpha", alpha, "above 0 and at most 1")
    inside = pc.and_(pc.greater_equal(events["window"], first), pc.less_equal(events["window"], last))
    listed = events.filter(inside)
    topic = pc.fill_null(pc.index_in(listed["topic"], value_set=topics), -1).to_numpy().astype(np.int64)
    window = listed["window"].to_numpy()
    observed = listed["events"].to_numpy().astype(np.float64)
    order = np.lexsort((topic, window))
    order = order[topic[order] >= 0]
    topic, window, observed = topic[order], window[order], observed[order]
    bounds = np.searchsorted(window, np.arange(first, last + 2))
    rates = np.zeros(len(topics))
    for step in range(last + 1 - first):
        now = slice(bounds[step], bounds[step + 1])
        events = np.zeros(len(topics))
        np.add.at(events, topic[now], observed[now])
        rates = events if step == 0 else ewma(rates, events, alpha)
    return rates
