"""What the root of a channel keeps about it: its size, how much has moved, its survey, its lock; and its partners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.model import Topic
from coterie.systems.tamara.messages import Answer
from coterie.systems.tamara.names import is_cluster

LOCK_S = 10.0  # a merge under way keeps other merges of the same channel away for so long at most


@dataclass
class OpenSurvey:
    """Answers until the time is up. `question` is (topic, is_leaving), or None for the periodic search for partners."""

    number: int
    probability: float
    question: tuple[Topic, bool] | None
    depth: int
    answers: list[Answer] = field(default_factory=list)


@dataclass
class RootedChannel:
    """One channel whose root this node is."""

    size: float = 0.0
    moves: int = 0
    depth: int = 0
    survey: OpenSurvey | None = None
    surveys: int = 0
    locked_until_s: float = 0.0

    def move(self, is_coming: bool, depth: int) -> None:
        self.size = max(0.0, self.size + (1 if is_coming else -1))
        self.moves += 1
        self.depth = max(self.depth, depth)

    def is_due(self, share: float) -> bool:
        return self.survey is None and self.size >= 1 and self.moves >= share * self.size

    def is_locked(self, now_s: float) -> bool:
        return now_s < self.locked_until_s

    def lock(self, now_s: float) -> None:
        self.locked_until_s = now_s + LOCK_S

    def unlock(self) -> None:
        self.locked_until_s = 0.0


def most_common(answers: Iterable[Answer], own: Topic) -> tuple[Topic, int] | None:
    """The other channel that most of those asked are on, and how many; ties by kind (as ours first), then by name."""
    tally = Counter(channel for answer in answers for channel in answer.channels if channel != own)
    if not tally:
        return None
    best = min(tally, key=lambda channel: (-tally[channel], is_cluster(channel) != is_cluster(own), str(channel)))
    return best, tally[best]


def sample_probability(survey_size: int, population: float) -> float:
    """Cochran's sample as the chance of each subscriber to be asked."""
    if survey_size == 0 or population <= 1:
        return 1.0
    return min(1.0, survey_size / (1 + (survey_size - 1) / population) / population)
