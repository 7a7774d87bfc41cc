"""The process that Spark forks its Python workers from: it loads and compiles what they need once, before the fork."""

from __future__ import annotations

import importlib

PRELOADED = ("numpy", "pandas", "pyarrow.compute", "pyarrow.parquet", "coterie.pipeline.similarity")
KERNEL_MODULES = ("coterie.kernels.cosubscription", "coterie.kernels.minhash", "coterie.kernels.filtermatch")


def preload() -> None:
    """Import the libraries and call every kernel once, so that a forked worker starts with machine code in memory."""
    for name in PRELOADED:
        importlib.import_module(name)
    for name in KERNEL_MODULES:
        importlib.import_module(name).warm()


if __name__ == "__main__":
    from pyspark import daemon

    preload()
    daemon.manager()  # type: ignore[no-untyped-call,unused-ignore]
