"""A tree by topic level: what hangs at a path of levels, with no branch that leads to nothing."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class TopicBranch(Generic[T]):
    """`held` is what hangs here, if anything does."""

    __slots__ = ("children", "held")

    def __init__(self) -> None:
        self.children: dict[str, TopicBranch[T]] = {}
        self.held: T | None = None

    def hang(self, path: str, what: T) -> None:
        """Below this one, instead of what hung there."""
        branch = self
        for level in path.split("/"):
            child = branch.children.get(level)
            if child is None:
                child = branch.children[level] = TopicBranch()
            branch = child
        branch.held = what

    def take_off(self, path: str) -> None:
        """What hangs there, and the branches that led to nothing else."""
        levels = path.split("/")
        way = [self]
        for level in levels:
            way.append(way[-1].children[level])
        way[-1].held = None
        for parent, level, branch in zip(reversed(way[:-1]), reversed(levels), reversed(way), strict=False):
            if branch.children or branch.held is not None:
                break
            del parent.children[level]
