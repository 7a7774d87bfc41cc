"""Who wants what, who sits where and what is published, for real brokers and for the accountant alike.

200 topics, 400 clients with 10 topics each, 2,000 messages, each published by some client on one of its topics.
`zipf`: a topic of rank r is wanted with weight 1 / r. `clustered`: 10 modes of 20 topics, 9 of 10 topics from the
client's own mode. Placement `random` puts clients anywhere, `aligned` keeps clients that stand beside each other (those
of a mode) together.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np

from coterie.model import Publications, Relation, Workload

MODES = 10


class FleetLoad:
    """All from one seed. Topics are numbers here and `topic/N` on the wire."""

    def __init__(
        self, nodes: int, interest: str, placement: str, seed: int = 0,
        topics: int = 200, clients: int = 400, wanted: int = 10, messages: int = 2000, sizes: tuple[int, ...] = (64,),
    ) -> None:  # fmt: skip
        draw = random.Random(seed)
        self.nodes, self.topics, self.clients = nodes, topics, clients
        chosen = [_zipf(draw, topics, wanted) for _ in range(clients)]
        if interest == "clustered":
            chosen = [_clustered(draw, topics, wanted, client * MODES // clients) for client in range(clients)]
        self.wanted = [sorted(one) for one in chosen]
        self.home = [client * nodes // clients for client in range(clients)]
        if placement != "aligned":
            draw.shuffle(self.home)
        authors = [draw.randrange(clients) for _ in range(messages)]
        self.messages = [(author, draw.choice(self.wanted[author])) for author in authors]
        self._sizes = sizes

    @property
    def interest(self) -> list[list[str]]:
        return [[name_of(topic) for topic in topics] for topics in self.wanted]

    def published(self) -> Iterator[tuple[int, str, bytes]]:
        """(author, topic, payload), which begins with the message's number and has a size by author and topic."""
        for number, (author, topic) in enumerate(self.messages):
            yield author, name_of(topic), (b"%06d" % number).ljust(self._size(author, topic), b".")

    def _size(self, author: int, topic: int) -> int:
        return self._sizes[(author + topic) % len(self._sizes)]

    def workload(self, span_s: float = 1.0) -> Workload:
        """The same for a planner, all messages published within so many seconds."""
        sent = Counter(self.messages)
        rates = [count / span_s for count in sent.values()]
        sizes = [float(self._size(*one)) for one in sent]
        publications = Publications.of([one for one, _ in sent], [topic for _, topic in sent], rates, sizes)
        home = np.array(self.home, np.int32)
        names = np.array([float(len(name_of(topic))) for topic in range(self.topics)])
        interests = Relation.from_rows(self.wanted, self.topics)
        return Workload("fleet", interests, publications, home, self.nodes, topic_bytes=names)

    def owed(self) -> int:
        """Deliveries."""
        audience = Counter(topic for topics in self.wanted for topic in topics)
        return sum(audience[topic] for _, topic in self.messages)

    def wanted_at(self, node: int) -> list[str]:
        at = {topic for home, topics in zip(self.home, self.wanted, strict=True) if home == node for topic in topics}
        return [name_of(topic) for topic in sorted(at)]


def name_of(topic: int) -> str:
    return f"topic/{topic}"


def _zipf(draw: random.Random, topics: int, wanted: int) -> list[int]:
    weights = [1 / rank for rank in range(1, topics + 1)]
    found: dict[int, None] = {}
    while len(found) < wanted:
        found[draw.choices(range(topics), weights)[0]] = None
    return list(found)


def _clustered(draw: random.Random, topics: int, wanted: int, mode: int) -> list[int]:
    size = topics // MODES
    own = draw.sample(range(mode * size, (mode + 1) * size), wanted * 9 // 10)
    return own + draw.sample([one for one in range(topics) if one // size != mode], wanted - len(own))
