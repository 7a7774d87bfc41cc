"""What a user may do with topics: rules, what they say for one client, and the answers. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from coterie.mqtt.topics import filter_covers, filter_matches, split_shared

ANSWERS_MAX = 4096
_NAMES = re.compile("%[uc]")
_HAS_MEANING = re.compile("^\\$|[+#/]").search  # in a filter these are more than a name


class TopicRules(msgspec.Struct, frozen=True):
    """Filters, and groups of shared subscriptions; %u and %c stand for the user and the client identifier."""

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    share: tuple[str, ...] = ()


def filled_in(rules: Iterable[str], user: str, client: str) -> tuple[str, ...]:
    """Rules for one client. A name that would be a wildcard, several levels or a `$` topic voids the rules it is in."""
    names = {"%u": user, "%c": client}
    voids = tuple(mark for mark, name in names.items() if not name or _HAS_MEANING(name))
    usable = (one for one in rules if not any(mark in one for mark in voids))
    return tuple(_NAMES.sub(lambda found: names[found.group()], one) for one in usable)


class Rights:
    """What one client may do; answers for topics are kept, for they are asked with every message."""

    __slots__ = ("_answers", "_publish", "_share", "_subscribe", "is_open")

    def __init__(self, rules: TopicRules, user: str = "", client: str = "") -> None:
        self._publish = filled_in(rules.publish, user, client)
        self._subscribe = filled_in(rules.subscribe, user, client)
        self._share = filled_in(rules.share, user, client)
        self.is_open = "#" in self._publish
        self._answers: dict[str, bool] = {}

    def may_publish(self, topic: str) -> bool:
        """`$` topics are the node's own: nobody's to publish, whatever the rules say."""
        answer = self._answers.get(topic)
        if answer is None:
            answer = not topic.startswith("$") and any(filter_matches(one, topic) for one in self._publish)
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[topic] = answer
        return answer

    def may_subscribe(self, topic_filter: str) -> bool:
        """A filter must be covered by one rule. Sharing takes messages from others of a group: that has a rule too."""
        group, bare = split_shared(topic_filter)
        if group and not ("+" in self._share or group in self._share):
            return False
        return any(filter_covers(one, bare) for one in self._subscribe)

    def may_read(self, topic: str) -> bool:
        return any(filter_matches(one, topic) for one in self._subscribe)
