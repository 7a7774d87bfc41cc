"""Who wants what: the filters that local clients have, told to the network, and what other nodes announced.

A filter without wildcards is a topic of the overlay. A filter with wildcards is a channel of its own, named like the
filter: its node joins that channel, all nodes are told the filter, and whoever publishes a topic that matches
publishes on the channel as well. So a topic that nobody has used before needs no preparation (decision 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from coterie.broker.carried import TIME_BITS, TIME_MASK, origin_of
from coterie.broker.frames import WantedFilters, Wished
from coterie.broker.marks import Marks
from coterie.broker.planes import ControlPlanes
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import WISHES, Saved, Since
from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.topics import filter_matches, has_wildcard, split_shared

NEVER_AGAIN = 1 << 62  # a version above all others
MARGIN_US = 50_000  # clocks drift; the estimate of when something was published is otherwise never too early


def is_local(topic_filter: str) -> bool:
    """Topics of the node itself ($SYS and the like) do not leave it."""
    return topic_filter.startswith("$")


class RemoteFilters:
    """The wildcard filters of the other nodes; `matching` is one look-up for a topic asked before."""

    def __init__(self) -> None:
        self.of_node: dict[int, WantedFilters] = {}
        self._count: dict[str, int] = {}
        self._index: SubscriptionIndex[str] = SubscriptionIndex()
        self._channels: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._count)

    def learn(self, said: WantedFilters) -> bool:
        """Take a node's word if it is newer than what is known; True if it was."""
        before = self.of_node.get(said.node)
        if before is not None and before.version >= said.version:
            return False
        self.of_node[said.node] = said
        for topic_filter in said.filters:
            self._count[topic_filter] = self._count.get(topic_filter, 0) + 1
            if self._count[topic_filter] == 1:
                self._index.subscribe(topic_filter, Subscription(topic_filter))
        for topic_filter in before.filters if before is not None else ():
            self._count[topic_filter] -= 1
            if not self._count[topic_filter]:
                del self._count[topic_filter]
                self._index.unsubscribe(topic_filter, topic_filter)
        self._channels.clear()
        return True

    def forget(self, node: int) -> None:
        """It is no member any more, and wants nothing."""
        self.learn(WantedFilters(node, NEVER_AGAIN, ()))

    def nodes_sharing(self, share: str) -> list[int]:
        """The other nodes with members of a shared subscription ("name/filter"), in order."""
        return sorted(said.node for said in self.of_node.values() if share in said.shares)

    def channels(self, topic: str) -> tuple[str, ...]:
        """Where a publication goes: its own topic, then every announced filter that matches it."""
        found = self._channels.get(topic)
        if found is None:
            found = (topic, *(one.receiver for one in self._index.matches(topic).receivers))
            if len(self._channels) >= 65_536:
                self._channels.clear()
            self._channels[topic] = found
        return found


