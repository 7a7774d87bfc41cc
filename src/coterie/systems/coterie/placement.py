"""Where clients go: with others who want the same, publishers counted, and nobody further than the limits allow."""

from __future__ import annotations

from coterie.kernels.placement.search import MOVES
from coterie.kernels.placement.solve import SMALL_PINS, Start
from coterie.model import Placement, Workload
from coterie.substrate.placing import Balance, Placed, Zoning, placed
from coterie.systems.coterie.parameters import CoterieParameters
from coterie.systems.dynatops.placement import place_by_similarity


def place_together(workload: Workload, parameters: CoterieParameters, seed: int) -> Placement:
    """Clients by what they want and publish; a peer is its node and stays."""
    if parameters.placement == "given" or not workload.interests.pair_count or workload.is_peer_network:
        return Placement(workload.attachment, workload.node_count)
    return Placement(placing(workload, parameters, seed).node_of, workload.node_count)


def placing(workload: Workload, parameters: CoterieParameters, seed: int) -> Placed:
    """The placement with what it saves, who moves, and who makes the stated balance impossible."""
    balance = Balance(parameters.imbalance, parameters.message_imbalance)
    zoning = Zoning(parameters.across - 1, parameters.leaving != "never", parameters.leaving == "free")
    if parameters.moves_per_day >= 0:
        most = int(parameters.moves_per_day * workload.subscriber_count)
        return placed(workload, balance, seed, moves_max=most, zoning=zoning)
    starts = list[Start]()
    if workload.interests.pair_count <= SMALL_PINS:  # of use where interests have no groups
        starts.append((place_by_similarity(workload, workload.node_count, load_weight=1.0, rounds=2), MOVES[2:]))
    return placed(workload, balance, seed, starts=starts, zoning=zoning)
