"""The sixth system against the five: on each paper's own workload and metric, held to that paper's guarantees.

And what each of its own ideas is worth. All claims here are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.coterie_ablation import OVER_TIME, run_fleet, run_over_time
from coterie.lab.coterie_runs import run_row
from coterie.lab.experiment import OURS, Claim, Experiment, Point, Row, Sense, per_seed, shrunk, yes
from coterie.lab.measuring import Setting

PAPER = "coterie"

# --- the matrix ---

PEERS = 1000
MATRIX: dict[str, Point] = {
    "spidercast-rss": {"row": "spidercast", "workload": "rss", "nodes": PEERS},
    "spidercast-zipf": {"row": "spidercast", "workload": "zipf", "nodes": PEERS},
    "spidercast-nyse": {"row": "spidercast", "workload": "nyse", "nodes": PEERS},
    "tamara": {"row": "tamara", "workload": "tamara", "nodes": 3000},
    "tamara-frequent": {"row": "tamara", "workload": "tamara", "nodes": 3000, "rates": "frequent"},
    "magnet": {"row": "magnet", "workload": "multimodal", "nodes": 10_000, "modes": 10},
    "magnet-uncorrelated": {"row": "magnet", "workload": "uncorrelated", "nodes": 10_000},
    "dynatops": {"row": "dynatops", "workload": "dynatops", "subscribers": 50_000},
    "dynatops-zipf": {"row": "dynatops", "workload": "dynatops", "subscribers": 50_000, "pattern": "zipf"},
    "dynatops-uniform": {"row": "dynatops", "workload": "dynatops", "subscribers": 50_000, "pattern": "uniform"},
    "content-stub": {"row": "content", "workload": "content", "network": "transit-stub", "nodes": 500, "topics": 5000},
    "content-flat": {"row": "content", "workload": "content", "network": "flat-10", "nodes": 500, "topics": 5000},
    "placed-stub": {"row": "content-placed", "workload": "content", "network": "transit-stub", "nodes": 500,
                    "topics": 5000},
    "placed-flat": {"row": "content-placed", "workload": "content", "network": "flat-10", "nodes": 500, "topics": 5000},
}  # fmt: skip
SAYS = {
    "spidercast": "links per node, every interest covered three times and no cut vertex",
    "tamara": "messages per second in all, every peer at its own node",
    "magnet": "copies that nobody there wants, every peer at its own node",
    "dynatops": "copies per event, brokers as even as there",
    "content": "cost of the links used on the given network, nobody moved",
    "content-placed": "the same, clients placed if that is cheaper",
}


def small(point: Point) -> Point:
    """Small enough for seconds; brokers and modes keep their numbers of clients and topics each."""
    by_kind = {"spidercast": shrunk(nodes=4), "tamara": shrunk(nodes=10), "magnet": shrunk(nodes=20)}
    by_kind |= {name: shrunk(nodes=5, topics=20) for name in ("content", "content-placed")}
    if point["row"] == "dynatops":
        return {**point, "nodes": 20, "subscribers": 2000, "topics": 200, "modes": 20}
    return by_kind[str(point["row"])](point)


def of_row(rows: Sequence[Row], value: str, name: str) -> list[float]:
    """One number per seed, of this row alone: what another row sets besides makes it another."""
    return per_seed([row for row in rows if dict(row.point) == dict(MATRIX[name])], value)


def ahead(name: str) -> Claim:
    kind = str(MATRIX[name]["row"])
    return Claim(
        f"matrix/{name}",
        OURS,
        f"{name}, {SAYS[kind]}: ours over theirs",
        1.0,
        0.0,
        lambda rows: of_row(rows, "metric_ratio", name),
        sense=Sense.AT_MOST,
    )


def no_more(rows: Sequence[Row], value: str, name: str, slack: float = 0.0) -> list[float]:
    """1 for every seed where our value is not above theirs."""
    ours, theirs = (of_row(rows, f"{whose}_{value}", name) for whose in ("our", "their"))
    return [float(one <= other + slack) for one, other in zip(ours, theirs, strict=True)]


def guaranteed(name: str, value: str, statement: str, because: str = "", slack: float = 0.0) -> Claim:
    return yes(
        f"matrix/{name}-{value.replace('_', '-')}",
        OURS,
        f"{name}: {statement}",
        lambda rows: no_more(rows, value, name, slack),
        because,
    )


SHOWN = (
    "degree",
    "degree_max",
    "hops",
    "hops_max",
    "diameter",
    "redundancy",
    "cut_vertices",
    "clients_max",
    "hottest",
    "busiest",
    "moves",
)
SPIDERS = [name for name in MATRIX if name.startswith("spidercast")]
DYNAMIC = [name for name in MATRIX if name.startswith("dynatops")]
ON_NETWORK = [name for name in MATRIX if name.startswith(("content", "placed"))]
PEERS_ROWS = [name for name in MATRIX if name.startswith(("spidercast", "tamara", "magnet"))]
TREES_ARE_LONGER = "an event follows one tree instead of every link: longer ways, a tenth of the copies"
MATRIX_EXPERIMENT = Experiment(
    id="coterie/matrix",
    paper=PAPER,
    where=OURS,
    title="Each paper's own workload and metric, held to that paper's guarantees",
    run=run_row,
    quick=(),
    full=list(MATRIX.values()),
    claims=[
        *(ahead(name) for name in MATRIX),
        *(guaranteed(name, "partitioned", "no topic in pieces") for name in SPIDERS),
        *(guaranteed(name, "bare", "no more interests with fewer than three neighbours") for name in SPIDERS),
        *(guaranteed(name, "cut_vertices", "no more members whose crash cuts a topic") for name in SPIDERS),
        *(guaranteed(name, "diameter", "topics are no wider") for name in SPIDERS),
        *(guaranteed(name, "hops", "no more hops", TREES_ARE_LONGER) for name in (*SPIDERS, "tamara")),
        guaranteed("magnet", "hops", "no more hops"),
        guaranteed("magnet", "degree_max", "no node has more links than there"),
        *(guaranteed(name, "clients_max", "clients as even as there", slack=0.005) for name in DYNAMIC),
        *(guaranteed(name, "hottest", "the hottest broker no hotter") for name in (*DYNAMIC, *ON_NETWORK)),
        *(guaranteed(name, "busiest", "no peer handles more messages than the busiest there") for name in PEERS_ROWS),
    ],
    quick_seeds=1,
    full_seeds=3,
    small=small,
    shown=tuple(f"{whose}_{name}" for name in SHOWN for whose in ("their", "our")),
)

# --- the ablation ---

DRAWN: Point = {"events": "drawn", "clients": 1500, "topics": 200, "groups": 20, "days": 30, "lease_days": 5,
                "windows": 15, "brokers": 16}  # fmt: skip
WIKI: Point = {"events": "wiki", "lease_days": 7, "windows": 30, "brokers": 32}
FLEET: Point = {"sensors": 2000, "dashboards": 200, "everything": 5, "brokers": 24, "zones": 3, "rate": 0.1,
                "message_imbalance": 0.3}  # fmt: skip
ROOMY: Point = {**FLEET, "message_imbalance": 20.0}
QUIET: Point = {**FLEET, "rate": 0.001}


def worth(idea: str, says: str, events: str, least: float, because: str = "") -> Claim:
    return Claim(
        f"over-time/{idea}-{events}",
        OURS,
        f"{events}: {says}, points of net saving lost",
        least,
        least,
        lambda rows: per_seed(rows, f"{idea}_loss", events=events),
        "points",
        because,
        Sense.AT_LEAST,
    )


IDEAS = {
    "admission": "newcomers by hash instead of by what they ask for",
    "moves": "nobody is moved",
    "prices": "planned anew for every window, moves for nothing",
    "publishers": "moves by subscriptions alone",
}
THEY_SUBSCRIBE = (
    "here everybody who publishes on a topic wants it too: where publications enter follows from the wishes"
)
OVER_TIME_EXPERIMENT = Experiment(
    id="coterie/over-time",
    paper=PAPER,
    where=OURS,
    title="The sixth system over time, whole and without one of its ideas",
    run=run_over_time,
    quick=(),
    full=[DRAWN, WIKI],
    shown=tuple(f"{name}_{value}" for name in OVER_TIME for value in ("gross", "net", "hottest", "moves")),
    claims=[
        worth(idea, IDEAS[idea], events, 0.0, THEY_SUBSCRIBE if idea == "publishers" else "")
        for events in ("drawn", "wiki")
        for idea in OVER_TIME
        if idea != "whole"
    ],
    quick_seeds=1,
    full_seeds=3,
)


def dearer(idea: str, says: str, at: Point, name: str, because: str = "") -> Claim:
    settings: dict[str, Setting] = {key: at[key] for key in ("rate", "message_imbalance")}
    return Claim(
        f"at-once/{idea}-{name}",
        OURS,
        f"{name} fleet: {says}, bytes more (those between zones at their price)",
        0.0,
        0.0,
        lambda rows: per_seed(rows, f"{idea}_more", **settings),
        "%",
        because,
        Sense.AT_LEAST,
    )


APART = (
    "a client that watches everything is more than a broker's share of the messages by itself: within 1.3 times the "
    "mean they cannot sit together, and keeping them apart costs copies"
)
AT_ONCE_EXPERIMENT = Experiment(
    id="coterie/at-once",
    paper=PAPER,
    where=OURS,
    title="Sensors, dashboards and zones: the bill of the sixth system, whole and without one of its ideas",
    run=run_fleet,
    quick=(),
    full=[FLEET, ROOMY, QUIET],
    shown=tuple(
        f"{name}_{value}"
        for name in ("whole", "placement", "publishers", "zones", "wildcards", "mesh", "star", "lean")
        for value in ("burden", "hottest", "hops", "crossing")
    ),
    claims=[
        *(
            dearer(idea, says, at, name, APART if name == "even" and idea in ("wildcards", "placement") else "")
            for name, at in (("even", FLEET), ("roomy", ROOMY), ("quiet", QUIET))
            for idea, says in (
                ("publishers", "placed by subscriptions alone"),
                ("zones", "zones not known to placement and links"),
                ("wildcards", "who watches everything stays where it came"),
                ("placement", "nobody placed"),
                ("mesh", "always a mesh"),
                ("star", "always a star"),
                ("lean", "always lean links"),
            )
        ),
    ],
    quick_seeds=1,
    full_seeds=3,
    small=shrunk(sensors=4, dashboards=4, brokers=2),
)

EXPERIMENTS: tuple[Experiment, ...] = (MATRIX_EXPERIMENT, OVER_TIME_EXPERIMENT, AT_ONCE_EXPERIMENT)
