"""Topic names and topic filters: what is valid, and which names a filter matches."""

from __future__ import annotations

import re

from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.wire import decode_text

SHARE_PREFIX = "$share/"
_HAS_WILDCARD = re.compile("[+#]").search


def check_topic_name(topic: str) -> str:
    """Return the name, or raise MqttError: names are not empty and hold no wildcard."""
    if not topic:
        raise MqttError("a topic name is empty", Reason.TOPIC_NAME_INVALID)
    if _HAS_WILDCARD(topic):
        raise MqttError(f"topic name {topic[:80]!r} holds a wildcard", Reason.TOPIC_NAME_INVALID)
    return topic


def check_filter(topic_filter: str) -> str:
    """Return the filter, or raise MqttError; a shared one (`$share/group/filter`) is checked in both parts."""
    levels = split_shared(topic_filter)[1].split("/")
    if levels == [""]:
        raise MqttError("a topic filter is empty", Reason.TOPIC_FILTER_INVALID)
    for index, level in enumerate(levels):
        if level == "+" or (level == "#" and index == len(levels) - 1):
            continue
        if _HAS_WILDCARD(level):
            raise MqttError(f"topic filter {topic_filter[:80]!r} misplaces a wildcard", Reason.TOPIC_FILTER_INVALID)
    return topic_filter


def split_shared(topic_filter: str) -> tuple[str, str]:
    """(group, filter); the group is empty for an ordinary subscription."""
    if not topic_filter.startswith(SHARE_PREFIX):
        return "", topic_filter
    group, slash, rest = topic_filter[len(SHARE_PREFIX) :].partition("/")
    if not group or not slash or not rest or _HAS_WILDCARD(group):
        raise MqttError(f"shared filter {topic_filter[:80]!r} is not $share/group/filter", Reason.TOPIC_FILTER_INVALID)
    return group, rest


def has_wildcard(topic_filter: str) -> bool:
    return _HAS_WILDCARD(topic_filter) is not None


def filter_covers(wide: str, narrow: str) -> bool:
    """Whether every topic that `narrow` matches is matched by `wide`."""
    allowed, asked = wide.split("/"), narrow.split("/")
    for index, level in enumerate(allowed):
        if level == "#":
            return not (index == 0 and narrow.startswith("$"))
        if index >= len(asked) or asked[index] == "#":
            return False
        if level == "+":
            if index == 0 and narrow.startswith("$"):
                return False
        elif level != asked[index]:
            return False
    return len(allowed) == len(asked)


def filters_overlap(one: str, other: str) -> bool:
    """Whether some topic is matched by both."""
    left, right = one.split("/"), other.split("/")
    for index in range(max(len(left), len(right)) + 1):
        mine = left[index] if index < len(left) else None
        theirs = right[index] if index < len(right) else None
        if "#" in (mine, theirs):
            return index > 0 or not (left[0] + right[0]).replace("#", "").replace("+", "").startswith("$")
        if mine is None or theirs is None:
            return mine is theirs
        if mine != theirs and "+" not in (mine, theirs):
            return False
        if index == 0 and "+" in (mine, theirs) and (mine + theirs).replace("+", "").startswith("$"):
            return False
    raise AssertionError("one of the two has ended by then")


def filter_matches(topic_filter: str, topic: str) -> bool:
    """Whether one (unshared) filter matches one name; the index answers the same for many filters at once."""
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        if index >= len(levels) or (level not in ("+", levels[index])):
            return False
    return len(wanted) == len(levels)


class TopicNames:
    """Valid topic names by their bytes, so that a name seen before costs one lookup; bounded.

    Shared by all connections of a node. The same str object comes back each time, which keeps its hash and makes the
    lookup in `SubscriptionIndex` cheap. When full it starts anew: names in use return at once.
    """

    def __init__(self, name_count_max: int = 65_536) -> None:
        self.names: dict[bytes, str] = {}
        self._name_count_max = name_count_max

    def add(self, raw: bytes) -> str:
        """Validate and remember a name; raises MqttError if it is not one."""
        name = self.names.get(raw)
        if name is None:
            name = check_topic_name(decode_text(raw))
            if len(self.names) >= self._name_count_max:
                self.names.clear()
            self.names[raw] = name
        return name
