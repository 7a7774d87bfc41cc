"""Peer sampling: bounded, fresh, and it forgets who left."""

from __future__ import annotations

from random import Random

import pytest

from coterie.errors import ConfigError
from coterie.protocol.membership import Descriptor, PeerView


def gossip(views: dict[int, PeerView], rounds: int, seed: int) -> None:
    order = Random(seed)
    for _ in range(rounds):
        for node in order.sample(sorted(views), len(views)):
            view = views[node]
            view.grow_older()
            peer = view.oldest()
            if peer is None:
                continue
            offered = view.offer(Descriptor(node), to=peer)
            if peer not in views:
                view.forget(peer)
                continue
            back = views[peer].offer(Descriptor(peer), to=node)
            views[peer].absorb(offered, sent=back)
            view.absorb(back, sent=offered)


def ring_of_views(count: int, capacity: int) -> dict[int, PeerView]:
    views = {node: PeerView(node, capacity, 4, Random(node)) for node in range(count)}
    for node, view in views.items():
        view.absorb([Descriptor((node + 1) % count), Descriptor((node + 2) % count)])
    return views


def test_a_ring_mixes_into_a_random_graph() -> None:
    views = ring_of_views(60, capacity=8)
    gossip(views, rounds=30, seed=1)
    assert all(len(view) == 8 for view in views.values())
    known_by = [sum(node in view for view in views.values()) for node in views]
    assert min(known_by) >= 1
    far = sum(abs(peer.node - node) % 60 > 5 for node, view in views.items() for peer in view.descriptors())
    assert far > 60 * 8 * 0.7


def test_the_dead_are_forgotten() -> None:
    views = ring_of_views(60, capacity=8)
    gossip(views, rounds=20, seed=1)
    for node in range(0, 60, 4):
        del views[node]
    gossip(views, rounds=40, seed=2)
    assert not any(peer.node % 4 == 0 for view in views.values() for peer in view.descriptors())


def test_the_newest_word_about_an_interest_wins() -> None:
    view = PeerView(0, 4, 2, Random(1))
    view.absorb([Descriptor(5, interest=(1,), version=2, age=3)])
    view.absorb([Descriptor(5, interest=(9,), version=1, age=0)])
    assert view.get(5) == Descriptor(5, interest=(1,), version=2, age=3)
    view.absorb([Descriptor(5, interest=(7,), version=3, age=9)])
    assert view.get(5) == Descriptor(5, interest=(7,), version=3, age=9)


def test_it_never_knows_itself_nor_more_than_its_capacity() -> None:
    view = PeerView(0, 4, 2, Random(1))
    view.absorb(Descriptor(node) for node in range(20))
    assert len(view) == 4
    assert 0 not in view


@pytest.mark.parametrize(("capacity", "exchange"), [(0, 1), (4, 5), (4, 0)])
def test_bad_sizes_are_refused(capacity: int, exchange: int) -> None:
    with pytest.raises(ConfigError):
        PeerView(0, capacity, exchange, Random(1))
