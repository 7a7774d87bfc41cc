"""Bills of designs for a crowd: planned and priced over its brokers, completed by what was counted over its clients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from coterie.accounting.price import MOVE_COPIES, count_dissemination, mean_copy_bytes, structure
from coterie.model import Design, Ledger, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import Control
from coterie.model.store import load_workload, save_design
from coterie.model.wires import Wire
from coterie.pipeline.crowds.building import from_local, with_local
from coterie.pipeline.crowds.condensing import CrowdCounted
from coterie.pipeline.pieces import Pieces
from coterie.pipeline.planning import LATER, LEARN, STAY, Candidate, Priced, Ways, design_file, price_both
from coterie.pipeline.storage import Folder, write_whole
from coterie.pipeline.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTED = "counted.json"
OWN_PLACEMENT_MAX = 2_000_000  # clients: systems that place by themselves do it on one machine


def save_counted(counted: CrowdCounted, folder: Folder) -> None:
    """Beside the workloads of one placement."""
    write_whole(folder / COUNTED, msgspec.json.encode(counted))


def load_counted(folder: Folder) -> CrowdCounted:
    return msgspec.json.decode((folder / COUNTED).read_bytes(), type=CrowdCounted)


def load_condensed(folder: Folder) -> tuple[Workload, Workload, CrowdCounted]:
    learn, later = (from_local(folder / name, load_workload) for name in (LEARN, LATER))
    return learn, later, load_counted(folder)


def too_many(candidate: Candidate, clients: int, is_placer: bool) -> str:
    """Why a system cannot plan for so many clients in this way; empty if it can. Known before anything starts."""
    if candidate.placement == STAY or not candidate.places or is_placer or clients <= OWN_PLACEMENT_MAX:
        return ""
    return (
        f"it places clients itself, on one machine: up to {OWN_PLACEMENT_MAX:,} clients, and there are {clients:,}; "
        "with clients where they are it has a bill"
    )


def price_crowd(
    spark: SparkSession, placements: dict[str, Folder], candidates: list[Candidate], pieces: Pieces, ways: Ways
) -> list[Priced]:
    """A bill per candidate, in their order; `placements` says where the condensed workloads of each placement are."""

    def run(candidate: Candidate) -> pa.Table:
        priced = price_condensed(candidate, placements[candidate.placement], pieces.folder(candidate), ways)
        pieces.keep(candidate, priced)
        return pa.table({"priced": pa.array([msgspec.json.encode(priced)], pa.binary())})

    table = run_tasks(spark, candidates, run, "priced binary")
    return [msgspec.json.decode(entry, type=Priced) for entry in table["priced"].to_pylist()]


def price_condensed(candidate: Candidate, folder: Folder, out: Folder, ways: Ways) -> Priced:
    """`planning.price_both` on brokers that stand for their clients, with what was counted of those besides."""
    learn, later, counted = load_condensed(folder)
    priced, design = price_both(candidate, learn, later, ways, node_of=learn.attachment, bill=partial(bill, counted))
    if design is not None:
        name = design_file(Path(), candidate.system.name, candidate.placement).name
        with_local(out / name, lambda path: save_design(design, path))
    return priced


def bill(
    counted: CrowdCounted, design: Design, condensed: Workload, window: int, wire: Wire, latency: Latency | None = None
) -> Ledger:
    """What `accounting.price` says of everybody, from a workload of brokers and what was counted besides."""
    tally = count_dissemination(design, condensed, latency or Latency.constant(), wire)
    standing = structure(design, condensed, wire)
    wishes = design.trees.members.pair_count if condensed.wishes is None else condensed.wishes.of.pair_count
    messages = standing.setup.messages
    moved = counted.moves * MOVE_COPIES * mean_copy_bytes(condensed, wire)
    setup = msgspec.structs.replace(standing.setup, moves=float(counted.moves), bytes=standing.setup.bytes + moved)
    control = Control(subscription=counted.changes[window] * messages / wishes if wishes else 0.0)
    standing = replace(standing, setup=setup, control=control, clients=np.array(counted.clients))
    return tally.ledger(standing, wire)
