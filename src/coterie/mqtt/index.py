"""Who wants a topic: a subscription index with wildcards, shared groups and a bounded cache of answers.

Filters without wildcards live in one dictionary, the others in a trie by level. The answer for a topic is worked out
once and kept until a subscription that could change it changes: a plain filter drops its own topic's answer, a filter
with wildcards drops all of them. `receiver` is whatever the caller delivers to; it is compared by equality only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from coterie.mqtt.packets import Subscription
from coterie.mqtt.topics import has_wildcard, split_shared
from coterie.mqtt.trie import TopicBranch
from coterie.mqtt.wire import encode_text

R = TypeVar("R", bound=Hashable)


class Receiver(Generic[R]):
    """One receiver of a topic, its overlapping subscriptions merged: highest QoS, all identifiers, one delivery."""

    __slots__ = ("identifiers", "is_plain", "local", "qos", "receiver", "retain_as_published")

    def __init__(self, receiver: R, subscriptions: list[Subscription]) -> None:
        self.receiver = receiver
        self.qos = max(one.qos for one in subscriptions)
        self.retain_as_published = any(one.retain_as_published for one in subscriptions)
        self.identifiers = tuple(sorted({one.identifier for one in subscriptions if one.identifier}))
        # What the receiver gets of its own messages: the subscriptions without no-local, or nothing.
        self.local: Receiver[R] | None = self
        mine = [one for one in subscriptions if not one.no_local]
        if len(mine) < len(subscriptions):
            self.local = Receiver(receiver, mine) if mine else None
        self.is_plain = not self.identifiers and self.local is self  # nothing special about it, whoever publishes


class SharedGroup(Generic[R]):
    """The members of one shared subscription; each message goes to one of them, in turn."""

    __slots__ = ("_turn", "members")

    def __init__(self) -> None:
        self.members: dict[R, Receiver[R]] = {}
        self._turn = 0

    def choose(self, is_available: Callable[[R], bool]) -> Receiver[R]:
        """The next member in turn that is available; if none is, the next in turn (it may queue the message)."""
        members = list(self.members.values())
        turn = self._turn % len(members)
        self._turn = turn + 1
        for index in range(len(members)):
            member = members[(turn + index) % len(members)]
            if is_available(member.receiver):
                self._turn = turn + index + 1
                return member
        return members[turn]


class Match(Generic[R]):
    """The answer for one topic; groups are live objects, so the turn moves on between messages."""

    __slots__ = ("encoded", "groups", "heads", "receivers", "topic")

    def __init__(self, topic: str, receivers: tuple[Receiver[R], ...], groups: tuple[SharedGroup[R], ...]) -> None:
        self.topic = topic
        self.encoded = encode_text(topic)  # as it stands in a packet, for `SharedPublish`
        self.heads: dict[int, bytes] = {}  # what stands before packet identifiers, for `publish.split_bare`
        self.receivers = receivers
        self.groups = groups

    @property
    def is_wanted(self) -> bool:
        return bool(self.receivers or self.groups)


class _Leaf(Generic[R]):
    """All subscriptions with one filter."""

    __slots__ = ("direct", "groups")

    def __init__(self) -> None:
        self.direct: dict[R, Subscription] = {}
        self.groups: dict[str, SharedGroup[R]] = {}


class SubscriptionIndex(Generic[R]):
    """Filters to receivers. `matches` costs one dictionary lookup for a topic asked before."""

    def __init__(self, topic_count_max: int = 65_536) -> None:
        self.cache: dict[str, Match[R]] = {}
        self.version = 0  # rises whenever an answer may be another one; whoever keeps answers compares it
        self._topic_count_max = topic_count_max
        self._exact: dict[str, _Leaf[R]] = {}
        self._root: TopicBranch[_Leaf[R]] = TopicBranch()
        self._wildcard_filters: dict[str, _Leaf[R]] = {}

    def matches(self, topic: str) -> Match[R]:
        """Everyone who wants `topic`, a valid topic name."""
        match = self.cache.get(topic)
        if match is None:
            match = self._resolve(topic)
            if len(self.cache) >= self._topic_count_max:
                self.cache.clear()
            self.cache[topic] = match
        return match

    def subscribe(self, receiver: R, subscription: Subscription) -> bool:
        """Add or replace; returns whether the receiver did not have this filter before."""
        group, topic_filter = split_shared(subscription.filter)
        leaf = self._leaf(topic_filter)
        if group:
            members = leaf.groups.setdefault(group, SharedGroup()).members
            is_new = receiver not in members
            members[receiver] = Receiver(receiver, [subscription])
            self._forget(topic_filter)
            return is_new
        before = leaf.direct.get(receiver)
        if before != subscription:
            leaf.direct[receiver] = subscription
            self._forget(topic_filter)
        return before is None

    def unsubscribe(self, receiver: R, topic_filter: str) -> bool:
        """Remove; returns whether there was such a subscription."""
        group, bare = split_shared(topic_filter)
        leaf = self._find(bare)
        if leaf is None:
            return False
        if group:
            shared = leaf.groups.get(group)
            if shared is None or shared.members.pop(receiver, None) is None:
                return False
            if not shared.members:
                del leaf.groups[group]
        elif leaf.direct.pop(receiver, None) is None:
            return False
        if not leaf.direct and not leaf.groups:
            self._prune(bare)
        self._forget(bare)
        return True

    def filters(self) -> Iterator[str]:
        """Every filter that somebody has, shared ones without their group: what a node must ask its peers for."""
        yield from self._exact
        yield from self._wildcard_filters

    def has_filter(self, topic_filter: str) -> bool:
        return self._find(topic_filter) is not None

    def _find(self, topic_filter: str) -> _Leaf[R] | None:
        return self._exact.get(topic_filter) or self._wildcard_filters.get(topic_filter)

    def _leaf(self, topic_filter: str) -> _Leaf[R]:
        leaf = self._find(topic_filter)
        if leaf is not None:
            return leaf
        leaf = _Leaf()
        if not has_wildcard(topic_filter):
            self._exact[topic_filter] = leaf
            return leaf
        self._wildcard_filters[topic_filter] = leaf
        self._root.hang(topic_filter, leaf)
        return leaf

    def _prune(self, topic_filter: str) -> None:
        if self._exact.pop(topic_filter, None) is not None:
            return
        del self._wildcard_filters[topic_filter]
        self._root.take_off(topic_filter)

    def _forget(self, topic_filter: str) -> None:
        self.version += 1
        if has_wildcard(topic_filter):
            self.cache.clear()
        else:
            self.cache.pop(topic_filter, None)

    def _resolve(self, topic: str) -> Match[R]:
        leaves: list[_Leaf[R]] = []
        exact = self._exact.get(topic)
        if exact is not None:
            leaves.append(exact)
        if self._wildcard_filters:
            self._walk(topic, leaves)
        found: dict[R, list[Subscription]] = {}
        groups: list[SharedGroup[R]] = []
        for leaf in leaves:
            for receiver, subscription in leaf.direct.items():
                found.setdefault(receiver, []).append(subscription)
            groups.extend(leaf.groups.values())
        receivers = tuple(Receiver(receiver, subscriptions) for receiver, subscriptions in found.items())
        return Match(topic, receivers, tuple(groups))

    def _walk(self, topic: str, leaves: list[_Leaf[R]]) -> None:
        branches = [self._root]
        wildcards_apply = not topic.startswith("$")  # section 4.7.2: not at the first level of a $-topic
        for level in topic.split("/"):
            below: list[TopicBranch[_Leaf[R]]] = []
            for branch in branches:
                children = branch.children
                if wildcards_apply:
                    if "#" in children:
                        _collect(children["#"], leaves)
                    if "+" in children:
                        below.append(children["+"])
                if level in children:
                    below.append(children[level])
            branches = below
            wildcards_apply = True
        for branch in branches:
            _collect(branch, leaves)
            if "#" in branch.children:  # "a/#" matches "a" as well
                _collect(branch.children["#"], leaves)


class IndexChange(NamedTuple):
    """What happened to the index: `kind` is added, removed, first or last (of a filter, groups aside) or groups."""

    kind: str
    receiver: Any
    filter: str


class WatchedIndex(SubscriptionIndex[R]):
    """Notes in `changes` every subscription that comes and goes, and the first and last of each filter."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[IndexChange] = []
        self.count = 0
        self.groups: dict[SharedGroup[R], str] = {}  # group with members here -> "name/filter"

    def take_changes(self) -> list[IndexChange]:
        changes, self.changes = self.changes, []
        return changes

    def subscribe(self, receiver: R, subscription: Subscription) -> bool:
        group, bare = split_shared(subscription.filter)
        was_wanted = self.has_filter(bare)
        is_new = super().subscribe(receiver, subscription)
        if group:
            self._note_group(group, bare)
        if is_new:
            self.count += 1
            self.changes.append(IndexChange("added", receiver, subscription.filter))
        if not was_wanted:
            self.changes.append(IndexChange("first", receiver, bare))
        return is_new

    def unsubscribe(self, receiver: R, topic_filter: str) -> bool:
        was_there = super().unsubscribe(receiver, topic_filter)
        if was_there:
            self.count -= 1
            self.changes.append(IndexChange("removed", receiver, topic_filter))
            group, bare = split_shared(topic_filter)
            if group:
                self._forget_groups()
            if not self.has_filter(bare):
                self.changes.append(IndexChange("last", receiver, bare))
        return was_there

    def _note_group(self, group: str, bare: str) -> None:
        leaf = self._find(bare)
        assert leaf is not None
        shared = leaf.groups[group]
        if shared not in self.groups:
            self.groups[shared] = f"{group}/{bare}"
            self.changes.append(IndexChange("groups", None, bare))

    def _forget_groups(self) -> None:
        gone = [shared for shared in self.groups if not shared.members]
        for shared in gone:
            del self.groups[shared]
        if gone:
            self.changes.append(IndexChange("groups", None, ""))


def _collect(branch: TopicBranch[_Leaf[R]], leaves: list[_Leaf[R]]) -> None:
    if branch.held is not None:
        leaves.append(branch.held)
