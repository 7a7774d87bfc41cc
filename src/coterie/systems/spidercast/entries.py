"""Where publications enter their topics, in bulk: at home, by a walk, and again for each other piece of a topic."""

from __future__ import annotations

import numpy as np

from coterie.model import Entries, Relation
from coterie.model.relation import Index
from coterie.systems.spidercast.baselines import parts
from coterie.systems.spidercast.entry import WALK_MAX, next_hop


def entries_of(members: Relation, links: Relation, publisher_node: Index, topic: Index) -> Entries:
    """One row per publication; a topic that the links leave in pieces (a design kept for later interests) gets one row
    more for each other piece, by a shortest path over the overlay."""
    paths: list[list[int]] = []
    publication: list[int] = []
    pieces: dict[int, dict[int, int]] = {}
    for index, (node, wanted) in enumerate(zip(publisher_node.tolist(), topic.tolist(), strict=True)):
        if wanted not in pieces:
            pieces[wanted] = _pieces(members.row(wanted), links)
        piece_of = pieces[wanted]
        first = _walk(node, piece_of, links)
        paths.append(first)
        publication.append(index)
        missing = set(piece_of.values()) - {piece_of.get(first[-1], -1)}
        if missing:
            onward = _shortest_paths(node, piece_of, missing, links)
            paths += onward
            publication += [index] * len(onward)
    of = np.array(publication, np.int32)
    lengths = [len(path) for path in paths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    hops = np.array([node for path in paths for node in path], np.int32)
    return Entries(of, topic[of].astype(np.int32), np.full(len(of), -1, np.int32), indptr, hops)


def _pieces(members: Index, links: Relation) -> dict[int, int]:
    """Member -> the lowest member of its piece."""
    inside = np.zeros(links.row_count, bool)
    inside[members] = True
    kept = inside[links.rows] & inside[links.columns]
    rows, columns = links.rows[kept], links.columns[kept]
    piece = parts(Relation.from_pairs(rows, columns, links.row_count, links.row_count))
    return dict(zip(members.tolist(), piece[members].tolist(), strict=True))


def _walk(node: int, members: dict[int, int], links: Relation) -> list[int]:
    """The very walk the nodes take."""
    trail = [node]
    while trail[-1] not in members:
        onward = None
        if len(trail) <= WALK_MAX:
            onward = next_hop(trail, links.row(trail[-1]).tolist(), members.__contains__)
        if onward is None:
            onward = min((member for member in members if member not in trail), default=None)
        if onward is None:
            break
        trail.append(onward)
    return trail


def _shortest_paths(node: int, piece_of: dict[int, int], missing: set[int], links: Relation) -> list[list[int]]:
    """To the nearest member of each missing piece, breadth first."""
    before = {node: -1}
    queue = [node]
    found: list[list[int]] = []
    left = set(missing)
    for at in queue:
        piece = piece_of.get(at, -1)
        if piece in left:
            left.discard(piece)
            path = [at]
            while before[path[-1]] >= 0:
                path.append(before[path[-1]])
            found.append(path[::-1])
            if not left:
                break
        for peer in links.row(at).tolist():
            if peer not in before:
                before[peer] = at
                queue.append(peer)
    return found
