"""One neighbour maintenance task of one node (Figures 1 to 5), greedy or random: all decisions, no messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from random import Random

from coterie.model.plan import Topic
from coterie.systems.spidercast.messages import Standing
from coterie.systems.spidercast.view import InterestView

GREEDY, RANDOM = 0, 1
ASKED_S = 2.0  # a CONNECT unanswered this long is forgotten


@dataclass
class TaskNeighbour:
    """A neighbour as Figure 1 records it."""

    interest: frozenset[Topic]
    degree: int
    target: int
    is_pinned: bool = False  # planned, or a repair: never given up for thrift
    refused: int = -1  # its degree when it was last asked to disconnect


class Task:
    """The variables of Figure 1 and the choices made with them. The node asks what to do and sends the messages."""

    def __init__(self, kind: int, coverage: int, margin: int, quarantine_s: float, is_strict: bool) -> None:
        self.kind = kind
        self.coverage = coverage  # K
        self.target = 0  # L
        self.interest: frozenset[Topic] = frozenset()
        self.neighbours: dict[int, TaskNeighbour] = {}
        self._margin = margin
        self._quarantine_s = quarantine_s
        self._is_strict = is_strict
        self._redirected: list[int] = []
        self._kept_away: dict[int, float] = {}  # quarantined or asked, until when
        self._cover: Counter[Topic] | None = None  # neighbours per topic; None when a neighbour has changed

    @property
    def limit(self) -> int:
        """L^max."""
        return self.coverage * len(self.interest)

    @property
    def standing(self) -> Standing:
        return len(self.neighbours), self.target

    @property
    def has_room(self) -> bool:
        return len(self.neighbours) < self.limit + self._margin

    @property
    def cover(self) -> Counter[Topic]:
        """How many neighbours want each topic."""
        if self._cover is None:
            self._cover = Counter(chain.from_iterable(peer.interest for peer in self.neighbours.values()))
        return self._cover

    def uncovered(self) -> frozenset[Topic]:
        cover = self.cover
        return frozenset([topic for topic in self.interest if cover[topic] < self.coverage])

    def needs(self, node: int) -> int:
        """Topics that would fall below K without this neighbour."""
        cover = self.cover
        return sum([cover[topic] <= self.coverage for topic in self.interest & self.neighbours[node].interest])

    # --- choices ---

    def next_neighbour(self, view: InterestView, now_s: float, random: Random) -> int | None:
        """NEXTCOVERAGENODE, Figure 5; sets the target as Figure 2, lines 7 to 9 do. None if there is nobody to ask."""
        uncovered = self.uncovered()
        if not uncovered or not self.coverage:
            return None
        self.target = self.limit
        if len(self.neighbours) >= self.target:
            return None
        self._kept_away = {node: until_s for node, until_s in self._kept_away.items() if until_s > now_s}
        while self._redirected:
            named = self._redirected.pop()
            if named not in self.neighbours and named not in self._kept_away:
                return self._asked(named, now_s)
        best = 1
        ties: list[int] = []
        for node, (interest, _) in view.items():
            gain = len(uncovered.intersection(interest))
            if gain < best or node in self.neighbours or node in self._kept_away:
                continue
            if gain > best and self.kind == GREEDY:
                best, ties = gain, []
            ties.append(node)
        return self._asked(random.choice(ties), now_s) if ties else None

    def _asked(self, node: int, now_s: float) -> int:
        self._kept_away[node] = now_s + ASKED_S
        return node

    def next_to_disconnect(self, random: Random) -> int | None:
        """DISCONNECT of Figure 2 and DISCONNECTCANDIDATE of Figure 3."""
        self.target = min(self.limit, len(self.neighbours))
        fewest = len(self.interest) + 1
        ties: list[int] = []
        for node, peer in self.neighbours.items():
            spare = peer.degree - peer.target
            if peer.is_pinned or peer.refused == peer.degree or spare < 0 or (spare == 0 and self._is_strict):
                continue
            lost = self.needs(node)
            if lost < fewest:
                fewest, ties = lost, []
            if lost == fewest:
                ties.append(node)
        if not ties or (fewest > 0 and len(self.neighbours) <= self.target):
            return None
        chosen = random.choice(ties)
        self.neighbours[chosen].refused = self.neighbours[chosen].degree  # until it answers otherwise
        return chosen

    def may_disconnect(self, node: int) -> bool:
        """Figure 4, lines 21 to 23."""
        if self.neighbours[node].is_pinned:
            return False
        return len(self.neighbours) > self.target or self.needs(node) == 0

    def redirect_for(self, interest: frozenset[Topic], asker: int, random: Random) -> int:
        """Figure 4, lines 7 and 8: a neighbour with room that shares most with the asker; -1 if there is none."""
        roomy = [
            (len(peer.interest & interest), node)
            for node, peer in self.neighbours.items()
            if node != asker and peer.degree < peer.target + self._margin
        ]
        most = max(roomy, default=(0, -1))[0]
        return random.choice([node for shared, node in roomy if shared == most]) if roomy else -1

    # --- changes ---

    def add(self, node: int, interest: Iterable[Topic], standing: Standing, is_pinned: bool = False) -> None:
        held = self.neighbours.get(node)
        pinned = is_pinned or (held is not None and held.is_pinned)
        self.neighbours[node] = TaskNeighbour(frozenset(interest), *standing, is_pinned=pinned)
        self._kept_away.pop(node, None)
        self._cover = None
        if held is None and self.target < self.limit and len(self.neighbours) < self.target + self._margin:
            self.target += 1

    def remove(self, node: int) -> bool:
        """True if it was a neighbour."""
        self._cover = None
        return self.neighbours.pop(node, None) is not None

    def disconnected(self) -> None:
        """Figure 4, lines 26 and 27."""
        if not self.uncovered():
            self.target = len(self.neighbours)

    def heard(self, node: int, interest: frozenset[Topic], standing: Standing) -> bool:
        """A neighbour's heartbeat; True if something in it may change our mind."""
        peer = self.neighbours.get(node)
        if peer is None or (peer.interest == interest and (peer.degree, peer.target) == standing):
            return False
        peer.interest, (peer.degree, peer.target) = interest, standing
        self._cover = None
        return True

    def told(self, node: int, interest: frozenset[Topic]) -> None:
        """A neighbour's interest has changed."""
        if node in self.neighbours:
            self.neighbours[node].interest = interest
            self._cover = None

    def refused(self, node: int, instead: int, now_s: float) -> None:
        """A REDIRECT: leave the refuser alone for a while, try whom it named."""
        self._kept_away[node] = now_s + self._quarantine_s
        if instead >= 0 and len(self._redirected) < 16:
            self._redirected.append(instead)