class InterestBook:
    """What is wanted here and since when, and what the others want. Only the book: `LocalInterest` acts on it."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.remote = RemoteFilters()
        self.own: dict[str, None] = {}  # wildcard filters wanted here
        self.since: dict[str, Since] = {}  # filter -> from where on

    def learn(self, topic_filter: str, since: Since) -> None:
        self.since[topic_filter] = since
        if has_wildcard(topic_filter):
            self.own[topic_filter] = None

    def is_owed(self, topic: str, identifier: int, when_us: int) -> bool:
        """Whether somebody here wanted the topic when the event was published: who comes later gets nothing older.

        By what had been heard of its origin at the subscription, and by `when_us`: when it was published, by our own
        clock (its age is known, the origin's clock does not matter). In doubt an older message comes, none is lost.
        """
        if topic in self.since and self._is_behind(self.since[topic], identifier, when_us):
            return True
        own = self.own
        return any(filter_matches(one, topic) and self._is_behind(self.since[one], identifier, when_us) for one in own)

    @staticmethod
    def _is_behind(since: Since, identifier: int, when_us: int) -> bool:
        origin = origin_of(identifier)
        head = since.heads.get(origin, origin << TIME_BITS | since.floor_us if since.floor_us else 0)
        return identifier > head and when_us + MARGIN_US >= since.now_us

    def want_since(self, filters: Iterable[str], since_us: int) -> None:
        """A client wanted these before it came here."""
        for one in filters:
            bare = split_shared(one)[1]
            known = self.since.get(bare)
            if known is not None:
                heads = {node: min(head, node << TIME_BITS | since_us) for node, head in known.heads.items()}
                floor_us = min(known.floor_us or since_us, since_us)
                self.since[bare] = Since(min(known.now_us, since_us), heads, floor_us)

    def is_turn(self, share: str, identifier: int) -> bool:
        """Whether the members at this node get an event of a shared subscription; all nodes come to the same answer."""
        nodes = self.remote.nodes_sharing(share)
        if not nodes:
            return True
        nodes = sorted([*nodes, self.node])
        return nodes[(identifier & TIME_MASK) % len(nodes)] == self.node


def wished_of(filters: Iterable[Subscription], since: Mapping[str, Since], now_us: int) -> Wished:
    """Since when a session's filters are wanted, for another node; nothing if one of them is not known."""
    bare = [split_shared(one.filter)[1] for one in filters]
    if any(one not in since for one in bare):
        return ()
    return tuple((one, max(0, now_us - since[one].now_us), since[one]) for one in bare)


def book_of(wished: Wished, now_us: int) -> InterestBook | None:
    """The same at that node, by its own clock."""
    book = InterestBook(-1)
    for topic_filter, ago_us, since in wished:
        book.learn(topic_filter, msgspec.structs.replace(since, now_us=now_us - ago_us))
    return book if wished else None


class LocalInterest:
    """Tells the network what this node wants."""

    def __init__(
        self, book: InterestBook, marks: Marks, is_alone: bool, planes: ControlPlanes, talk: Talk, turn: Turn
    ) -> None:
        self._book, self._marks, self._is_alone = book, marks, is_alone
        self._saved: dict[str, Since] = {}
        self._planes, self._talk, self._turn = planes, talk, turn
        self._shares: tuple[str, ...] = ()
        self._version = 0
        self._has_announced = False

    def start(self, life: int, is_first: bool) -> None:
        """Others may still hold what this node wanted in its last life: a new word is greater than any old one."""
        self._version = life << 20
        self._has_announced = not is_first

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(WISHES):
            self._saved[str(key)] = msgspec.msgpack.decode(value, type=Since)

    def forget_saved(self) -> None:
        """What nobody wants again after a restart."""
        for topic_filter in self._saved:
            self._turn.write(WISHES, topic_filter, None)
        self._saved = {}

    def want(self, topic_filter: str) -> None:
        """From now on; or, after a restart, as before it."""
        if self._is_alone or is_local(topic_filter):
            return
        since = self._saved.pop(topic_filter, None)
        if since is None:
            since = Since(self._turn.now_us, dict(self._marks.heads))
            self._turn.write(WISHES, topic_filter, msgspec.msgpack.encode(since))
        self._book.learn(topic_filter, since)
        self._planes.subscribe(topic_filter)
        if has_wildcard(topic_filter):
            self._announce()

    def wished(self, filters: Iterable[Subscription]) -> Wished:
        return wished_of(filters, self._book.since, self._turn.now_us)

    def want_earlier(self, topic_filter: str, back_us: int, is_needed: bool = True) -> None:
        """A client wanted it elsewhere before: what was published that long ago may still be on its way there.

        Unless it `is_needed`, a wish that is as old stays what it is.
        """
        known = self._book.since.get(topic_filter)
        if known is not None and (is_needed or known.now_us > self._turn.now_us - back_us):
            earlier_us = min(known.now_us, max(1, self._turn.now_us - back_us))
            since = self._book.since[topic_filter] = Since(earlier_us, {})
            self._turn.write(WISHES, topic_filter, msgspec.msgpack.encode(since))

    def unwant(self, topic_filter: str) -> None:
        if self._is_alone or is_local(topic_filter):
            return
        self._book.since.pop(topic_filter, None)
        self._turn.write(WISHES, topic_filter, None)
        self._planes.unsubscribe(topic_filter)
        if self._book.own.pop(topic_filter, 0) is None:
            self._announce()

    def share(self, shares: tuple[str, ...]) -> None:
        """Tell the others which shared subscriptions have members here."""
        if not self._is_alone and shares != self._shares:
            self._shares = shares
            self._announce()

    def _announce(self) -> None:
        self._version += 1
        self._has_announced = True
        self._talk.flood(self._mine())

    def _mine(self) -> WantedFilters:
        return WantedFilters(self._book.node, self._version, tuple(self._book.own), self._shares)

    def on_filters(self, source: int, said: WantedFilters) -> None:
        if said.node != self._book.node and self._book.remote.learn(said):
            self._talk.flood(said, but=source)

    def tell_all(self, peer: int) -> None:
        """To a new neighbour: all that is known."""
        for said in self._book.remote.of_node.values():
            if said.node != peer:
                self._talk.tell(peer, said)
        if self._has_announced:
            self._talk.tell(peer, self._mine())
