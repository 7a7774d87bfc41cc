"""SpiderCast's Figure 8(f) under other readings: how much the nearest lists overlap, which no overlay has a part in."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.lab.experiment import Point, yes
from coterie.lab.measuring import along, falling, rising
from coterie.lab.spidercast_claims import capped, experiment
from coterie.lab.spidercast_runs import workload_of
from coterie.systems.spidercast import measures

SUBSCRIPTIONS = (10, 15, 20, 30, 40)
READINGS: dict[str, tuple[str, str, int]] = {
    "nearest": ("tdi(d) instead of tdi(2d)", "rss", 1),
    "uniform": ("lists of uniform popularity", "uniform", 2),
}


def run_lists(point: Point, seed: int) -> Mapping[str, float]:
    """tdi of lists alone."""
    return {"tdi": measures.top_intersection(workload_of(point, seed).interests, int(point["tdi"]))}


FIGURE_8F = experiment(
    "fig8f",
    "Figure 8(f)",
    "Overlap of lists by subscriptions, other readings",
    run_lists,
    [
        {"nodes": 10_000, "subscriptions": each, "workload": workload, "tdi": times * each}
        for _, workload, times in READINGS.values()
        for each in SUBSCRIPTIONS
    ],
    [
        yes(
            f"fig8c/tdi-{mark}",
            "Figure 8(f)",
            f"the overlap falls until 20 subscriptions and rises afterwards, {told} (10,000 nodes)",
            along("tdi", "subscriptions", lambda found: falling(found[:3]) and rising(found[2:]), workload=workload),
            reads="fig8c/tdi",
        )
        for mark, (told, workload, _) in READINGS.items()
    ],
    small=capped(2000),
)
