"""Names of clusters as channels of the layer below; no topic of a client can look like one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from coterie.model import Topic

PREFIX = "\x00cluster/"  # MQTT forbids this character in topics


def is_cluster(channel: Topic) -> bool:
    return isinstance(channel, str) and channel.startswith(PREFIX)


def planned_name(topics: Iterable[Topic]) -> str:
    """A planned cluster is named after its topics: two plans that agree on a cluster keep its tree."""
    text = "\x00".join(f"{type(topic).__name__[0]}{topic}" for topic in topics)
    return PREFIX + blake2b(text.encode(), digest_size=8).hexdigest()


def grown_name(founder: int, number: int) -> str:
    """A cluster that channels formed by themselves; its topics change."""
    return f"{PREFIX}{founder}-{number}"


def next_version(version: int, topics: Iterable[Topic]) -> int:
    """Versions rise with every change; two different changes of one version, made apart, still differ."""
    text = "\x00".join(str(topic) for topic in topics)
    mark = int.from_bytes(blake2b(text.encode(), digest_size=2).digest(), "big")
    return ((version >> 16) + 1) << 16 | mark
