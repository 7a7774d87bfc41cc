"""The process that Spark forks its Python workers from: it loads and compiles what they need once, before the fork."""

from __future__ import annotations

import gc
import importlib
import socket
import sys
from collections.abc import Callable

PRELOADED = ("numpy", "pandas", "pyarrow.compute", "pyarrow.parquet", "pyspark.worker", "coterie.pipeline.journal")
KERNEL_MODULES = (
    "coterie.kernels.interests.cosubscription",
    "coterie.kernels.interests.minhash",
    "coterie.kernels.interests.filtermatch",
    "coterie.kernels.rings.linkage",
    "coterie.kernels.interests.texthash",
)


def preload(worker: str) -> None:
    """Import the libraries and call every kernel once, so that a forked worker starts with machine code in memory.

    Spark starts one such process for each kind of worker; those that only plan a data source never meet a kernel.
    """
    for name in (*PRELOADED, worker):
        importlib.import_module(name)
    if worker == "pyspark.worker":
        for name in KERNEL_MODULES:
            importlib.import_module(name).warm()


def served(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """The worker, ending without a word where Spark has hung up: it has what it wanted, or has failed the task."""

    def serve(connection: socket.socket, is_authenticated: bool) -> int:
        try:
            return worker(connection, is_authenticated)
        except BrokenPipeError:
            sys.unraisablehook = lambda unraisable: None  # Python 3.13 tells of a buffer that could not be flushed
            return 1

    return serve


if __name__ == "__main__":
    from pyspark import daemon

    daemon.worker = served(daemon.worker)  # type: ignore[assignment,unused-ignore]
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    # Workers collect garbage after every task; going through all that was loaded here would take 0.1 s each time.
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call,unused-ignore]
