"""Steps 3.1 and 3.2 of the reconfiguration protocol at one broker: tables change hands, then trees fit subscriptions.

The tree tables are kept by position: who moves sends its table to whoever takes its old position in the new plane. Then
every broker tells its children of the new plane, in one message each, which trees they hang on. An edge counts only
once the child knows it; whatever is missing after that (changes that crossed the handover, brokers that are new) is
joined like any other subscription in step 3.2, so nothing here has to be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.model.plan import Topic
from coterie.protocol.node import OverlayNode
from coterie.substrate.identifiers import topic_key
from coterie.systems.dynatops.messages import TREE_HOPS_MAX, Adopt, Handover, HandoverTaken
from coterie.systems.dynatops.plane import RingPlane

ATTEMPTS_MAX = 6  # then the table is given up: step 3.2 builds what it would have held

Table = tuple[tuple[Topic, tuple[int, ...]], ...]


class Transfer:
    """The handover of one switch at one broker."""

    def __init__(self, node: OverlayNode, old: RingPlane, new: RingPlane, retry_s: float) -> None:
        self._node = node
        self._old = old
        self._new = new
        self._retry_s = retry_s
        self._attempts = 0
        self._is_moved = old.router.position != new.router.position
        self._table: Table = ()
        self._is_sent = not self._is_moved  # our table is where it belongs
        self._has_own = not self._is_moved  # the table of our new position is here
        self._unaware: dict[int, tuple[tuple[Topic, int], ...]] = {}  # children that have not confirmed yet

    @property
    def is_done(self) -> bool:
        return self._is_sent and self._has_own and not self._unaware

    def begin(self) -> None:
        self._table = self._tabulated()
        if self._is_moved:
            self._hand_over()
        else:
            self._install(self._table)
        self._node.set_timer(("transfer", self._new.version), self._retry_s)

    def _tabulated(self) -> Table:
        """Our part of the old plane's trees, children by position; of those whose position we do not know, none."""
        position_of = self._old.router.position_of
        rows = []
        for topic, branch in self._old.branches.items():
            known = [position for child in branch.children if (position := position_of(child)) is not None]
            rows.append((topic, tuple(known)))
        return tuple(rows)

    def _hand_over(self) -> None:
        towards = self._new.router.next_hop(self._old.router.position)
        if towards is None:
            self._is_sent = True  # nobody else takes the position: it is ours or nobody's
        else:
            self._node.send(
                towards, Handover(self._new.version, self._node.address, self._old.router.position, self._table)
            )

    def route(self, message: Handover) -> None:
        """Pass somebody's table on, or take it if the position is ours."""
        towards = self._new.router.next_hop(message.position)
        if towards is not None:
            if message.hops < TREE_HOPS_MAX:
                onward = Handover(message.version, message.origin, message.position, message.table, message.hops + 1)
                self._node.send(towards, onward)
            return
        self._node.send(message.origin, HandoverTaken(message.version))
        if message.position == self._new.router.position and not self._has_own:
            self._has_own = True
            self._install(message.table)

    def _install(self, table: Table) -> None:
        edges: dict[int, list[tuple[Topic, int]]] = {}
        for topic, positions in table:
            for position in positions:
                child = self._new.router.next_hop(position)
                if child is not None and self._new.router.position_of(child) == position:
                    epoch = self._new.add_child(topic, child)
                    edges.setdefault(child, []).append((topic, epoch))
        self._unaware = {child: tuple(rows) for child, rows in edges.items()}
        self._tell_children()

    def _tell_children(self) -> None:
        for child, rows in self._unaware.items():
            self._node.send(child, Adopt(self._new.version, rows))

    def taken(self) -> None:
        self._is_sent = True

    def adopted(self, child: int) -> None:
        self._unaware.pop(child, None)

    def on_timer(self) -> None:
        self._attempts += 1
        if self._attempts > ATTEMPTS_MAX:
            self._is_sent = self._has_own = True
            self._unaware = {}
        if self.is_done:
            return
        if not self._is_sent:
            self._hand_over()
        self._tell_children()
        self._node.set_timer(("transfer", self._new.version), self._retry_s)

    def repair(self, wants: Iterable[Topic]) -> None:
        """Step 3.2: leave what nobody needs, join what is missing; from now on the plane follows the subscriptions."""
        plane = self._new
        plane.is_open = True
        for topic in list(plane.branches):
            if plane.needs(topic):
                plane.enter(topic)
            else:
                plane.leave(topic)
        for topic in sorted(wants, key=topic_key):
            plane.enter(topic)
