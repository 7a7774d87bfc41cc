"""A Spark session that is opened when somebody uses it first, or in the background if that will surely happen.

Starting the JVM takes seconds. A run of which everything is kept never needs it; one that needs it has other things to
do meanwhile (looking at files, loading kernels).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.pipeline.job import Request


class LateSession:
    """Stands for the session: whatever is asked of it is asked of the session, which is opened for that."""

    def __init__(
        self, master: str = "local[*]", opened: Callable[[str], SparkSession] | None = None, *, is_small: bool = False
    ) -> None:
        self._master, self._open, self._close = master, opened or _open, _close if opened is None else _stop
        self.is_here = is_small and master.startswith("local[") and not _is_submitted()  # see pipeline.here
        self._lock = threading.Lock()
        self._future: Future[SparkSession] | None = None

    @property
    def master_url(self) -> str:
        """Known before it is opened."""
        return self._master

    @property
    def is_open(self) -> bool:
        """Whether it can be asked without waiting."""
        return self._future is not None and self._future.done() and self._future.exception() is None

    def begin(self) -> None:
        """Open it in the background; errors are told to who uses it first."""
        with self._lock:
            if self._future is None:
                pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
                self._future = pool.submit(self._open, self._master)
                pool.shutdown(wait=False)

    def session(self) -> SparkSession:
        """Opened if it is not yet; whoever has to wait loads meanwhile what planning needs besides Spark."""
        self.begin()
        assert self._future is not None
        if not self._future.done():
            import coterie.accounting.price
            import coterie.systems  # noqa: F401
        return self._future.result()

    def stop(self) -> None:
        """Nothing to do where it was never opened."""
        if self._future is not None and (not self._future.done() or self._future.exception() is None):
            self._close(self._future.result())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.session(), name)


@contextmanager
def session_for(request: Request, master: str) -> Iterator[Any]:
    """A session for what a request reads, none if that is little; stopped afterwards."""
    from coterie.pipeline.here import is_small

    session = LateSession(master, is_small=is_small(request))
    try:
        yield session
    finally:
        session.stop()


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ  # as session.is_submitted, which loads pyspark


def _open(master: str) -> SparkSession:
    from coterie.pipeline.session import open_session

    return open_session(master)


def _close(session: SparkSession) -> None:
    from coterie.pipeline.session import close_session

    close_session(session)


def _stop(session: SparkSession) -> None:
    session.stop()
