"""One that keeps for this node, as `keeping` sees it: what it has, and since when it owes an answer."""

from __future__ import annotations


class CopyKeeper:
    """`acked` is what it has; it counts only while `is_current`.

    What it answered before `asked`, by number, counts no more: it may have forgotten since then what it had.
    """

    __slots__ = ("acked", "asked", "fill", "is_current", "leaves", "reached_s", "waits_s")

    def __init__(self, now_s: float, asked: int) -> None:
        self.acked, self.asked = -1, asked
        self.is_current = False
        self.waits_s: float | None = now_s  # since when an answer is due
        self.leaves = 0  # with this batch of the node's own leaves what is to be answered; 0: that was not looked at
        self.reached_s = 0.0  # since when its link is there
        self.fill: list[tuple[int, int]] = []  # stretches of the log that it lacks, the first one next

    @property
    def is_new(self) -> bool:
        """It has nothing yet, and has not answered what it has."""
        return self.acked < 0 and not self.is_current

    def put_off(self, now_s: float, held_batch: int, persisted: int) -> bool:
        """Whether what it is to answer has not left yet, for it waits for the node's own disk: nothing is due then."""
        if self.waits_s is None:
            return False
        self.leaves = self.leaves or held_batch
        if persisted < self.leaves:
            self.waits_s = now_s
        return persisted < self.leaves
