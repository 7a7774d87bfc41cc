"""One million MQTT filters against a hundred thousand topics: on Spark, and by a broker's own index in one process.

    python benchmarks/bench_filters.py
    python benchmarks/bench_filters.py --filters 1e5 --topics 1e4

Half of the filters are names, the others have wildcards; a tenth is shared. Prints seconds, the peak of resident memory
and the ratio of the two (below 1: Spark is faster); both must find the same pairs.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.pipeline.filters import bodies_of, match_filters
from coterie.pipeline.session import open_session

KINDS = ("temp", "humidity", "state", "alarm", "power")


def drawn(filter_count: int, topic_count: int, seed: int) -> tuple[list[str], list[str]]:
    """Topics site/line/device/kind; filters leave out any of the levels or stop before the end."""
    draw = np.random.default_rng(seed)
    device_count = -(-topic_count // len(KINDS))
    device = [f"site{n % 100}/line{n // 100 % 20}/dev{n}" for n in range(device_count)]
    topics = [f"{device[n // len(KINDS)]}/{KINDS[n % len(KINDS)]}" for n in range(topic_count)]
    found: dict[str, None] = {}
    while len(found) < filter_count:
        for n in draw.integers(0, topic_count, filter_count).tolist():
            site, line, dev, kind = topics[n].split("/")
            shape = draw.random()
            if shape < 0.5:
                body = topics[n] if shape < 0.1 else f"{site}/{line}/{dev}{n}/{kind}"  # many names are never published
            elif shape < 0.7:
                body = f"{site}/+/{dev}/{kind}"
            elif shape < 0.8:
                body = f"{site}/{line}/{dev}/#"
            elif shape < 0.9:
                body = f"+/{line}/{dev}/+"
            else:
                body = f"{site}/{line}/+/{kind}" if shape < 0.901 else f"+/+/{dev}/{kind}"
            shared = f"$share/g{int(draw.integers(50))}/" if draw.random() < 0.5 else ""
            found[shared + body] = None
            if len(found) == filter_count:
                break
    return list(found), topics


def by_index(filters: list[str], topics: list[str]) -> int:
    """How many (filter, topic) pairs a broker's index finds."""
    index: SubscriptionIndex[str] = SubscriptionIndex(topic_count_max=1)
    for one in filters:
        index.subscribe(one, Subscription(one))
    matches = map(index.matches, topics)
    return sum(len(match.receivers) + sum(len(group.members) for group in match.groups) for match in matches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filters", type=float, default=1e6)
    parser.add_argument("--topics", type=float, default=1e5)
    choices = parser.parse_args()
    filters, topics = drawn(int(choices.filters), int(choices.topics), 1)
    spark = open_session("local[2]")
    spark.range(10).mapInArrow(lambda batches: batches, "id long").toArrow()  # start the workers
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        relation = match_filters(spark, pa.array(filters), pa.array(topics), Path(folder))
        ours_s = time.perf_counter() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spark.stop()
    began = time.perf_counter()
    pairs = by_index(filters, topics)
    index_s = time.perf_counter() - began
    assert relation.pair_count == pairs, f"{relation.pair_count} pairs here, {pairs} by the index"
    distinct = len(set(bodies_of(pa.array(filters)).to_pylist()))
    print(f"{len(filters):,} filters ({distinct:,} without their groups), {len(topics):,} topics, {pairs:,} matches")
    print(f"on Spark          {ours_s:6.1f} s   driver at most {peak_mb:,.0f} MB")
    print(f"a broker's index  {index_s:6.1f} s   one process")
    print(f"Spark : index = {ours_s / index_s:.2f}")


if __name__ == "__main__":
    main()
