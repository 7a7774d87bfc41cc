"""Algorithms 2 and 3 (ComputeMultipleTrees): which groups to merge, and how many trees there should be."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import groups as content
from coterie.model.relation import Index
from coterie.systems.content.demand import Demand
from coterie.systems.content.merges import Merges
from coterie.systems.content.strategy import Strategy, single

CANDIDATES = 24  # numbers of groups that are tried on held-out documents


def merge_by_overlap(merges: Merges) -> None:
    """Algorithm 3: always the two groups whose document sets are most alike, down to one group.

    The paper does not say how to go on when no two groups share a document: then those go together that share most of
    their nodes.
    """
    demand = merges.demand
    leaves = [[leaf] for leaf in range(len(merges.leaves))]
    documents = [group.documents for group in merges.groups[: len(leaves)]]
    groups = _merge_alike(merges, leaves, documents, demand.document_count, is_complete=False)
    hosts = [
        np.unique(np.concatenate([demand.hosts.row(one) for one in merges.groups[group[-1]].classes.tolist()]))
        for group in groups
    ]
    _merge_alike(merges, groups, hosts, demand.hosts.column_count, is_complete=True)


def _merge_alike(
    merges: Merges, groups: list[list[int]], columns: Sequence[Index], column_count: int, is_complete: bool
) -> list[list[int]]:
    """Merge by Jaccard's coefficient over these columns; returns, of each group left, its numbers, the last alive."""
    bits = np.zeros((len(groups), max((column_count + 63) // 64, 1)), np.uint64)
    for row, present in enumerate(columns):
        wide = present.astype(np.int64)
        np.bitwise_or.at(bits[row], wide // 64, np.uint64(1) << (wide % 64).astype(np.uint64))
    sizes = np.array([len(present) for present in columns], np.int64)
    kept, absorbed = content.merge_by_overlap(bits, sizes, is_complete)
    for one, other in zip(kept.tolist(), absorbed.tolist(), strict=True):
        groups[one].append(merges.merge(groups[one][-1], groups[other][-1]))
    gone = set(absorbed.tolist())
    return [group for row, group in enumerate(groups) if row not in gone]


def merge_by_cost(merges: Merges, start: int = 0) -> None:
    """Algorithm 2: always the two groups whose union saves the largest share of their cost, while one saves.

    Groups without a document in common are never tried: separate trees serve such documents at least as well.
    `start` merges have been made before (the hybrid of section V); the rest of the history is dropped.
    """
    del merges.history[start:]
    alive = dict.fromkeys(merges.alive(start))
    meets: dict[int, dict[int, None]] = {document: {} for document in range(merges.demand.document_count)}
    heap: list[tuple[float, int, int]] = []
    for number in alive:
        _try_all(merges, number, meets, heap)
    while heap:
        _, one, other = heappop(heap)
        if one not in alive or other not in alive:
            continue
        del alive[one], alive[other]
        for number in (one, other):
            for document in merges.groups[number].documents.tolist():
                meets[document].pop(number, None)
        merged = merges.merge(one, other)
        alive[merged] = None
        _try_all(merges, merged, meets, heap)


def _try_all(
    merges: Merges, number: int, meets: dict[int, dict[int, None]], heap: list[tuple[float, int, int]]
) -> None:
    """Push what a group would save with each group it shares a document with, then let it be met itself."""
    others = {other: None for document in merges.groups[number].documents.tolist() for other in meets[document]}
    for other in others:
        apart = merges.cost(number) + merges.cost(other)
        saved = apart - merges.merged_cost(number, other)
        if saved > 0 and apart > 0:
            heappush(heap, (-saved / apart, min(number, other), max(number, other)))
    for document in merges.groups[number].documents.tolist():
        meets[document][number] = None


def choose(merges: Merges, held_out: Demand | None, groups_max: int, tolerance: float = 1e-9) -> Strategy:
    """The cheapest point of the history: on the documents learned from (as the paper has it), or on held-out ones.

    Held-out documents are routed with every candidate number of groups, one group always among them, so what is chosen
    never costs them more than a single tree. Of equal costs the fewest groups.
    """
    groups = len(merges.leaves) - np.arange(len(merges.history) + 1)
    allowed = np.flatnonzero(groups <= max(groups_max, groups.min())) if groups_max else np.arange(len(groups))
    if held_out is None or held_out.document_count == 0:
        costs = merges.costs()
        cheapest = allowed[costs[allowed] <= costs[allowed].min() * (1 + tolerance)]
        return merges.strategy(int(cheapest[-1]))
    best = single(merges.terrain, merges.demand, merges.shape)
    lowest = best.cost(merges.terrain, held_out)
    for merge_count in _candidates(groups, allowed):
        strategy = merges.strategy(merge_count)
        cost = strategy.cost(merges.terrain, held_out)
        if cost < lowest:
            best, lowest = strategy, cost
    return best


def _candidates(groups: NDArray[np.integer], allowed: NDArray[np.integer]) -> list[int]:
    """Merge counts to try, fewest groups first, in geometric steps."""
    few, many = int(groups[allowed].min()), int(groups[allowed].max())
    wanted = np.unique(np.geomspace(max(few, 1), max(many, 1), CANDIDATES).round().astype(np.int64))
    counts = {int(groups[0] - count) for count in wanted.tolist()}
    return sorted(counts & set(allowed.tolist()), reverse=True)
