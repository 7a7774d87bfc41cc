"""Retained messages by topic, with expiry, wildcard lookup and bounds."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator

from coterie.mqtt.publish import Message
from coterie.mqtt.topics import has_wildcard


class _RetainedBranch:
    __slots__ = ("children", "message")

    def __init__(self) -> None:
        self.children: dict[str, _RetainedBranch] = {}
        self.message: Message | None = None


class RetainedStore:
    """The last retained message of each topic. When full, new topics are refused and counted; known ones go on."""

    def __init__(self, topic_count_max: int = 1_000_000, bytes_max: int = 1 << 30, client_max: int = 0) -> None:
        self.refused_count = 0
        self.bytes = 0
        self.journal: list[tuple[str, Message | None]] | None = None  # changes for a store: (topic, message or gone)
        self._of_client: Counter[str] = Counter()  # publisher -> topics
        self.limit(topic_count_max, bytes_max, client_max)
        self._messages: dict[str, Message] = {}
        self._root = _RetainedBranch()
        self._deadlines: list[tuple[float, str]] = []

    def limit(self, topic_count_max: int, bytes_max: int, client_max: int) -> None:
        """What is kept already stays, even where it is more."""
        self._topic_count_max, self._bytes_max, self._client_max = topic_count_max, bytes_max, client_max

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        """All messages, for a store to save."""
        return iter(self._messages.values())

    def set(self, message: Message) -> bool:
        """Keep a message (an empty payload removes the topic's); False means it was refused for want of room."""
        topic = message.topic
        before = self._messages.get(topic)
        if not message.payload:
            self._remove(topic)
            return True
        if not self.has_room(message):
            self.refused_count += 1
            return False
        self._count(before, message)
        self._messages[topic] = message
        self._branch(topic).message = message
        self._record(topic, message)
        if message.expires_at_s is not None:
            self._schedule(message.expires_at_s, topic)
        return True

    def has_room(self, message: Message) -> bool:
        """Whether `set` would take it."""
        if not message.payload:
            return True
        before = self._messages.get(message.topic)
        if self.bytes + _size(message) - (_size(before) if before is not None else 0) > self._bytes_max:
            return False
        is_mine = before is not None and before.publisher == message.publisher
        if self._client_max and not is_mine and self._of_client[message.publisher] >= self._client_max:
            return False
        return before is not None or len(self._messages) < self._topic_count_max

    def _count(self, before: Message | None, after: Message | None) -> None:
        for message, sign in ((before, -1), (after, 1)):
            if message is not None:
                self.bytes += sign * _size(message)
                self._of_client[message.publisher] += sign
                if not self._of_client[message.publisher]:
                    del self._of_client[message.publisher]

    def get(self, topic: str, now_s: float) -> Message | None:
        message = self._messages.get(topic)
        return message if message is not None and _is_alive(message, now_s) else None

    def matching(self, topic_filter: str, now_s: float) -> list[Message]:
        """The messages whose topics a filter matches, in topic order, without the expired."""
        if not has_wildcard(topic_filter):
            message = self.get(topic_filter, now_s)
            return [] if message is None else [message]
        found = self._search(topic_filter.split("/"))
        return sorted((one for one in found if _is_alive(one, now_s)), key=lambda one: one.topic)

    @property
    def deadline_s(self) -> float | None:
        """When `expire` has something to do next, at the earliest."""
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now_s: float) -> list[str]:
        """Forget what has expired; returns the topics, for a store to delete."""
        gone = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            topic = heapq.heappop(self._deadlines)[1]
            message = self._messages.get(topic)
            if message is not None and not _is_alive(message, now_s):
                self._remove(topic)
                gone.append(topic)
        return gone

    def _record(self, topic: str, message: Message | None) -> None:
        if self.journal is not None:
            self.journal.append((topic, message))

    def _schedule(self, expires_at_s: float, topic: str) -> None:
        heapq.heappush(self._deadlines, (expires_at_s, topic))
        if len(self._deadlines) > 64 + 2 * len(self._messages):  # mostly topics that were replaced since
            self._deadlines = [
                (one.expires_at_s, one.topic) for one in self._messages.values() if one.expires_at_s is not None
            ]
            heapq.heapify(self._deadlines)

    def _search(self, levels: list[str]) -> list[Message]:
        branches = [self._root]
        for depth, level in enumerate(levels):
            if level == "#":
                return [message for branch in branches for message in _subtree(branch, hide_dollar=depth == 0)]
            below: list[_RetainedBranch] = []
            for branch in branches:
                if level != "+":
                    below.extend(branch.children[name] for name in (level,) if name in branch.children)
                else:
                    below.extend(child for name, child in branch.children.items() if depth or not name.startswith("$"))
            branches = below
        return [branch.message for branch in branches if branch.message is not None]

    def _branch(self, topic: str) -> _RetainedBranch:
        branch = self._root
        for level in topic.split("/"):
            child = branch.children.get(level)
            if child is None:
                child = branch.children[level] = _RetainedBranch()
            branch = child
        return branch

    def _remove(self, topic: str) -> None:
        message = self._messages.pop(topic, None)
        if message is None:
            return
        self._count(message, None)
        self._record(topic, None)
        levels = topic.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        path[-1].message = None
        for parent, level, branch in zip(reversed(path[:-1]), reversed(levels), reversed(path), strict=False):
            if branch.children or branch.message is not None:
                break
            del parent.children[level]


def _size(message: Message) -> int:
    return len(message.topic) + len(message.payload)


def _is_alive(message: Message, now_s: float) -> bool:
    return message.expires_at_s is None or message.expires_at_s > now_s


def _subtree(branch: _RetainedBranch, hide_dollar: bool) -> Iterator[Message]:
    stack = [branch]
    while stack:
        current = stack.pop()
        if current.message is not None:
            yield current.message
        for name, child in current.children.items():
            if current is branch and hide_dollar and name.startswith("$"):
                continue
            stack.append(child)
