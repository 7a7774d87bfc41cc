"""What the matrix runs: a paper's system and `coterie` on that paper's workload, held to what the paper guarantees.

Both are planned on the same workload and priced by the same accountant. Peers are their own nodes and stay; clients of
brokers may be placed, and both systems' balance is in the row; a given network stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.lab.experiment import Point
from coterie.lab.measuring import Setting
from coterie.model import Design, Ledger, Relation, Workload
from coterie.systems import system_named
from coterie.systems.spidercast import measures
from coterie.workloads import make_workload

Values = dict[str, float]
COVERED = 3  # neighbours per interest that SpiderCast asks for
PATHS_MAX = 2e9  # steps of exact shortest paths inside all topics


@dataclass(frozen=True)
class MatrixRow:
    """Whose workload and metric, the paper's system as the paper sets it, and what `coterie` is held to."""

    system: str
    metric: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    held_to: Mapping[str, Setting] = field(default_factory=dict)
    is_even: bool = False  # the busiest node may be no more above the mean than the paper's system has it


ROWS = {
    "spidercast": MatrixRow("spidercast", "degree", {"k_greedy": 3, "k_random": 0}, {"links": "lean", "coverage": 3}),
    "tamara": MatrixRow("tamara", "overall"),
    "magnet": MatrixRow("magnet", "unwanted"),
    "dynatops": MatrixRow("dynatops", "messages", {}, {"imbalance": 0.03}, is_even=True),
    "content": MatrixRow("content", "link_cost", {}, {"placement": "given"}, is_even=True),
    "content-placed": MatrixRow("content", "link_cost", is_even=True),
}


def workload_of(point: Point, seed: int) -> Workload:
    settings = {key: value for key, value in point.items() if key not in ("row", "workload")}
    if str(point.get("network", "")).startswith("flat-"):
        settings |= {"network": "flat", "degree": str(point["network"]).partition("-")[2]}
    return make_workload(str(point["workload"]), settings, seed)


def run_row(point: Point, seed: int) -> Mapping[str, float]:
    """Both systems' columns, theirs with `their_` before the name, ours with `our_`."""
    row, workload = ROWS[str(point["row"])], workload_of(point, seed)
    theirs = columns(planned(row.system, row.settings, workload, seed), workload)
    held_to = dict(row.held_to)
    if row.is_even:
        held_to["hottest_max"] = theirs["hottest"]
    try:
        design = planned("coterie", held_to, workload, seed)
    except ConfigError:  # nothing is so even: then as it comes, which the row shows
        design = planned("coterie", row.held_to, workload, seed)
    ours = columns(design, workload)
    values = {
        f"{whose}_{key}": value for whose, told in (("their", theirs), ("our", ours)) for key, value in told.items()
    }
    return values | {"metric_ratio": ours[row.metric] / max(theirs[row.metric], 1e-12)}


def planned(name: str, settings: Mapping[str, Setting], workload: Workload, seed: int) -> Design:
    system = system_named(name)
    return system.plan(workload, system.configure(dict(settings)), seed)


def columns(design: Design, workload: Workload) -> Values:
    """The metrics of all five papers, and what each of them is paid with."""
    bill = price(design, workload)
    events = float(workload.publications.rate.sum())
    interests, links = workload.node_interests(design.placement.node_of), design.overlay.undirected
    flows = bill.dissemination
    return {
        "overall": bill.overall,
        "unwanted": flows.relayed + flows.filtered,
        "messages": flows.copies / max(events, 1e-12),
        "link_cost": flows.link_cost,
        "degree": bill.state.degree.mean,
        "degree_max": bill.state.degree.max,
        "hops": bill.delay.hops.mean,
        "hops_max": bill.delay.hops.max,
        "moves": bill.setup.moves,
        **balance(bill),
        **sturdiness(links, interests),
    }


def balance(bill: Ledger) -> Values:
    load = bill.load
    clients = load.clients.max / load.clients.mean if load.clients.mean else 0.0
    return {"clients_max": clients, "hottest": load.hottest, "busiest": load.messages.max}


def sturdiness(links: Relation, interests: Relation) -> Values:
    """Topics in pieces among their own members, members whose crash alone cuts one, and neighbours per interest.

    The diameter is the longest way inside a topic, where that is affordable and topics are connected.
    """
    pieces = float(measures.connectivity(links, interests).partitioned_count)
    values = {"partitioned": pieces, **redundancy(links, interests)}
    by_topic = interests.transposed
    if not pieces and float((by_topic.lengths.astype(np.float64) ** 2).sum()) * links.lengths.mean() <= PATHS_MAX:
        values["diameter"] = float(measures.topic_diameter(links, interests))
        values["cut_vertices"] = float(measures.cut_vertices(links, interests).sum())
    return values


def redundancy(links: Relation, interests: Relation) -> Values:
    """How many neighbours that want it too a node has for one of its topics, on average; interests with too few.

    Too few is less than three, or than all others where a topic has fewer.
    """
    if not interests.pair_count:
        return {"redundancy": 0.0, "bare": 0.0}
    wanted, near = _matrix(interests), _matrix(links)
    shared = (near @ wanted).multiply(wanted).tocsr()
    needed = np.minimum(COVERED, interests.transposed.lengths - 1)
    enough = np.count_nonzero(shared.data >= needed[shared.indices])
    alone = int(np.count_nonzero(needed[interests.columns] == 0))
    count = interests.pair_count
    return {"redundancy": float(shared.sum() / count), "bare": float(count - alone - enough) / count}


def _matrix(relation: Relation) -> csr_matrix:
    ones = np.ones(relation.pair_count, np.float32)
    return csr_matrix((ones, relation.columns, relation.indptr), shape=(relation.row_count, relation.column_count))
