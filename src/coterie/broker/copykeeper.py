"""One that keeps for this node, as `keeping` sees it: what it has, and since when it owes an answer."""

from __future__ import annotations

from coterie.broker.links import PeerLinks

SILENT_S = 2.0  # a keeper that says nothing for so long is replaced, if there is another


class CopyKeeper:
    """`acked` is what it has; it counts only while `is_current`, and unless it `lacks_tail`: the end of the log of the
    node's last life, which the node may have alone.

    What it answered before `asked`, by number, counts no more: it may have forgotten since then what it had.
    """

    __slots__ = ("acked", "asked", "fill", "is_current", "lacks_tail", "leaves", "reached_s", "waits_s")

    def __init__(self, now_s: float, asked: int) -> None:
        self.acked, self.asked = -1, asked
        self.is_current = self.lacks_tail = False
        self.waits_s: float | None = now_s  # since when an answer is due
        self.leaves = 0  # with this batch of the node's own leaves what is to be answered; 0: that was not looked at
        self.reached_s = 0.0  # since when its link is there
        self.fill: list[tuple[int, int]] = []  # stretches of the log that it lacks, the first one next

    @property
    def is_new(self) -> bool:
        """It has nothing yet, and has not answered what it has."""
        return self.acked < 0 and not self.is_current

    @property
    def counts(self) -> bool:
        return self.is_current and not self.lacks_tail

    def is_back(self, now_s: float) -> bool:
        """Whether its link came only just now, however long that took: its answer is on its way."""
        return now_s - self.reached_s <= SILENT_S


def put_off(keepers: dict[int, CopyKeeper], links: PeerLinks, now_s: float) -> bool:
    """Whether what some are to answer waits for this node's own disk: then nothing is due, and nobody is silent."""
    is_any = False
    for peer, one in keepers.items():
        if one.waits_s is not None and links.is_connected(peer):
            one.leaves = one.leaves or links.held_for(peer)
            if links.persisted < one.leaves:
                one.waits_s, is_any = now_s, True
    return is_any
