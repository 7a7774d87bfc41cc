"""Who wants what: the local subscriptions, watched for first and last of each filter, and what other nodes announced.

A filter without wildcards is a topic of the overlay. A filter with wildcards is a channel of its own, named like the
filter: its node joins that channel, all nodes are told the filter, and whoever publishes a topic that matches
publishes on the channel as well. So a topic that nobody has used before needs no preparation (decision 6).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from coterie.broker.frames import Filters
from coterie.mqtt.index import SharedGroup, SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.topics import split_shared

R = TypeVar("R", bound=Hashable)


def is_local(topic_filter: str) -> bool:
    """Topics of the node itself ($SYS and the like) do not leave it."""
    return topic_filter.startswith("$")


class WatchedIndex(SubscriptionIndex[R]):
    """Tells of every subscription that comes and goes, and of the first and last of each filter (groups aside)."""

    def __init__(self) -> None:
        super().__init__()
        self.on_first: Callable[[str], None] = lambda topic_filter: None
        self.on_last: Callable[[str], None] = lambda topic_filter: None
        self.on_added: Callable[[R, str], None] = lambda receiver, topic_filter: None
        self.on_removed: Callable[[R, str], None] = lambda receiver, topic_filter: None
        self.on_groups: Callable[[], None] = lambda: None
        self.count = 0
        self.groups: dict[SharedGroup[R], str] = {}  # group with members here -> "name/filter"

    def subscribe(self, receiver: R, subscription: Subscription) -> bool:
        group, bare = split_shared(subscription.filter)
        was_wanted = self.has_filter(bare)
        is_new = super().subscribe(receiver, subscription)
        if group:
            self._note_group(group, bare)
        if is_new:
            self.count += 1
            self.on_added(receiver, subscription.filter)
        if not was_wanted:
            self.on_first(bare)
        return is_new

    def unsubscribe(self, receiver: R, topic_filter: str) -> bool:
        was_there = super().unsubscribe(receiver, topic_filter)
        if was_there:
            self.count -= 1
            self.on_removed(receiver, topic_filter)
            group, bare = split_shared(topic_filter)
            if group:
                self._forget_groups()
            if not self.has_filter(bare):
                self.on_last(bare)
        return was_there

    def _note_group(self, group: str, bare: str) -> None:
        leaf = self._find(bare)
        assert leaf is not None
        shared = leaf.groups[group]
        if shared not in self.groups:
            self.groups[shared] = f"{group}/{bare}"
            self.on_groups()

    def _forget_groups(self) -> None:
        gone = [shared for shared in self.groups if not shared.members]
        for shared in gone:
            del self.groups[shared]
        if gone:
            self.on_groups()


class RemoteFilters:
    """The wildcard filters of the other nodes; `matching` is one look-up for a topic asked before."""

    def __init__(self) -> None:
        self.of_node: dict[int, Filters] = {}
        self._count: dict[str, int] = {}
        self._index: SubscriptionIndex[str] = SubscriptionIndex()
        self._channels: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._count)

    def learn(self, said: Filters) -> bool:
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
