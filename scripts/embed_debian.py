"""Derive the embedded data set from the Debian package index: update notices to a fleet of machines and dashboards.

Machines follow the source packages of everything installed on them: a few programs picked by popularity, and all that
those depend on; each section of the archive has a dashboard, and one watches everything. Uploads of those packages are
the publications, of the size of their changelogs; twelve years of them pass in about an hour, so that the fleet has the
traffic of a busy site. Eight brokers stand in three zones. Packages, dependencies, uploads and sizes are real, machines
and dashboards are drawn. Run it as `python scripts/embed_debian.py`; the result is committed.
"""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.pipeline.session import open_session
from coterie.pipeline.shapes import Choices, find_trace, read_shape

MACHINES = 600
TARGET = Path(__file__).resolve().parent.parent / "src" / "coterie" / "pipeline" / "debian"
FIRST_YEAR = 2012  # older uploads say little about today's rates
FASTER = 100_000  # times as fast as it happened
BROKERS, ZONES = 8, ("north", "south", "west")


def sections() -> dict[str, str]:
    """Source package -> the section most of its packages are in."""
    counts: Counter[tuple[str, str]] = Counter()
    with gzip.open(find_trace("debian").parent / "debian12_packages.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            counts[row["source"], row["section"].rpartition("/")[2]] += 1
    found: dict[str, str] = {}
    for (source, section), _ in sorted(counts.items(), key=lambda told: (-told[1], told[0])):
        found.setdefault(source, section)
    return found


def renamed(table: pa.Table, names: dict[str, str]) -> pa.Table:
    at = table.column_names.index("topic")
    topics = pa.array([names[topic] for topic in table["topic"].to_pylist()])
    return table.set_column(at, "topic", topics)


def plain(table: pa.Table) -> pa.Table:
    """Dictionary columns as text."""
    texts = {name: table[name] for name in table.column_names}
    return pa.table(
        {name: col.cast(pa.string()) if pa.types.is_dictionary(col.type) else col for name, col in texts.items()}
    )


def main() -> None:
    spark = open_session()
    with tempfile.TemporaryDirectory() as folder:
        read_shape(spark, find_trace("debian"), Path(folder), Choices(seed=12, subscribers=MACHINES))
        installed = pq.read_table(Path(folder) / "subscriptions", columns=["subscriber", "topic"])
        uploads = pq.read_table(Path(folder) / "publications", columns=["publisher", "topic", "time", "bytes"])
    spark.stop()
    installed, uploads = plain(installed), plain(uploads)
    uploads = uploads.filter(pc.greater_equal(pc.year(uploads["time"]), FIRST_YEAR))
    published = pc.unique(uploads["topic"])
    # Only packages whose uploads are known: the others would need invented rates.
    installed = installed.filter(pc.is_in(installed["topic"], value_set=published))
    uploads = uploads.filter(pc.is_in(uploads["topic"], value_set=pc.unique(installed["topic"])))
    section = sections()
    names = {
        topic: f"updates/{section.get(topic, 'other')}/{topic}" for topic in pc.unique(uploads["topic"]).to_pylist()
    }
    installed, uploads = renamed(installed, names), renamed(uploads, names)
    watched = sorted({name.split("/")[1] for name in names.values()})
    dashboards = pa.table(
        {
            "subscriber": [*(f"dashboard {one}" for one in watched), "dashboard"],
            "topic": [*(f"updates/{one}/#" for one in watched), "updates/#"],
        }
    )
    installed = pa.concat_tables([installed, dashboards.cast(installed.schema)])
    start = pc.min(uploads["time"]).cast(pa.int64()).as_py()
    microseconds = pc.subtract(uploads["time"].cast(pa.int64()), start).to_numpy() // FASTER
    at = uploads.column_names.index("time")
    uploads = uploads.set_column(at, "time", pa.array(start + microseconds).cast(uploads["time"].type))
    brokers = pa.table(
        {
            "node": [f"broker-{number}" for number in range(BROKERS)],
            "zone": [ZONES[number % len(ZONES)] for number in range(BROKERS)],
        }
    )
    TARGET.mkdir(exist_ok=True)
    for name, table, order in (
        ("nodes", brokers, [("node", "ascending")]),
        ("subscriptions", installed, [("subscriber", "ascending"), ("topic", "ascending")]),
        ("publications", uploads, [("time", "ascending"), ("topic", "ascending")]),
    ):
        pq.write_table(table.sort_by(order), TARGET / f"{name}.parquet", compression="zstd", compression_level=19)


if __name__ == "__main__":
    main()
