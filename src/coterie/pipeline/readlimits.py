"""How much of a stream is read at once: Spark's own words for it, which Spark 4.1 does not have for Python sources.

There a micro-batch takes all there is. Delta and Iceberg come to a new Spark months after it: who has them runs 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "SupportsTriggerAvailableNow"]

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            SupportsTriggerAvailableNow,
        )
    except ImportError:

        class ReadLimit:
            """Never asked for there."""

        class ReadAllAvailable(ReadLimit):
            """All that is there."""

        class ReadMaxBytes(ReadLimit):
            """At most so many bytes."""

            def __init__(self, max_bytes):
                self.max_bytes = max_bytes

        class SupportsTriggerAvailableNow:
            """What is there when the run begins, and nothing after it."""
