"""Who subscribes to what another one here is just subscribing to waits for the same word: a filter is told to the
network once, so the second SUBACK is true no sooner than the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class SpreadingFilters:
    """Filters whose interest is on its way to the other nodes, and who waits for them."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def begin(self, filters: Iterable[str], done: Callable[[], None]) -> Callable[[], None]:
        """Call what it returns when all that these filters caused is over; `done` follows when others' is, too."""
        names = dict.fromkeys(filters)
        under_way = [one for one in names if one in self._waiting]
        own = [one for one in names if one not in self._waiting]
        left = 1 + len(under_way)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        def over() -> None:
            ready = [waiting for one in own for waiting in self._waiting.pop(one)]
            one_less()
            for waiting in ready:
                waiting()

        for one in own:
            self._waiting[one] = []
        for one in under_way:
            self._waiting[one].append(one_less)
        return over
