"""Looks at something now and then while other work runs, to tell how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def polled(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `look` from a thread of its own, until the body is done."""
    finished = threading.Event()

    def poll() -> None:
        while not finished.wait(every_s):
            look()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
