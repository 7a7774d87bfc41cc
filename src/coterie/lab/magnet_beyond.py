"""Beyond the Magnet paper: paths that prefer the interested, roots among the subscribers, and its induction."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from coterie.accounting.price import price
from coterie.kernels.interest_trees import interested_trees
from coterie.lab.experiment import Claim, Experiment, Point
from coterie.lab.magnet_measures import parameters_of, value, workload_of
from coterie.model import Relation
from coterie.model.relation import Index
from coterie.substrate.identifiers import topic_keys
from coterie.substrate.rings import ClockwiseRing
from coterie.substrate.trees import path_union
from coterie.systems.magnet.plan import control_ring, skewed_part
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM

Tree = dict[int, int]  # child -> parent


def first_after_largest_gap(ring: ClockwiseRing, members: Relation) -> Index:
    """The root from which a clockwise tree has the least empty ring to cross; 0 for topics nobody wants."""
    rank = ring.circle.rank
    roots = np.zeros(members.row_count, np.int32)
    for topic in range(members.row_count):
        nodes = members.row(topic)
        if len(nodes):
            ordered = nodes[np.argsort(rank[nodes])]
            gaps = (rank[ordered] - np.roll(rank[ordered], 1)) % ring.circle.node_count
            roots[topic] = ordered[int(np.argmax(gaps))]
    return roots


def _relays(edges_of: np.ndarray, node: np.ndarray, members: Relation, rates: np.ndarray) -> float:
    """Rate of copies to nodes that are no members, over all tree edges."""
    topic = np.repeat(np.arange(members.row_count), edges_of)
    key = topic.astype(np.int64) * members.column_count + node
    wanted = members.rows.astype(np.int64) * members.column_count + members.columns
    return float((rates[topic] * ~np.isin(key, wanted)).sum())


def beyond(point: Point, seed: int) -> Mapping[str, float]:
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    strawman = price(UNIFORM.plan(workload, plain, seed), workload).dissemination.relayed
    magnet = price(SYSTEM.plan(workload, own, seed), workload)
    design = INTEREST_RING.plan(workload, own, seed)
    ours = price(design, workload)
    control = control_ring(workload.node_count, own.control_near)
    ring = skewed_part(design.overlay, control, own.near)
    members = design.trees.members
    roots = first_after_largest_gap(ring, members)
    indptr, node, _ = interested_trees(ring.positions, ring.indptr, ring.links, roots, members.indptr, members.columns)
    rooted = _relays(np.diff(indptr), node, members, workload.rates)
    return {
        "saving_magnet": 1 - magnet.dissemination.relayed / strawman,
        "saving_interest_ring": 1 - ours.dissemination.relayed / strawman,
        "saving_with_member_roots": 1 - rooted / strawman,
        "relays_to_magnet": ours.dissemination.relayed / magnet.dissemination.relayed,
        "relays_to_magnet_with_member_roots": rooted / magnet.dissemination.relayed,
        "hops_magnet": magnet.delay.hops.mean,
        "hops_interest_ring": ours.delay.hops.mean,
    }


# --- Algorithm 2 to the letter ---


def _hop(ring: ClockwiseRing, node: int, target: int) -> int:
    own = int(ring.positions[node])
    left = (int(ring.positions[target]) - own) % 2**64
    links = ring.links_of(node).tolist()
    ahead = [link for link in links if (int(ring.positions[link]) - own) % 2**64 <= left]
    return int(ahead[-1] if ahead else links[0])


def join_to_the_letter(ring: ClockwiseRing, root: int, members: list[int], random: Random) -> Tree:
    """Members join one after the other, each through a random earlier one, with the paper's grafting condition."""
    parent: Tree = {}
    on_tree = [root]
    for member in members:
        at = random.choice(on_tree)
        while at != root and parent.get(_hop(ring, at, member)) != at:
            at = parent[at]
        while at != member:
            following = _hop(ring, at, member)
            if following != root:
                parent.setdefault(following, at)
            at = following
        if member not in on_tree:
            on_tree.append(member)
    return parent


def letter_of_algorithm_2(point: Point, seed: int) -> Mapping[str, float]:
    """The share of members whose way from the root is another than the greedy path."""
    workload = workload_of(point, seed)
    own, _ = parameters_of(point)
    design = SYSTEM.plan(workload, own, seed)
    control = control_ring(workload.node_count, own.control_near)
    ring = skewed_part(design.overlay, control, own.near)
    homes = control.owners(topic_keys(workload.topic_count))
    members = design.trees.members
    greedy = path_union(ring, homes, members, is_upward=False)
    random = Random(seed)
    joined = astray = 0
    for topic in range(workload.topic_count):
        arriving = members.row(topic).tolist()
        random.shuffle(arriving)
        tree = join_to_the_letter(ring, int(homes[topic]), arriving, random)
        low, high = greedy.indptr[topic], greedy.indptr[topic + 1]
        proper = dict(zip(greedy.node[low:high].tolist(), greedy.parent[low:high].tolist(), strict=True))
        joined += len(arriving)
        astray += sum(tree.get(member) != proper.get(member) for member in arriving)
    return {"astray_share": astray / max(joined, 1)}


_SMALL: Point = {"nodes": 600, "topics": 200, "subscriptions": 12}
BEYOND = Experiment(
    id="magnet/interest-ring",
    paper="magnet",
    where="beyond the paper",
    title="Paths that prefer the interested, and roots among the subscribers",
    run=beyond,
    quick=[{"workload": "multimodal", **_SMALL, "modes": 10}],
    full=[
        {"workload": "multimodal", "modes": 10},
        {"workload": "multimodal", "modes": 25, "modes_per_peer": 5},
        {"workload": "spatial"},
        {"workload": "hierarchical"},
        {"workload": "uncorrelated"},
        {"workload": "wiki", "links": 12, "rates": "constant"},
    ],
    full_seeds=2,
)

LETTER = Experiment(
    id="magnet/algorithm2",
    paper="magnet",
    where="section 3.3",
    title="Algorithm 2 to the letter",
    run=letter_of_algorithm_2,
    quick=[{"workload": "multimodal", "nodes": 200, "topics": 40, "subscriptions": 4, "modes": 10, "links": 10}],
    full=[{"workload": "multimodal", "nodes": 2000, "topics": 100, "subscriptions": 5, "modes": 10}],
    full_seeds=2,
    claims=(
        Claim(
            "algorithm2/induction",
            "section 3.3",
            "the way from the root to a subscriber coincides with the greedy path: no member is led astray",
            0.0,
            0.0,
            value("astray_share"),
            because="a node whose next hop towards the member is its child need not be on the greedy path from the "
            "root itself; our nodes carry the range they are responsible for, and graft only within it",
        ),
    ),
)
