"""Derive the embedded data set from the Debian package index in the traces folder.

Machines follow the source packages of everything installed on them: a few programs picked by popularity, and all that
those depend on. Uploads of those source packages are the publications. Run it as `python scripts/embed_debian.py`; the
result is committed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.pipeline.session import open_session
from coterie.pipeline.shapes import Choices, find_trace, read_shape

MACHINES = 600
TARGET = Path(__file__).resolve().parent.parent / "src" / "coterie" / "pipeline" / "debian"
FIRST_YEAR = 2012  # older uploads say little about today's rates


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
        uploads = pq.read_table(Path(folder) / "publications", columns=["publisher", "topic", "time"])
    spark.stop()
    installed, uploads = plain(installed), plain(uploads)
    uploads = uploads.filter(pc.greater_equal(pc.year(uploads["time"]), FIRST_YEAR))
    published = pc.unique(uploads["topic"])
    # Only packages whose uploads are known: the others would need invented rates.
    installed = installed.filter(pc.is_in(installed["topic"], value_set=published))
    uploads = uploads.filter(pc.is_in(uploads["topic"], value_set=pc.unique(installed["topic"])))
    TARGET.mkdir(exist_ok=True)
    for name, table, order in (
        ("subscriptions", installed, [("subscriber", "ascending"), ("topic", "ascending")]),
        ("publications", uploads, [("time", "ascending"), ("topic", "ascending")]),
    ):
        pq.write_table(table.sort_by(order), TARGET / f"{name}.parquet", compression="zstd", compression_level=19)


if __name__ == "__main__":
    main()
