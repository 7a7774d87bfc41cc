"""MQTT filters in logs: which are sound, and which topics each of them matches, for all filters at once.

How it works: the broker's own index (`mqtt.index`) as sorted arrays. Levels become numbers, the filters a trie whose
edges are one ascending array of (node, level); all topics of a task walk down it together, one level at a time. The
work is that of the walks, so neither filters x topics nor the number of shapes that filters have can hurt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.model.relation import Relation
from coterie.pipeline.storage import Folder, read_rows, write_rows
from coterie.pipeline.tasks import map_array, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

I64 = NDArray[np.int64]
SHARED = r"(?s)^\$share/[^/+#]+/.+"
TOPICS_PER_TASK = 20_000
TOPICS_AT_ONCE = 4_000  # bounds the memory of a walk
LEVELS, NAMES = "levels", "names"
NO_FILTER = "topic is not an MQTT filter"
PLAIN_HINT = 'if + and # mean nothing in your names, say topics = "plain"'
_FAULTS = (
    (r"\x00", f"{NO_FILTER}: it holds a NUL character"),
    (r"(?s)#.|[^/]#", f"{NO_FILTER}: # must be the last level, alone ({PLAIN_HINT})"),
    (r"[^/]\+|\+[^/]", f"{NO_FILTER}: + must be alone in its level ({PLAIN_HINT})"),
)
NO_FILTER_PATTERN = "|".join(f"(?:{pattern})" for pattern, _ in _FAULTS)
NO_TOPIC_PATTERN = r"[+#\x00]"
BAD_SHARE = f"{NO_FILTER}: a shared one is $share/group/filter"


def filter_faults(names: pa.Array) -> pa.Array:
    """Why each name is no MQTT filter; null where it is one."""
    faults = pa.nulls(len(names), pa.string())
    if not pc.any(pc.match_substring_regex(names, r"[+#\x00]|^\$share/"), min_count=0).as_py():
        return faults
    for pattern, reason in _FAULTS:
        faults = pc.if_else(pc.and_(pc.is_null(faults), _has(names, pattern)), reason, faults)
    unsound = pc.and_(_has(names, r"^\$share/"), pc.invert(_has(names, SHARED)))
    return pc.if_else(pc.and_(pc.is_null(faults), unsound), BAD_SHARE, faults)


def topic_faults(names: pa.Array) -> pa.Array:
    """Why each name is none that MQTT can publish to; null where it is one."""
    faults = pc.if_else(_has(names, r"\x00"), "topic is no MQTT topic: it holds a NUL character", None)
    wild = pc.and_(pc.is_null(faults), _has(names, r"[+#]"))
    return pc.if_else(wild, f"topic is no MQTT topic: it holds a wildcard ({PLAIN_HINT})", faults.cast(pa.string()))


def is_shared(filters: pa.Array) -> NDArray[np.bool_]:
    """Which filters are shared by a group, whose members take turns."""
    return np.asarray(_has(filters, r"^\$share/"))


def bodies_of(filters: pa.Array) -> pa.Array:
    """What each filter matches by: itself, or for a shared one what follows the group."""
    return pc.replace_substring_regex(filters, r"^\$share/[^/]+/", "")


def has_filters(names: pa.Array) -> bool:
    """Whether some name is more than the name of one topic."""
    return bool(pc.any(pc.match_substring_regex(names, r"[+#]|^\$share/"), min_count=0).as_py())


def without_wildcards(names: pa.Array) -> pa.Array:
    return names.filter(pc.invert(_has(names, "[+#]")))


def _has(names: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(names, pattern), False)


# --- the trie ---


@dataclass(frozen=True, eq=False)
class FilterTrie:
    """`edges` ascends: edge (node, level) is node * level_count + level and leads to node 1 + its place there."""

    edges: I64
    ended: I64  # node -> the filter that ends there, or -1
    levels: pa.Array  # level number -> its text

    @classmethod
    def of(cls, filters: pa.Array) -> FilterTrie:
        """From distinct sound filters, groups removed."""
        offsets, flat = _split(filters)
        encoded = flat.dictionary_encode()
        levels, code = encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
        depth = np.diff(offsets)
        node = np.zeros(len(filters), np.int64)
        edges = [np.zeros(0, np.int64)]
        count = 1
        for level in range(int(depth.max(initial=0))):
            longer = np.flatnonzero(depth > level)
            key = node[longer] * len(levels) + code[offsets[longer] + level]
            found = _distinct(key)
            node[longer] = count + np.searchsorted(found, key)
            edges.append(found)
            count += len(found)
        ended = np.full(count, -1, np.int64)
        ended[node] = np.arange(len(filters))
        return cls(np.concatenate(edges), ended, levels)

    def matches(self, topics: pa.Array) -> tuple[I64, I64]:
        """(filter, topic) of every match, topics by their place in the array; no pair twice, in no order."""
        walk = _Walk(self, topics)
        walk.run()
        return np.concatenate(walk.filters), np.concatenate(walk.topics)

    def step(self, node: I64, level: I64) -> I64:
        """The nodes below by these levels, -1 where there is none; levels may be -1."""
        key = node * len(self.levels) + level
        at = np.searchsorted(self.edges, key).clip(max=max(len(self.edges) - 1, 0))
        if not len(self.edges):
            return np.full(len(node), -1, np.int64)
        return np.where((level >= 0) & (self.edges[at] == key), at + 1, -1)

    def number(self, level: str) -> int:
        """The number of a level's text, -1 if no filter has it."""
        found = pc.index(self.levels, pa.scalar(level, pa.string())).as_py()
        return int(found)


