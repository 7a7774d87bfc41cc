"""A stream delivers a prefix of what was sent, in order, whatever holds or breaks it."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from coterie.sim.world.chance import Chance
from coterie.sim.world.streams import Stream


class Clock:
    """An agenda and nothing else."""

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time_us, len(self._heap) + self.now_us, action))

    def run(self, until_us: int) -> None:
        while self._heap and self._heap[0][0] <= until_us:
            self.now_us, _, action = heapq.heappop(self._heap)
            action()
        self.now_us = until_us


@given(
    st.integers(0, 1000),
    st.lists(st.sampled_from(("send", "wait", "hold", "release")), min_size=1, max_size=40),
    st.none() | st.floats(0, 0.999),
)
def test_what_arrives_is_a_prefix_of_what_was_sent(seed: int, steps: list[str], torn: float | None) -> None:
    clock, got, ended = Clock(), bytearray(), []
    stream = Stream(clock, Chance(seed, "stream"), 1000, got.extend)
    stream.on_end = lambda: ended.append(True)
    sent = b""
    for number, step in enumerate(steps):
        match step:
            case "send":
                data = bytes([number]) * (1 + number % 5)
                sent += data
                stream.send(data)
            case "wait":
                clock.run(clock.now_us + 700)
            case "hold":
                stream.hold("partition")
            case "release":
                stream.release("partition")
        assert sent.startswith(got)
    if torn is None:
        stream.end()
        stream.release("partition")
        clock.run(clock.now_us + 10**9)
        assert bytes(got) == sent
        assert ended
        assert stream.unread_bytes == 0
    else:
        stream.tear(torn)
        before = bytes(got)
        assert sent.startswith(before)
        stream.send(b"more")
        clock.run(clock.now_us + 10**9)
        assert bytes(got) == before
        assert not ended
