"""What a node on planned clusters wants to be on: clusters with something for it, and the rest topic by topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.model import Topic


class PlannedWishes:
    """Shared by nodes that follow a plan of clusters, whatever layer carries them: new channels, then old."""

    _wanted: dict[Topic, None]
    _assigned: Mapping[Any, tuple[Topic, ...]]  # clusters to use while one of their topics is wanted

    def on_subscribe(self, topic: Topic) -> None:
        self._wanted[topic] = None
        self._enter_channels()
        self._leave_channels()

    def on_unsubscribe(self, topic: Topic) -> None:
        self._wanted.pop(topic, None)
        self._enter_channels()
        self._leave_channels()

    def _needed(self) -> dict[Topic, None]:
        """The channels this node should be a member of."""
        used = {name: topics for name, topics in self._assigned.items() if any(t in self._wanted for t in topics)}
        covered = {topic for topics in used.values() for topic in topics}
        return dict.fromkeys([*used, *(topic for topic in self._wanted if topic not in covered)])

    def _enter_channels(self) -> None:
        raise NotImplementedError

    def _leave_channels(self) -> None:
        raise NotImplementedError
