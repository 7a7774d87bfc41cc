"""Retained messages by topic, with expiry, bounds, and walks over what a filter matches, in as many parts as one likes.

A walk goes by topics, level by level in their order, so that it can begin again behind any of them; what is set or
removed meanwhile ahead of it is seen as it is then.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator

from coterie.mqtt.publish import Message
from coterie.mqtt.trie import TopicBranch


class RetainedStore:
    """The last retained message of each topic. When full, new topics are refused and counted; known ones go on."""

    def __init__(self, topic_count_max: int = 1_000_000, bytes_max: int = 1 << 30, client_max: int = 0) -> None:
        self.refused_count = 0
        self.bytes = 0
        self.journal: list[tuple[str, Message | None]] | None = None  # changes for a store: (topic, message or gone)
        self._of_client: Counter[str] = Counter()  # publisher -> topics
        self.limit(topic_count_max, bytes_max, client_max)
        self._messages: dict[str, Message] = {}
        self._root: TopicBranch[Message] = TopicBranch()
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
        self._root.hang(topic, message)
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

    def walk(self, topic_filter: str, after: str = "") -> RetainedWalk:
        """What a filter matches, behind a topic."""
        return RetainedWalk(self._root, topic_filter, after)

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

    def _remove(self, topic: str) -> None:
        message = self._messages.pop(topic, None)
        if message is None:
            return
        self._count(message, None)
        self._record(topic, None)
        self._root.take_off(topic)


def _size(message: Message) -> int:
    return len(message.topic) + len(message.payload)


def _is_alive(message: Message, now_s: float) -> bool:
    return message.expires_at_s is None or message.expires_at_s > now_s


class _Step:
    """A branch whose children are being gone through. `at`: which level of the filter they have to fit."""

    __slots__ = ("at", "branch", "depth", "is_behind", "names")

    def __init__(self, branch: TopicBranch[Message], at: int, depth: int, names: list[str], is_behind: bool) -> None:
        self.branch, self.at, self.depth, self.names = branch, at, depth, names
        self.is_behind = is_behind  # all of it comes behind where the walk was to begin


class RetainedWalk:
    """See the module."""

    def __init__(self, root: TopicBranch[Message], topic_filter: str, after: str) -> None:
        self._levels = topic_filter.split("/")
        self._after = after.split("/") if after else []
        self._root = root
        self._steps: list[_Step] | None = None  # None: not begun
        self.position = after  # the topic it has come to

    def is_ahead(self, topic: str) -> bool:
        return topic.split("/") > self.position.split("/") if self.position else True

    def next(self, now_s: float) -> Message | None:
        """The next message that has not expired; None at the end."""
        if self._steps is None:
            self._steps = []
            self._open(self._root, 0, 0, not self._after)
        steps, levels = self._steps, self._levels
        while steps:
            step = steps[-1]
            if not step.names:
                steps.pop()
                continue
            name = heapq.heappop(step.names)
            branch = step.branch.children.get(name)
            if branch is None:
                continue
            is_behind = step.is_behind or step.depth >= len(self._after) or name > self._after[step.depth]
            at = step.at if levels[step.at] == "#" else step.at + 1
            if at < len(levels):
                self._open(branch, at, step.depth + 1, is_behind)
            message = branch.held
            if (
                message is not None
                and is_behind
                and at >= len(levels) - (levels[-1] == "#")
                and _is_alive(message, now_s)
            ):
                self.position = message.topic
                return message
        return None

    def _open(self, branch: TopicBranch[Message], at: int, depth: int, is_behind: bool) -> None:
        level = self._levels[at]
        if level not in ("+", "#"):
            names = [level] if level in branch.children else []
        else:
            names = [one for one in branch.children if depth or not one.startswith("$")]
        if not is_behind and depth < len(self._after):
            names = [one for one in names if one >= self._after[depth]]
        heapq.heapify(names)
        if names:
            assert self._steps is not None
            self._steps.append(_Step(branch, at, depth, names, is_behind))
