"""Beyond the Magnet paper: what each change that makes interest-ring of it is worth; its induction to the letter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from coterie.accounting.price import price
from coterie.kernels.trees.interested import interested_trees
from coterie.lab.experiment import OURS, Claim, Experiment, Point, per_seed, yes
from coterie.lab.magnet_measures import parameters_of, workload_of
from coterie.lab.measuring import value
from coterie.model import Ledger, Spread, Trees, Workload
from coterie.protocol.system import Stages
from coterie.substrate.identifiers import topic_keys
from coterie.substrate.rings import ClockwiseRing
from coterie.substrate.trees import path_union
from coterie.systems.magnet.orderings import likeness_ordering
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.stages import control_ring, greedy_paths, ordered_overlay, skewed_part
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM

Tree = dict[int, int]  # child -> parent
ARRIVALS = ANYHOW, RINGWISE = "anyhow", "ringwise"  # in which order members join; the text does not tell


def step_by_step(workload: Workload, own: MagnetParameters, seed: int) -> dict[str, Ledger]:
    """What each of the three changes that make interest-ring of Magnet is worth: the order, the links that count, and
    where trees begin."""
    by_likeness = Stages(overlay=ordered_overlay(likeness_ordering), trees=greedy_paths, upkeep=SYSTEM.stages.upkeep)
    design = INTEREST_RING.plan(workload, own, seed)
    control = control_ring(workload.node_count, own.control_near)
    ring = skewed_part(design.overlay, control, own.near)
    members, homes = design.trees.members, design.trees.root
    edges = interested_trees(ring.positions, ring.indptr, ring.links, homes, members.indptr, members.columns)
    from_homes = replace(design, trees=Trees(Spread.ROOTED, members, homes, *edges))
    return {
        "magnet": price(SYSTEM.plan(workload, own, seed), workload),
        "by_likeness": price(by_likeness.plan("magnet", workload, own, seed), workload),
        "interested_links": price(from_homes, workload),
        "interest_ring": price(design, workload),
    }


def beyond(point: Point, seed: int) -> Mapping[str, float]:
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    strawman = price(UNIFORM.plan(workload, plain, seed), workload).dissemination.relayed
    bills = step_by_step(workload, own, seed)
    return {
        **{f"saving_{name}": 1 - bill.dissemination.relayed / strawman for name, bill in bills.items()},
        **{f"hops_{name}": bill.delay.hops.mean for name, bill in bills.items()},
        "relays_to_magnet": bills["interest_ring"].dissemination.relayed / bills["magnet"].dissemination.relayed,
        "overall_to_magnet": bills["interest_ring"].overall / bills["magnet"].overall,
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
    joined, astray = 0, dict.fromkeys(ARRIVALS, 0)
    for topic in range(workload.topic_count):
        arriving, home = members.row(topic).tolist(), int(homes[topic])
        low, high = greedy.indptr[topic], greedy.indptr[topic + 1]
        proper = dict(zip(greedy.node[low:high].tolist(), greedy.parent[low:high].tolist(), strict=True))
        joined += len(arriving)
        for order in ARRIVALS:
            random.shuffle(arriving)
            if order == RINGWISE:
                arriving.sort(key=lambda member: (int(ring.positions[member]) - int(ring.positions[home])) % 2**64)
            tree = join_to_the_letter(ring, home, arriving, random)
            astray[order] += sum(tree.get(member) != proper.get(member) for member in arriving)
    return {f"astray_{order}": found / max(joined, 1) for order, found in astray.items()}


_SMALL: Point = {"nodes": 600, "topics": 200, "subscriptions": 12}
BEYOND = Experiment(
    id="magnet/interest-ring",
    paper="magnet",
    where="beyond the paper",
    title="Order by likeness, paths that prefer the interested, roots among the subscribers",
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
    full_seeds=3,
    claims=(
        yes(
            "interest-ring/fewer-relays",
            OURS,
            "interest-ring has at most two thirds of Magnet's relays with one category of ten",
            lambda rows: [float(share <= 2 / 3) for share in per_seed(rows, "relays_to_magnet", modes=10)],
        ),
    ),
)

LETTER = Experiment(
    id="magnet/algorithm2",
    paper="magnet",
    where="section 3.3",
    title="Algorithm 2 to the letter",
    run=letter_of_algorithm_2,
    quick=[{"workload": "multimodal", "nodes": 200, "topics": 40, "subscriptions": 4, "modes": 10, "links": 10}],
    full=[{"workload": "multimodal", "nodes": 2000, "topics": 100, "subscriptions": 5, "modes": 10}],
    full_seeds=3,
    claims=(
        Claim(
            "algorithm2/induction",
            "section 3.3",
            "the way from the root to a subscriber coincides with the greedy path: no member is led astray",
            0.0,
            0.0,
            value(f"astray_{ANYHOW}"),
            because="the newcomer climbs from the other side until some node has its next hop as a child, but that "
            "node need not be on the greedy path from the root: all its links may end before it. Whatever the order "
            "of joins, some are led astray; nodes that know the range they are responsible for, as ours do, lead none",
        ),
        Claim(
            "algorithm2/induction-ringwise",
            "section 3.3",
            "the same where members join in the order of the ring, from the root on",
            0.0,
            0.0,
            value(f"astray_{RINGWISE}"),
            reads="algorithm2/induction",
        ),
    ),
)
