"""What SpiderCast's text says about its figures and in its abstract, beside the printed cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coterie.lab.experiment import Claim, Row, Sense, by_seed, yes
from coterie.lab.measuring import Measure, along, each_seed, value, worst
from coterie.lab.spidercast_claims import SIZES, above

STRAIGHT = 0.95  # share of the variance that a line explains


def _by_topics(told: Callable[[np.ndarray, np.ndarray], float]) -> Measure:
    """What `told` makes of the numbers of topics and the degrees, one number per seed; two tell nothing of a curve."""

    def measure(rows: Sequence[Row]) -> list[float]:
        found = []
        for own in by_seed(rows):
            pairs = sorted((float(row.point["topics"]), row.values["degree"]) for row in own)
            if len(pairs) > 2:
                topics, degrees = np.array(pairs).T
                found.append(told(topics, degrees))
        return found

    return measure


def _explained(y: np.ndarray, fitted: np.ndarray) -> float:
    return float(1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def _by_logarithm(topics: np.ndarray, degrees: np.ndarray) -> float:
    x = np.log(topics)
    return _explained(degrees, np.polyval(np.polyfit(x, degrees, 1), x))


def _by_power(topics: np.ndarray, degrees: np.ndarray) -> float:
    x = np.log(topics)
    return _explained(degrees, np.exp(np.polyval(np.polyfit(x, np.log(degrees), 1), x)))


NODES = [
    Claim(
        f"fig8a/{name}",
        "section 3.5.1",
        told,
        6.0,
        1.0,
        worst(value_name, ties=ties),
        "hops",
        reads="fig8a/diameter",
    )
    for name, told, value_name, ties in (
        ("distance", "read as a mean: the mean distance inside the widest topic is 6", "distance", "random"),
        ("diameter-ties", "maximal topic diameter 6, ties by node number", "diameter", "first"),
    )
]
TOPICS = [
    *(
        Claim(
            f"fig8b/diameter-{topics}",
            "section 3.5.2",
            f"maximum topic diameter {expected:g} with {topics} topics",
            expected,
            1.0,
            value("diameter", topics=topics),
            "hops",
            because="as in Figure 7: random graphs with as many links inside a topic are no shallower",
        )
        for topics, expected in ((100, 5.0), (1000, 4.0))
    ),
    *(
        Claim(
            f"fig8b/distance-{topics}",
            "section 3.5.2",
            f"read as a mean: the mean distance inside the widest topic is {expected:g} with {topics} topics",
            expected,
            1.0,
            value("distance", topics=topics),
            "hops",
            reads=f"fig8b/diameter-{topics}",
        )
        for topics, expected in ((100, 5.0), (1000, 4.0))
    ),
    Claim(
        "abstract/logarithmic",
        "Abstract",
        "the degree grows logarithmically in the number of topics: share of its variance that a line over the "
        "logarithm explains",
        STRAIGHT,
        0.05,
        _by_topics(_by_logarithm),
        sense=Sense.AT_LEAST,
    ),
    yes(
        "abstract/logarithmic-power",
        "Abstract",
        "a logarithm of the number of topics explains the degree better than a power of it",
        _by_topics(lambda topics, degrees: float(_by_logarithm(topics, degrees) > _by_power(topics, degrees))),
        because="ten times the topics have 2.5 times the degree, a power of about 0.4",
        reads="abstract/logarithmic",
    ),
]
TEN_LINKS = ((10, 0), (9, 1), (8, 2), (7, 3), (0, 10))


def _growing(x: int, y: int) -> Measure:
    return along("components", "nodes", lambda found: found[-1] > found[0], links="similarity", k_greedy=x, k_random=y)


OVERLAYS = [
    yes(
        "fig13/growing-20-0",
        "Figure 13",
        "similarity(20, 0) as well has more components with more nodes: the text says all simulations",
        _growing(20, 0),
        because="with twenty links a handful of the least popular topics is in pieces, as many at every size; of the "
        "overlays with SpiderCast's degree all grow, which is the sentence's other reading",
    ),
    yes(
        "fig13/growing-ten-links",
        "Figure 13",
        "the same of all overlays with about SpiderCast's own degree",
        lambda rows: [float(all(found)) for found in zip(*(_growing(x, y)(rows) for x, y in TEN_LINKS), strict=True)],
        reads="fig13/growing-20-0",
    ),
    Claim(
        "abstract/45-similarity",
        "Abstract",
        "in a large setting the degree is at least 45 % smaller than that of similarity(20, 0), which leaves topics "
        "in pieces even so (10,000 nodes)",
        -45.0,
        5.0,
        above(
            "degree",
            {"nodes": SIZES[-1], "links": "spidercast"},
            {"nodes": SIZES[-1], "links": "similarity", "k_greedy": 20, "k_random": 0},
        ),
        "%",
        sense=Sense.AT_MOST,
    ),
]


# 1 for every seed in which no overlay's degrees spread by more than a quarter of their mean.
_concentrated = each_seed(lambda own: all(row.values["degree_std"] < 0.25 * row.values["degree"] for row in own))


def _follows(name: str) -> Measure:
    of_each = each_seed(lambda own: min(row.values[name] for row in own))
    return lambda rows: of_each([row for row in rows if row.point["subscriptions_max"]])


PROPORTIONAL = "fig9/proportional"
LISTS = [
    yes(
        "fig9/concentrated",
        "section 3.6",
        "in all experiments degrees are concentrated around their mean: standard deviation below a quarter of it",
        _concentrated,
        because="where lists have 10 to 70 topics, degrees follow the lists, as the text's next sentence says",
    ),
    yes(
        "fig9/concentrated-equal",
        "section 3.6",
        "the same where all lists are equally long",
        lambda rows: _concentrated([row for row in rows if not row.point["subscriptions_max"]]),
        reads="fig9/concentrated",
    ),
    Claim(
        PROPORTIONAL,
        "section 3.6",
        "a node's degree is proportional to the number of its topics: their correlation where lists differ, the least",
        0.9,
        0.1,
        _follows("follows_lists"),
        sense=Sense.AT_LEAST,
        because="a greedy choice prefers those with the longest lists: up to 60 of 70 topics the mean degree follows a "
        "line from 3 to 8 links, with 70 it is 65",
    ),
    Claim(
        "fig9/proportional-mean",
        "section 3.6",
        "the correlation of the mean degree of nodes with as many topics, the least",
        0.9,
        0.1,
        _follows("follows_lists_mean"),
        sense=Sense.AT_LEAST,
        reads=PROPORTIONAL,
    ),
    Claim(
        "fig9/proportional-rank",
        "section 3.6",
        "who has more topics has more links: the correlation of ranks, the least",
        0.9,
        0.1,
        _follows("follows_lists_rank"),
        sense=Sense.AT_LEAST,
        reads=PROPORTIONAL,
    ),
]
