"""DYNATOPS in bulk: users placed, brokers seated, topic routing trees as unions of greedy paths from their roots."""

from __future__ import annotations

import numpy as np

from coterie.model import Channels, Entries, Overlay, Placement, Trees, Workload
from coterie.model.relation import Index
from coterie.substrate.chord import chord_ring
from coterie.substrate.identifiers import topic_keys
from coterie.substrate.trees import entries, top_down_trees
from coterie.systems.dynatops.hypergraph import partitioned
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.dynatops.placement import place_by_similarity
from coterie.systems.dynatops.positions import Slots, can_optimise, hashed_slots, optimise, slot_positions


def place_users(workload: Workload, parameters: DynatopsParameters, seed: int) -> Placement:
    if parameters.placement == "given":
        return Placement(workload.attachment, workload.node_count)
    if parameters.placement == "hypergraph":
        return Placement(_fewest_messages(workload, parameters, seed), workload.node_count)
    node_of = place_by_similarity(
        workload, parameters.cluster_size, parameters.load_weight, parameters.joins_per_update, parameters.rounds
    )
    return Placement(node_of, workload.node_count)


def _fewest_messages(workload: Workload, parameters: DynatopsParameters, seed: int) -> Index:
    """Hypergraph placement, or the given one should that need fewer messages: partitioning knows no relays."""
    positions = slot_positions(workload.node_count, parameters.spacing, seed)[hashed_slots(workload.node_count, seed)]
    ring, keys = chord_ring(positions, parameters.near), topic_keys(workload.topic_count)

    def messages(node_of: Index) -> float:
        trees = top_down_trees(ring, keys, workload.node_interests(node_of).transposed)
        return float((workload.rates * trees.edge_counts).sum())

    found = partitioned(workload, parameters.imbalance, seed).node_of
    return found if messages(found) <= messages(workload.attachment) else workload.attachment


def hypergraph_imbalance(parameters: DynatopsParameters) -> float | None:
    """Large crowds may be placed elsewhere, block by block, where hypergraph placement is asked for."""
    return parameters.imbalance if parameters.placement == "hypergraph" else None


def seat_brokers(
    workload: Workload, placement: Placement, channels: Channels, parameters: DynatopsParameters, seed: int
) -> Overlay:
    """A Chord ring whose brokers sit where the trees want them, starting from consistent hashing.

    Networks too large for the optimisers' tables stay with consistent hashing.
    """
    places = slot_positions(workload.node_count, parameters.spacing, seed)
    slot_of = hashed_slots(workload.node_count, seed)
    if parameters.positions != "hash" and can_optimise(workload.node_count, workload.topic_count):
        slots = Slots.at(places)
        interests = workload.node_interests(placement.node_of)
        instance = slots.instance(interests, workload.rates, parameters.delay_weight)
        slot_of = optimise(slots, instance, slot_of, parameters.positions, seed)
    return chord_ring(places[slot_of], parameters.near).overlay


def routing_trees(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: DynatopsParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    assert overlay.positions is not None
    ring = chord_ring(overlay.positions, parameters.near)
    keys = topic_keys(workload.topic_count)
    members = workload.node_interests(placement.node_of).transposed
    publications = workload.publications
    publisher_node = placement.node_of[publications.publisher].astype(np.int32)
    return top_down_trees(ring, keys, members), entries(ring, publisher_node, publications.topic, keys)
