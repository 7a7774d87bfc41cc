"""Copies by the rule that links follow: equal to what the accountant says of the same design."""

from __future__ import annotations

from random import Random

import pytest

from coterie.accounting.price import price
from coterie.fleets.crossing import Copies, crossings_of, crossings_of_trees, flooded
from coterie.fleets.export.target import LinkShape
from coterie.fleets.outlook import copies_per_s
from coterie.fleets.trees import links_of, trees_per_topic
from coterie.fleets.workload import planned_home, workload_of
from coterie.systems import system_named
from tests.fleets.plans import by_hand
from tests.fleets.stock import Crowd


def layout_of(seed: int, brokers: int = 5):
    crowd = Crowd(30, 20, 5, seed)
    draw = Random(seed)
    home = {name: f"b{draw.randrange(brokers)}" for name in crowd.wishes}
    return by_hand(home, crowd.wishes, crowd.publishes, brokers)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("system", "settings", "shape"),
    [
        ("mesh", {}, LinkShape.MESH),
        ("star", {"crossing": "wanted"}, LinkShape.STAR),
        ("star", {"crossing": "all"}, None),
    ],
)
def test_a_design_and_its_links_cost_the_same(seed, system, settings, shape):
    layout = layout_of(seed)
    workload, _ = workload_of(layout)
    chosen = system_named(system)
    design = chosen.plan(workload, chosen.configure(settings), seed, node_of=workload.attachment)
    links = crossings_of(shape, layout, "b0") if shape else flooded(layout.brokers, "b0")
    copies = Copies(links, is_mesh=shape is LinkShape.MESH)
    assert copies_per_s(layout, copies) == pytest.approx(price(design, workload).dissemination.copies)


@pytest.mark.parametrize("seed", range(4))
def test_trees_reach_every_reader_once_and_cost_less_than_the_star(seed):
    layout = layout_of(seed)
    trees = trees_per_topic(layout)
    copies = Copies(crossings_of_trees(trees))
    mesh = Copies(crossings_of(LinkShape.MESH, layout, ""), is_mesh=True)
    star = Copies(crossings_of(LinkShape.STAR, layout, "b0"))
    for topic, sources in layout.sources.items():
        for source in sources:
            reached = len(set(layout.readers(topic)) - {source})
            assert reached == mesh.of(source, topic) <= copies.of(source, topic)
    for topic, tree in trees.items():
        assert len(tree.links) == len({broker for link in tree.links for broker in link}) - 1, topic
    said = [(layout.home[client], topic) for client, topics in layout.publishes.items() for topic in topics]
    assert sum(copies.of(*one) for one in said) < sum(star.of(*one) for one in said)
    assert len(links_of(layout)) <= 10


def test_a_loop_between_brokers_is_told_and_not_followed_for_ever():
    around = {("a", "b"): ("#",), ("b", "c"): ("#",), ("c", "a"): ("#",)}
    with pytest.raises(RecursionError, match="'t' loops"):
        Copies(around).of("a", "t")


def test_prefixes_reach_everybody_and_their_topics_have_no_tree_of_their_own():
    layout = by_hand({"ann": "b0", "bob": "b2"}, {"ann": ("alarm/1", "x")}, {"bob": ("alarm/1", "x")})
    trees = trees_per_topic(layout, ("alarm/#",))
    assert set(trees) == {"alarm/#", "x"}
    copies = Copies(crossings_of_trees(trees))
    assert copies.of("b1", "alarm/never seen") == 2
    assert copies.of("b2", "x") >= 1
    down = crossings_of(LinkShape.STAR, layout, "b0", ("alarm/#",))
    assert down["b0", "b1"] == ("alarm/#",)


def test_planning_in_this_process_gathers_clients_of_one_taste():
    layout = layout_of(1)
    home = planned_home(layout, "mesh", 1)
    mesh = Copies(crossings_of(LinkShape.MESH, layout.moved(home), ""), is_mesh=True)
    before = copies_per_s(layout, Copies(crossings_of(LinkShape.MESH, layout, ""), is_mesh=True))
    after = copies_per_s(layout.moved(home), mesh)
    assert before is not None
    assert after is not None
    assert after * 2 < before
