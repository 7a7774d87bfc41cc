"""Routers in a small network: nodes join through anybody, leave, crash and repair, and every key finds its owner."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.substrate.chord import ChordRouter
from coterie.substrate.identifiers import MASK, node_position, topic_key
from coterie.substrate.oscar import OscarRouter, OscarShape
from coterie.substrate.pastry import PastryRouter
from coterie.substrate.rings import Circle
from coterie.substrate.router import RingRouter

KINDS: dict[str, Callable[[int, int], RingRouter]] = {
    "chord": lambda peer, position: ChordRouter(peer, position, near=3),
    "pastry": lambda peer, position: PastryRouter(peer, position, leaves=6),
    "oscar": lambda peer, position: OscarRouter(peer, position, OscarShape(links=5, near=3)),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@dataclass
class Network:
    """Calls instead of messages: whoever sends to a dead peer notices, and nobody knows more than it was told."""

    kind: str
    routers: dict[int, RingRouter] = field(default_factory=dict)

    def route(self, start: int, key: int) -> list[int]:
        """The nodes a message passes; a dead next hop is forgotten, mourned, and another one is tried."""
        path = [start]
        while (following := self.routers[path[-1]].next_hop(key)) is not None:
            if following in self.routers:
                path.append(following)
            else:
                self.mourn(path[-1], following)
            assert len(path) < 200, "a message went around in circles"
        return path

    def mourn(self, node: int, lost: int) -> None:
        """Forget a dead peer and ask those who may know for somebody in its place."""
        router = self.routers[node]
        asked = router.repair_candidates(lost)
        router.forget(lost)
        for peer in asked:
            if peer in self.routers:
                self.hear(node, self.routers[peer].state_for(router.position))

    def hear(self, node: int, contacts: list[tuple[int, int]]) -> None:
        """Learn from others, and greet whom we did not know."""
        router = self.routers[node]
        for peer in router.learn_all(contacts, is_hearsay=True):
            if peer in self.routers:
                self.routers[peer].learn(node, router.position)
            else:
                self.mourn(node, peer)

    def join(self, peer: int, position: int, via: int | None) -> None:
        path = [] if via is None else self.route(via, position)
        self.routers[peer] = KINDS[self.kind](peer, position)
        for helper in reversed(path):
            self.hear(peer, self.routers[helper].state_for(position))

    def leave(self, peer: int) -> None:
        leaver = self.routers.pop(peer)
        for target in leaver.announce_targets():
            if target in self.routers:
                self.routers[target].forget(peer)
                self.hear(target, leaver.state_for(self.routers[target].position))

    def heartbeat(self) -> None:
        """Everybody calls its near peers once: the dead are mourned, the living tell what they know."""
        for node in sorted(self.routers):
            router = self.routers[node]
            for peer, _ in router.successors() + router.predecessors():
                if peer not in self.routers:
                    self.mourn(node, peer)
                else:
                    self.routers[peer].learn(node, router.position)
                    self.hear(node, self.routers[peer].state_for(router.position))

    def check(self, keys: list[int]) -> None:
        """From every node, every key reaches its owner; and what a node keeps stays bounded."""
        peers = sorted(self.routers)
        circle = Circle(np.array([self.routers[peer].position for peer in peers], np.uint64))
        find = circle.nearest if self.kind == "pastry" else circle.successors
        owners = [peers[node] for node in find(np.array(keys, np.uint64)).tolist()]
        for start in peers:
            assert [self.route(start, key)[-1] for key in keys] == owners
        assert all(len(router.neighbours()) <= 6 + 64 for router in self.routers.values())


@kinds
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.lists(st.sampled_from("jjjlc"), min_size=1, max_size=40))
def test_any_sequence_of_joins_leaves_and_crashes_is_survived(kind: str, seed: int, steps: list[str]) -> None:
    draw = random.Random(seed)
    network = Network(kind)
    network.join(0, node_position(0, seed), None)
    for peer, step in enumerate(steps, start=1):
        present = sorted(network.routers)
        if step == "j" or len(present) == 1:
            network.join(peer, node_position(peer, seed), draw.choice(present))
        elif step == "l":
            network.leave(draw.choice(present))
        else:
            del network.routers[draw.choice(present)]
            network.heartbeat()
            network.heartbeat()
    network.check([topic_key(topic) for topic in range(10)] + [r.position for r in network.routers.values()])


@kinds
def test_a_fifth_of_the_nodes_crash_at_once(kind: str) -> None:
    draw = random.Random(4)
    network = Network(kind)
    for peer in range(150):
        network.join(peer, node_position(peer, 9), draw.randrange(peer) if peer else None)
    network.check([topic_key(topic) for topic in range(20)])
    for peer in draw.sample(range(150), 30):
        del network.routers[peer]
    for _ in range(3):
        network.heartbeat()
    network.check([topic_key(topic) for topic in range(20)])


@kinds
def test_joining_one_by_one_gives_true_ring_neighbours(kind: str) -> None:
    network = Network(kind)
    for peer in range(60):
        network.join(peer, node_position(peer, 2), peer - 1 if peer else None)
    circle = Circle(np.array([node_position(peer, 2) for peer in range(60)], np.uint64))
    for peer, router in network.routers.items():
        around = circle.order[(circle.rank[peer] + np.array([1, 2, 3, -1, -2, -3])) % 60].tolist()
        assert [p for p, _ in router.successors() + router.predecessors()] == around


@kinds
def test_hearsay_does_not_bring_the_dead_back_but_they_may_return(kind: str) -> None:
    router = KINDS[kind](0, 0)
    assert router.learn(1, 500)
    assert router.forget(1)
    assert not router.forget(1)
    assert not router.learn(1, 500, is_hearsay=True)
    assert router.learn(1, 500)
    assert router.neighbours() == [(1, 500)]


@kinds
def test_a_peer_that_moves_is_kept_at_its_new_place_only(kind: str) -> None:
    router = KINDS[kind](0, 0)
    router.learn(1, 500)
    router.learn(1, MASK)
    assert router.neighbours() == [(1, MASK)]
    assert router.next_hop(MASK) == 1
    assert not router.learn(2, MASK)  # taken
    assert not router.learn(2, 0)  # ours
    assert not router.learn(0, 7)  # ourselves


@kinds
def test_alone_everything_is_ours(kind: str) -> None:
    router = KINDS[kind](3, 77)
    assert router.next_hop(0) is None
    assert router.next_hop(77) is None
    assert router.neighbours() == router.announce_targets() == router.repair_candidates(9) == []
    assert router.state_for(5) == [(3, 77)]


@kinds
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=80),
    st.integers(0, 50),
)
def test_forgetting_leaves_what_the_rest_would_give(kind: str, steps: list[tuple[bool, int]], seed: int) -> None:
    """Whatever was learned and forgotten, the state equals that of a fresh router told of the peers kept."""
    router = KINDS[kind](0, node_position(0, seed))
    for is_learned, peer in steps:
        if is_learned:
            router.learn(peer, node_position(peer, seed))
        else:
            router.forget(peer)
    fresh = KINDS[kind](0, node_position(0, seed))
    fresh.learn_all(router.neighbours())
    assert fresh.neighbours() == router.neighbours()
    for topic in range(20):
        assert fresh.next_hop(topic_key(topic)) == router.next_hop(topic_key(topic))


@kinds
@settings(max_examples=60, deadline=None)
@given(
    told=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 3), st.sampled_from(("learn", "hearsay", "forget"))), max_size=150
    )
)
def test_who_is_turned_away_at_once_would_not_have_stayed(kind: str, told: list[tuple[int, int, str]]) -> None:
    """Most newcomers are refused before they are taken in: it must end as if they had been, and had to go again."""
    plain, asking = KINDS[kind](99, 7), KINDS[kind](99, 7)
    plain._would_keep = lambda distance: True  # type: ignore[method-assign]
    for peer, life, what in told:
        position = node_position(peer, life)
        said = [
            router.forget(peer) if what == "forget" else router.learn(peer, position, is_hearsay=what == "hearsay")
            for router in (plain, asking)
        ]
        assert said[0] == said[1]
    assert list(plain.known.items()) == list(asking.known.items())
    assert [plain.next_hop(topic_key(topic)) for topic in range(40)] == [
        asking.next_hop(topic_key(topic)) for topic in range(40)
    ]
