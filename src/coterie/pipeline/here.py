"""Small logs are worked on in this process, by the very functions that Spark would ship to its workers.

Starting a JVM and a few workers takes longer than reading some hundred thousand rows. What only Spark can do still
starts it, late: this decides where functions run, never what they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coterie.pipeline.files import find_files, list_files
from coterie.pipeline.mapping import Source
from coterie.pipeline.storage import Remote

if TYPE_CHECKING:
    from coterie.pipeline.job import Request

SMALL_BYTES = 16 << 20  # of plain text, some hundred thousand rows
SMALL_FILES = 10_000  # so many are better read side by side
PACKED_TIMES = 4  # what compressed bytes come to


class NoSession:
    """Stands for a session that is never opened: all is done here."""

    is_here = True


def is_here(spark: Any) -> bool:
    """Whether this session stands for one that is better not opened."""
    return bool(getattr(spark, "is_here", False))


def is_small(request: Request) -> bool:
    """Whether all of a log's files together are quickly read by one process."""
    from coterie.pipeline.catalogs import tables_of  # which reads tables, which asks here

    if request.trace is not None or request.is_crowd:
        return False
    return not any(map(tables_of, request.sources)) and _plain_bytes(request.sources) <= SMALL_BYTES


def _plain_bytes(sources: Sequence[Source]) -> float:
    listed = [one for source in sources for one in list_files(source)]
    if any(isinstance(one.where, Remote) for one in listed):
        return float("inf")
    if len(listed) > SMALL_FILES or sum(one.status.st_size for one in listed) > SMALL_BYTES:
        return float("inf")  # no need to look into them
    files = [file for source in sources for file in find_files(source)]
    return sum(_plain(file.size_bytes, bool(file.compression) or file.format == "parquet") for file in files)


def _plain(size: int, is_packed: bool) -> int:
    return size * (PACKED_TIMES if is_packed else 1)
