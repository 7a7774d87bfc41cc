"""The embedded data set: update notices for Debian packages, sent to machines and dashboards by eight brokers.

Derived from Debian's package index by scripts/embed_debian.py, which says what of it is real and what is drawn.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from coterie.pipeline.job import Request
from coterie.pipeline.mapping import Source


def embedded_request(is_peers: bool = False) -> Request:
    with as_file(files("coterie.pipeline").joinpath("debian")) as folder:
        tables = ("subscriptions", "publications") if is_peers else ("subscriptions", "publications", "nodes")
        sources = tuple(
            Source((str(folder / f"{name}.parquet"),), name, topics="plain")  # g++ is no filter
            for name in tables
        )
    return Request("debian-updates", sources=sources)
