"""The tree by topic level."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.mqtt.trie import TopicBranch

PATHS = st.lists(st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=3).map("/".join), max_size=8)


def hanging(branch: TopicBranch[str], path: tuple[str, ...] = ()) -> dict[str, str]:
    found = {} if branch.held is None else {"/".join(path): branch.held}
    for level, child in branch.children.items():
        found |= hanging(child, (*path, level))
        assert child.children or child.held is not None, "a branch that leads to nothing"
    return found


@given(hung=PATHS, taken=PATHS)
def test_what_hangs_is_there_and_nothing_else(hung: list[str], taken: list[str]) -> None:
    root: TopicBranch[str] = TopicBranch()
    for path in hung:
        root.hang(path, path)
    left = dict.fromkeys(hung)
    for path in taken:
        if path in left:
            root.take_off(path)
            del left[path]
    assert hanging(root) == {path: path for path in left}