class _Walk:
    """All topics on their way down the trie; a topic may be at several nodes at once."""

    def __init__(self, trie: FilterTrie, topics: pa.Array) -> None:
        self.trie = trie
        self.offsets, flat = _split(topics)
        self.code = pc.fill_null(pc.index_in(flat, value_set=trie.levels), -1).to_numpy().astype(np.int64)
        self.depth = np.diff(self.offsets)
        # Section 4.7.2: wildcards at the first level do not match topics that begin with $.
        self.is_special = np.asarray(pc.starts_with(topics, "$"))
        self.one, self.rest = trie.number("+"), trie.number("#")
        self.filters: list[I64] = [np.zeros(0, np.int64)]
        self.topics: list[I64] = [np.zeros(0, np.int64)]

    def run(self) -> None:
        topic = np.arange(len(self.depth))
        node = np.zeros(len(topic), np.int64)
        level = 0
        while len(topic):
            is_open = ~self.is_special[topic] if level == 0 else np.ones(len(topic), bool)
            self._note(topic[is_open], self._below(node[is_open], self.rest))  # "a/#" matches "a" and all below
            is_over = self.depth[topic] == level
            self._note(topic[is_over], node[is_over])
            topic, node, is_open = topic[~is_over], node[~is_over], is_open[~is_over]
            named = self.trie.step(node, self.code[self.offsets[topic] + level])
            any_one = self._below(node[is_open], self.one)
            topic = np.concatenate([topic[named >= 0], topic[is_open][any_one >= 0]])
            node = np.concatenate([named[named >= 0], any_one[any_one >= 0]])
            level += 1

    def _below(self, node: I64, level: int) -> I64:
        return self.trie.step(node, np.full(len(node), level, np.int64))

    def _note(self, topic: I64, node: I64) -> None:
        found = np.where(node >= 0, self.trie.ended[node], -1)
        self.filters.append(found[found >= 0])
        self.topics.append(topic[found >= 0])


def _split(names: pa.Array) -> tuple[I64, pa.Array]:
    """Offsets and levels; a name without a slash is one level."""
    lists = pc.split_pattern(names, "/")
    return lists.offsets.to_numpy().astype(np.int64), lists.values


def _distinct(key: I64) -> I64:
    ordered = np.sort(key)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


# --- on Spark ---


def match_filters(spark: SparkSession, filters: pa.Array, topics: pa.Array, work: Folder) -> Relation:
    """Filter -> topics it matches. `filters` are distinct and sound, shared ones included; `work` is left behind."""
    bodies = bodies_of(filters)
    distinct = pc.unique(bodies)
    trie = FilterTrie.of(distinct)
    save_array(trie.edges, work, "edges")
    save_array(trie.ended, work, "ended")
    write_rows(pa.table({LEVELS: trie.levels}), work / f"{LEVELS}.parquet")
    write_rows(pa.table({NAMES: topics}), work / f"{NAMES}.parquet")
    ranges = [(low, min(low + TOPICS_PER_TASK, len(topics))) for low in range(0, len(topics), TOPICS_PER_TASK)]
    run_tasks(spark, ranges, _matcher(work), "pairs bigint")
    found = [np.asarray(map_array(work, f"matched-{low}")) for low, _ in ranges] or [np.zeros((2, 0), np.int64)]
    body, topic = np.concatenate(found, axis=1)
    by_body = Relation.from_pairs(body, topic, len(distinct), len(topics))
    if len(distinct) == len(filters):
        return by_body
    return by_body.taken(pc.index_in(bodies, value_set=distinct).to_numpy().astype(np.int64))


def _matcher(work: Folder) -> Callable[[tuple[int, int]], pa.Table]:
    folder = work

    def match(task: tuple[int, int]) -> pa.Table:
        edges: Any = map_array(folder, "edges")
        ended: Any = map_array(folder, "ended")
        levels = read_rows(folder / f"{LEVELS}.parquet")[LEVELS].combine_chunks()
        names = read_rows(folder / f"{NAMES}.parquet")[NAMES].combine_chunks()
        trie = FilterTrie(edges, ended, levels)
        found = [np.zeros((2, 0), np.int64)]
        for low in range(task[0], task[1], TOPICS_AT_ONCE):
            high = min(low + TOPICS_AT_ONCE, task[1])
            filters, topics = trie.matches(names.slice(low, high - low))
            found.append(np.stack([filters, topics + low]))
        pairs = np.concatenate(found, axis=1)
        save_array(pairs, folder, f"matched-{task[0]}")
        return pa.table({"pairs": pa.array([pairs.shape[1]], pa.int64())})

    return match
