"""DYNATOPS' Figure 6 as experiments: people who move and follow their friends, in all readings of delay and load."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.dynatops_claims import PAPER, below, change, over
from coterie.lab.dynatops_readings import run_located
from coterie.lab.dynatops_runs import run_location
from coterie.lab.experiment import Claim, Experiment, Plot, Point, Row, per_seed, yes
from coterie.lab.measuring import Measure, Setting, along, falling

TRACES = ("foursquare", "gowalla")
CLUSTERS = (5, 10, 20, 50)
# What is known about claims on traces that are not the paper's; the numbers are of the full form.
LEAVING = (
    "who leaves the cells of a cluster must change brokers, and with ten brokers in a cluster more than half of the "
    "moves leave it; in clusters of 50 and without load weight 60 to 73 % are spared. The text gives neither w_l nor "
    "c for its 80 %"
)
DIGITS = (
    "hexadecimal digits make Bayeux' ways short, two hops between 100 brokers. Against binary ones, next-worst brokers "
    "tried too, it is about 60 %; the text tells neither digits nor where ids lie"
)
STRAIGHT = (
    "GeoPS sends from square to square, Chord's fingers lead anywhere on the plane. Trying the next-worst brokers too "
    "brings a quarter less on foursquare, and no less on gowalla, with 388 brokers for 1,000 people"
)
FEW_PEOPLE = (
    "1,000 people at 388 brokers: 8 messages an event in all, so that relays on the ring count for more than what is "
    "gathered. Trying the next-worst brokers too, it holds against GeoPS and against Bayeux with binary digits"
)
BY_DISTANCE = {("d", False): DIGITS, ("d", True): STRAIGHT, ("e", False): FEW_PEOPLE, ("e", True): FEW_PEOPLE}
WEIGHED = (
    "the load weight that Figure 6b needs sends people to whichever broker has few, away from who is like them; "
    "without it (w_l = 0) it holds in all seeds or in most"
)
EARLY = "brokers are placed by hops here, and the printed optimiser stops early"
FARTHER = (
    "from c = 5 to 50 the way changes by less than a fifth, with the load weight or without, and seeds differ as much: "
    "brokers are placed by hops, and the printed optimiser stops early"
)
EXCHANGE = (
    "updates of trees do fall with c, but the exchange inside clusters, |B| (c - 1) messages a day, is more than all "
    "updates of static placement already at c = 5: at full size 170,000 against 63,000 in 532 days on foursquare, "
    "965,000 against 384,000 on gowalla. People who move as often as Figure 5's turn it round"
)


PEOPLE = {"foursquare": 1200, "gowalla": 300, "dynatops-location": 1000}  # of the quick form


def fewer_people(point: Point) -> Point:
    """As many cells, a quarter of the people, and fewer looks at them."""
    return {**point, "subscribers": PEOPLE[str(point["workload"])], "samples": 2, "updates_per_sample": 15}


def fewer_looks(point: Point) -> Point:
    """And one look only where brokers are placed by distance, which takes longest."""
    few = fewer_people(point)
    return few if point["delay"] == HOPS else {**few, "samples": 1}


def sampled_people(point: Point) -> Point:
    """A quarter of the people, looked at as often as the point says."""
    return {**point, "subscribers": PEOPLE[str(point["workload"])]}


def minimum_inside(**at: Setting) -> Measure:
    """1 where the management overhead is smallest at neither end of the cluster sizes."""

    def measure(rows: Sequence[Row]) -> list[float]:
        series = [per_seed(rows, "dynatops_management", cluster=size, **at) for size in CLUSTERS]
        return [float(min(run) not in (run[0], run[-1])) for run in zip(*series, strict=True)]

    return measure


def _spread(workload: str, is_so: str) -> Measure:
    """The spread of load at c = 50 without a load weight, against that with one or against static placement."""

    def measure(rows: Sequence[Row]) -> list[float]:
        free = per_seed(rows, "dynatops_load_spread", workload=workload, cluster=50, load_weight=0.0)
        weighted = per_seed(rows, "dynatops_load_spread", workload=workload, cluster=50, load_weight=0.1)
        still = per_seed(rows, "static_load_spread", workload=workload, cluster=50, load_weight=0.0)
        pairs = zip(free, weighted if is_so == "repaired" else still, strict=True)
        return [float(other < one) for one, other in pairs]

    return measure


def _steps(workload: str, at: dict[str, Setting]) -> list[Claim]:
    """Each half of DYNATOPS is worth something by itself."""
    return [
        yes(
            f"fig6{part}/{workload}-{name}",
            f"Figure 6{part}",
            f"{statement} lowers the {what} ({workload}, c = 10)",
            below(f"{better}_{key}", (f"{worse}_{key}",), **at),
            because,
        )
        for part, what, key in (("d", "delay", "user_distance"), ("e", "overhead", "overhead"))
        for name, statement, better, worse, because in (
            ("up", "user placement, against people at the broker of their cell,", "up", "loc", WEIGHED),
            ("bnr", "broker reconfiguration, on top of user placement,", "dynatops", "up", EARLY),
        )
    ]


def _of_trace(workload: str) -> list[Claim]:
    at: dict[str, Setting] = {"workload": workload, "cluster": 10, "load_weight": 0.1}
    return [
        *(
            over(
                f"fig6{part}/{workload}-{base.replace('_', '-')}-hops",
                f"Figure 6{part}",
                f"over {per_cent:g} % {statement}, brokers placed by hops, w_l / |B| = 0.1 ({workload})",
                per_cent,
                change(f"dynatops_{key}", f"{base}_{key}", **at),
                reads=f"fig6{part}/{workload}-{base.replace('_', '-')}",
            )
            for part, key, base, per_cent, statement in (
                ("d", "user_distance", "bayeux_loc", 60.0, "less delay than Bayeux(loc) over Pastry"),
                ("d", "user_distance", "geops", 30.0, "less delay than GeoPS"),
                ("e", "overhead", "bayeux_loc", 40.0, "less overhead than Bayeux(loc) over Pastry"),
                ("e", "overhead", "geops", 20.0, "less overhead than GeoPS"),
            )
        ),
        yes(
            f"fig6a/{workload}",
            "Figure 6a",
            f"management has its minimum inside the range of cluster sizes ({workload})",
            minimum_inside(workload=workload, load_weight=0.1),
            EXCHANGE,
        ),
        yes(
            f"fig6a/{workload}-less",
            "Figure 6a",
            f"less management than with static and with location-based placement ({workload}, c = 10)",
            below("dynatops_management", ("static_management", "loc_management"), **at),
            EXCHANGE,
        ),
        yes(
            f"fig6b/{workload}-worsened",
            "Figure 6b",
            f"similarity alone (w_l = 0, c = 50) spreads load less evenly than static placement ({workload})",
            _spread(workload, "worsened"),
        ),
        yes(
            f"fig6b/{workload}",
            "Figure 6b",
            f"the load weight lowers the spread of load at c = 50 ({workload})",
            _spread(workload, "repaired"),
        ),
        *(
            yes(
                f"fig6f/{workload}-{name}",
                "Figure 6f",
                f"{name} falls with the cluster size from 5 to 50 ({workload})",
                along(f"dynatops_{value}", "cluster", falling, workload=workload, load_weight=0.1),
                because,
            )
            for name, value, because in (("overhead", "overhead", WEIGHED), ("delay", "user_distance", FARTHER))
        ),
        *_steps(workload, at),
    ]


SYSTEMS = {"dynatops": "DYNATOPS", "static": "static", "loc": "by location", "bayeux_loc": "Bayeux", "geops": "GeoPS"}
NONE = {(system, value) for system in ("bayeux_loc", "geops") for value in ("management", "load_spread", "handovers")}
FIGURE_6 = Experiment(
    id=f"{PAPER}/fig6",
    paper=PAPER,
    where="Figure 6",
    title="People who move and follow their friends",
    run=run_location,
    quick=(),
    full=[
        {"workload": workload, "cluster": cluster, "load_weight": weight, "update_h": 24.0}
        for workload in TRACES
        for cluster, weight in [*((size, 0.1) for size in CLUSTERS), (50, 0.0)]
    ],
    small=fewer_people,
    full_seeds=3,
    stand_ins=TRACES,
    claims=[claim for workload in TRACES for claim in _of_trace(workload)],
    plots=[
        Plot(
            title,
            "cluster",
            {f"{name},": f"{system}_{value}" for system, name in SYSTEMS.items() if (system, value) not in NONE},
            "workload",
            x_label="brokers in a cluster",
            only={"load_weight": 0.1},
        )
        for title, value in (
            ("Figure 6a: subscription management, messages", "management"),
            ("Figure 6b: spread of load, w_l / |B| = 0.1", "load_spread"),
            ("Figure 6c: handovers", "handovers"),
            ("Figures 6d, 6f: distance to a user, degrees", "user_distance"),
            ("Figures 6e, 6f: messages per event", "overhead"),
        )
    ]
    + [
        Plot(
            f"Figure 6{part}: DYNATOPS over {name}, {what}",
            "cluster",
            f"dynatops_{value}",
            "workload",
            x_label="brokers in a cluster",
            y_label="share",
            figure=f"fig6{part}-{system}",
            over=f"{system}_{value}",
            only={"load_weight": 0.1},
        )
        for part, what, value, rivals in (
            ("c", "handovers", "handovers", {"loc": "GeoPS"}),
            ("d", "distance to a user", "user_distance", {"bayeux_loc": "Bayeux(loc)", "geops": "GeoPS"}),
            ("e", "messages per event", "overhead", {"bayeux_loc": "Bayeux(loc)", "geops": "GeoPS"}),
        )
        for system, name in rivals.items()
    ]
    + [
        Plot(
            "Figure 6a, of DYNATOPS' management: updates of trees, and the exchange inside clusters",
            "cluster",
            {"updates,": "dynatops_updates", "exchange,": "dynatops_exchange"},
            "workload",
            x_label="brokers in a cluster",
            y_label="messages",
            only={"load_weight": 0.1},
        )
    ],
)

# --- the same people, other readings ---

HOPS, FAR, FURTHER = "hops", "distance", "distance, next-worst too"
BAYEUX = {
    "tapestry_loc": "Bayeux(loc), Tapestry, hexadecimal",
    "tapestry_loc_pns": "Bayeux(loc+PNS), Tapestry, hexadecimal",
    "tapestry2_loc": "Bayeux(loc), Tapestry, binary",
    "tapestry2_loc_pns": "Bayeux(loc+PNS), Tapestry, binary",
}
LOADS: dict[str, Point] = {
    "of the cluster, w_l / |B| = 0.1": {"load": "cluster", "load_weight": 0.1},
    "printed, w_l = 1": {"load": "all", "load_weight": 1.0},
    "printed, w_l = 10": {"load": "all", "load_weight": 10.0},
    "printed, w_l = 100": {"load": "all", "load_weight": 100.0},
}
PRINTED = LOADS["printed, w_l = 1"]
MAIN_BAYEUX = "tapestry_loc"


def _by_distance(workload: str, delay: str) -> list[Claim]:
    """The claims as section 5 defines delay and section 4 load, over Tapestry; and every other reading of them."""
    at: dict[str, Setting] = {"workload": workload, "delay": delay, **PRINTED}
    mark = {FAR: "far", FURTHER: "further"}[delay]
    claims = []
    for part, what, key, of_bayeux, of_geops in (
        ("d", "delay", "user_distance", 60.0, 30.0),
        ("e", "overhead", "overhead", 40.0, 20.0),
    ):
        for name, title in (*BAYEUX.items(), ("geops", "GeoPS")):
            per_cent = of_geops if name == "geops" else of_bayeux
            main = f"fig6{part}/{workload}-{'geops' if name == 'geops' else 'bayeux-loc'}"
            is_main = delay == FAR and name in (MAIN_BAYEUX, "geops")
            claims.append(
                over(
                    main if is_main else f"fig6{part}/{workload}-{name.replace('_', '-')}-{mark}",
                    f"Figure 6{part}",
                    f"over {per_cent:g} % less {what} than {title}, brokers placed by {delay} ({workload})",
                    per_cent,
                    change(f"dynatops_{key}", f"{name}_{key}", **at),
                    BY_DISTANCE[part, name == "geops"] if is_main else "",
                    "" if is_main else main,
                )
            )
    return claims


def _handovers(workload: str) -> list[Claim]:
    """Against GeoPS, where people are always at the broker of their cell, by every way to count load."""
    main = f"fig6c/{workload}-geops"
    return [
        over(
            main if load == PRINTED else f"{main}-{mark}",
            "Figure 6c",
            f"over 80 % fewer handovers than GeoPS, L_b {name} ({workload})",
            80.0,
            change("dynatops_handovers", "loc_handovers", workload=workload, delay=HOPS, **load),
            LEAVING if load == PRINTED else "",
            "" if load == PRINTED else main,
        )
        for mark, (name, load) in zip(("cluster", "w1", "w10", "w100"), LOADS.items(), strict=True)
    ]


LOCATED = Experiment(
    id=f"{PAPER}/fig6-readings",
    paper=PAPER,
    where="Figure 6",
    title="People who move: brokers placed by distance, L_b as printed, Bayeux over Tapestry; and other readings",
    run=run_located,
    quick=(),
    full=[
        {"workload": workload, "cluster": 10, "delay": delay, **load}
        for workload in TRACES
        for delay, load in [*((HOPS, load) for load in LOADS.values()), (FAR, PRINTED), (FURTHER, PRINTED)]
    ],
    small=fewer_looks,
    full_seeds=3,
    stand_ins=TRACES,
    claims=[
        *(claim for workload in TRACES for claim in _handovers(workload)),
        *(claim for workload in TRACES for delay in (FAR, FURTHER) for claim in _by_distance(workload, delay)),
    ],
    plots=[
        Plot("Distance to a user by what brokers are placed by", "delay", "dynatops_user_distance", line="workload"),
        Plot("Handovers by load weight", "load_weight", "dynatops_handovers", line="workload", log_x=True),
    ],
)
