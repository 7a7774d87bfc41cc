"""The steps of a job whose clients stay tables: number them, count them where they are, place them, price systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from coterie.model.graph import BrokerGraph
from coterie.pipeline.crowds.building import OUTLINES, load_outline
from coterie.pipeline.crowds.condensing import CrowdSeats, condense, seats_of
from coterie.pipeline.crowds.placing import place_crowd
from coterie.pipeline.crowds.pricing import COUNTED, load_counted, price_crowd, save_counted, too_many
from coterie.pipeline.crowds.roster import NAMES, STAYING, Roster, number_wishes
from coterie.pipeline.crowds.seating import NOBODY, seat_clients
from coterie.pipeline.crowds.speaking import Spoken, number_publishers
from coterie.pipeline.crowds.sums import load_arrays, save_arrays
from coterie.pipeline.cutting import Strays, WindowChoices, Windows, cut_windows
from coterie.pipeline.legs import Leg, untold, within
from coterie.pipeline.pieces import Pieces
from coterie.pipeline.planning import LATER, LEARN, Candidate, Priced, Ways
from coterie.pipeline.storage import Folder, copy_file, read_rows, write_rows
from coterie.pipeline.tasks import part_name, run_tasks
from coterie.pipeline.windows import Ground
from coterie.substrate.placing import Balance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CROWD_ROWS_MIN = 40_000_000  # of subscriptions and publications; fewer are planned by one machine, with every system
Facts = dict[str, Any]
GROUND, PLACEMENT = "ground.npz", "placement"


def is_crowd(accounts: Mapping[str, Facts], asked: bool | None) -> bool:
    """Whether clients are to stay tables: as asked, else where the log is big."""
    if asked is not None:
        return asked
    rows = sum(int(accounts[name]["kept"]) for name in ("subscriptions", "publications") if name in accounts)
    return rows >= CROWD_ROWS_MIN


# --- numbering ---


def number_crowd(spark: SparkSession, tables: Folder, out: Folder, choices: WindowChoices, leg: Leg = untold) -> Facts:
    """The roster and where everybody is; everything that is worth saying about them."""
    leg(0.0, 0.1)
    windows = cut_windows(spark, tables, choices)
    roster = number_wishes(spark, tables, out, windows, choices.seed, within(leg, 0.1, 0.6))
    leg(0.6, 0.95)
    roster, spoken = number_publishers(spark, roster)
    leg(0.95, 1.0)
    ground = seat_clients(spark, roster, choices)
    _save_ground(ground, out / GROUND)
    return {
        "roster": _plain_roster(roster),
        "zones": list(ground.zones),
        "is_anywhere": ground.is_anywhere,
        "about": _about(roster, spoken, ground),
    }


def _plain_roster(roster: Roster) -> Facts:
    return {
        "starts": roster.starts.tolist(),
        "people_parts": roster.people_parts,
        "filters": roster.filters,
        "topics": roster.topics,
        "wishes": roster.wishes,
        "edges_s": list(roster.windows.edges_s),
        "strays": list(roster.windows.strays),
        "is_timed": roster.is_timed,
        "has_matches": roster.has_matches,
    }


def roster_of(facts: Facts, folder: Folder, tables: Folder) -> Roster:
    """As `number_crowd` left it."""
    told = facts["roster"]
    windows = Windows(tuple(told["edges_s"]), Strays(*told["strays"]))
    counts = (told["people_parts"], told["filters"], told["topics"], told["wishes"])
    starts = np.array(told["starts"], np.int64)
    return Roster(folder, tables, starts, *counts, windows, told["is_timed"], told["has_matches"])


def _save_ground(ground: Ground, path: Folder) -> None:
    arrays: dict[str, Any] = {"node_count": np.array([ground.node_count])}
    if ground.coordinates is not None:
        arrays["coordinates"] = ground.coordinates
    if ground.graph is not None:
        arrays |= {name: getattr(ground.graph, name) for name in ("source", "target", "cost")}
    if ground.zone_of is not None:
        arrays["zone_of"] = ground.zone_of
    save_arrays(path, arrays)


def ground_of(facts: Facts, folder: Folder) -> Ground:
    found = load_arrays(folder / GROUND)
    count = int(found["node_count"][0])
    graph = BrokerGraph.of(count, found["source"], found["target"], found["cost"]) if "source" in found else None
    return Ground(
        NOBODY, count, found.get("coordinates"), graph, found.get("zone_of"), tuple(facts["zones"]),
        is_anywhere=facts["is_anywhere"],
    )  # fmt: skip


def _about(roster: Roster, spoken: Spoken, ground: Ground) -> Facts:
    """The keys that `windows` tells, as far as they are known before anything is counted."""
    strays, windows = roster.windows.strays, roster.windows
    matches = roster.matches()
    bounds = windows.edges_s[:3] if windows.is_timed else (0.0, 0.0, 0.0)
    return {
        "clients": roster.clients,
        "subscribers": roster.people,
        "publishers": spoken.publishers,
        "publishers_outside": spoken.strangers,
        "publishers_per_topic": None,
        "topics": roster.topics,
        "filters": roster.filters if roster.has_matches else None,
        "shared_filters": int(roster.is_shared().sum()),
        "filters_without_topics": int((matches.lengths == 0).sum()) if matches is not None else 0,
        "subscriptions": roster.wishes,
        "nodes": ground.node_count,
        "brokers_assumed": ground.is_assumed,
        "is_peers": False,
        "is_crowd": True,
        "links": ground.graph.link_count if ground.graph else None,
        "zones": list(ground.zones),
        "zones_assumed": ground.is_zoned,
        "is_timed": windows.is_timed,
        "is_held_out": not roster.is_timed,
        "has_publications": spoken.is_logged,
        "is_rate_assumed": spoken.is_rate_assumed,
        "sizes_assumed": spoken.sizes_assumed,
        "events_on_topics_nobody_wants": spoken.unwanted_rate,
        **strays.facts(),
        **dict(zip(("start_s", "cut_s", "end_s"), bounds, strict=True)),
    }


# --- counting and placing ---


def count_staying(
    spark: SparkSession, roster: Roster, ground: Ground, out: Folder, name: str, leg: Leg = untold
) -> Facts:
    counted = condense(spark, roster, CrowdSeats(roster.folder / STAYING, ground), out, name, leg)
    save_counted(counted, out)
    learned, later = counted.wishes
    published = float(load_outline(out, 1).rates.sum())
    return {"learned_subscriptions": learned, "later_subscriptions": later, "published_per_s": published}


def place_and_count(
    spark: SparkSession, roster: Roster, ground: Ground, staying: Folder, out: Folder, name: str, balance: Balance,
    seed: int, leg: Leg = untold,
) -> Facts:  # fmt: skip
    """Write `out`/placed and its condensed workloads; where that saves no copies, everybody stays."""
    learn, clients = load_outline(staying, 0), load_counted(staying).clients
    stay = CrowdSeats(roster.folder / STAYING, ground)
    placed = place_crowd(spark, roster, stay, learn, clients, out, balance, seed, within(leg, 0.0, 0.8))
    moved = condense(spark, roster, CrowdSeats(placed.folder, ground), out, name, within(leg, 0.8, 0.98))
    before, after = (float(one.copies[0]) for one in (learn, load_outline(out, 0)))
    told = {"copies_before": before, "copies_after": after, "hottest": placed.hottest.tolist()}
    if after < before and placed.is_within:
        save_counted(moved, out)
        write_placement(spark, roster, placed.folder, out)
        return told | {"is_placed": True}
    for file in (LEARN, LATER, *OUTLINES, COUNTED):
        copy_file(staying / file, out / file)
    write_placement(spark, roster, roster.folder / STAYING, out)
    return told | {"is_placed": False}


# --- pricing ---


def price_systems(
    spark: SparkSession, placements: dict[str, Folder], candidates: Sequence[Candidate], pieces: Pieces, ways: Ways,
    clients: int,
) -> list[Priced]:  # fmt: skip
    """Bills in the order of the candidates; those that were made before are not made again."""
    placer = ways.placer and ways.placer.system.name
    known: dict[str, Priced] = {}
    missing = []
    for candidate in candidates:
        kept = pieces.kept(candidate)
        problem = too_many(candidate, clients, candidate.system.name == placer)
        if kept is not None:
            known[pieces.name(candidate)] = kept
        elif problem:
            known[pieces.name(candidate)] = Priced(candidate.system.name, candidate.placement, problem=problem)
        else:
            missing.append(candidate)
    for candidate, priced in zip(missing, price_crowd(spark, placements, missing, pieces, ways), strict=True):
        known[pieces.name(candidate)] = priced
    return [known[pieces.name(candidate)] for candidate in candidates]


# --- what is published ---


def write_placement(spark: SparkSession, roster: Roster, seats: Folder, out: Folder) -> None:
    """Every client by its name, the node it goes to and the one it is at; a table of as many parts as the roster."""

    def run(part: int) -> pa.Table:
        names = read_rows(roster.folder / NAMES / part_name(part), ["client"])["client"]
        node, was = seats_of(seats, part), seats_of(roster.folder / STAYING, part)
        write_rows(
            pa.table({"client": names, "node": pa.array(node), "was": pa.array(was)}), out / PLACEMENT / part_name(part)
        )
        return pa.table({"part": pa.array([part], pa.int32())})

    run_tasks(spark, list(range(roster.parts)), run, "part int")
