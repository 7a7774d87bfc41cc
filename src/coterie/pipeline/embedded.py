"""The embedded data set: machines, the Debian packages on them, and the uploads of those packages.

Derived from Debian's package index by scripts/embed_debian.py: install sets are drawn closures over the real
dependency graph, uploads are real.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from coterie.pipeline.job import Request
from coterie.pipeline.mapping import Source


def embedded_request() -> Request:
    with as_file(files("coterie.pipeline").joinpath("debian")) as folder:
        tables = ("subscriptions", "publications")
        sources = tuple(
            Source((str(folder / f"{name}.parquet"),), name, topics="plain")  # g++ is no filter
            for name in tables
        )
    return Request("debian", sources=sources)
