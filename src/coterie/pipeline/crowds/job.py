"""The main job for a crowd: the same request and the same outcome as for the few, with clients left in tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import ConfigError
from coterie.pipeline.crowds.steps import (
    PLACEMENT,
    count_staying,
    ground_of,
    number_crowd,
    place_and_count,
    price_systems,
    roster_of,
)
from coterie.pipeline.interests import TOPICS_FILE
from coterie.pipeline.job import BILLS, LEDGERS, Outcome, Request, described, only, plain, tables_step, write_ledgers
from coterie.pipeline.legs import Leg, Legs
from coterie.pipeline.pieces import Pieces
from coterie.pipeline.planning import PLACED, STAY, Candidate, Priced, Ways, both_ways, cheapest, closest, design_file
from coterie.pipeline.steps import Facts, Progress, Step, read_manifest, run_steps
from coterie.pipeline.storage import Folder, copy_file, remove_all, write_whole
from coterie.pipeline.tasks import part_files
from coterie.plans.plan import DESIGN, PlanFacts
from coterie.plans.store import CURRENT, MANIFEST
from coterie.substrate.placing import Balance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Inputs = Mapping[str, Path]


def run_crowd(
    spark: SparkSession,
    request: Request,
    candidates: Sequence[Candidate],
    out: Any,
    progress: Progress | None = None,
    placer: Candidate | None = None,
) -> Outcome:
    """As `job.run_job`; what needs everybody in one memory (rolling windows, the bound over placements) is left out."""
    if request.windows.is_peers:
        raise ConfigError("peers", True, "off, because so many clients cannot be peers")
    steps = crowd_steps(spark, request, candidates, placer)
    done = run_steps(steps, out / "work", progress=progress, spark=spark)
    priced = [msgspec.convert(entry, Priced) for entry in done["crowd-designs"].facts["priced"]]
    against = next((one for one in priced if one.system == request.against and one.placement == STAY), None)
    allowed = [one for one in priced if one.placement in request.allowed and request.only in ("", one.system)]
    clients = int(done["crowd"].facts["about"]["clients"])
    chosen = cheapest(allowed, request.limits, clients)
    facts = done["crowd"].facts["about"] | done["crowd-stay"].facts | {"least_copies": 0.0}
    write_ledgers(priced, against, out / LEDGERS)
    seconds = {name: step.seconds for name, step in done.items()}
    accounts = done["tables"].facts["accounts"]
    unmet = closest(allowed, request.limits, clients)
    return Outcome(request.name, out, priced, facts, accounts, chosen, seconds, against, unmet=unmet)


def crowd_steps(
    spark: SparkSession, request: Request, candidates: Sequence[Candidate], placer: Candidate | None
) -> list[Step]:
    """Each knows what the ones before it said by their manifests, so any of them may be kept."""
    asked, legs = both_ways(candidates, placer is not None), [Legs() for _ in range(3)]
    ways = Ways(placer, request.wire, request.seed, request.limits)
    windows = plain(request.windows) | {"name": request.name}
    steps = [
        tables_step(spark, request),
        Step("crowd", _number(spark, request, legs[0]), ("tables",), windows, legs=legs[0]),
        Step("crowd-stay", _stay(spark, request, legs[1]), ("tables", "crowd"), {"name": request.name}, legs=legs[1]),
    ]
    if placer is not None:
        about = described([placer], request) | {"imbalance": _balance(placer).by_dimension.tolist()}
        run = _place(spark, request, placer, legs[2])
        steps.append(Step("crowd-placed", run, ("tables", "crowd", "crowd-stay"), about, legs=legs[2]))
    made = tuple(step.name for step in steps[2:])
    told = described(candidates, request) | {"placer": None if placer is None else placer.system.name}
    return [*steps, Step("crowd-designs", _price(spark, asked, ways), ("crowd", *made), told)]


def _number(spark: SparkSession, request: Request, leg: Leg) -> Callable[[Path, Inputs], Facts]:
    def run(out: Path, inputs: Inputs) -> Facts:
        return number_crowd(spark, inputs["tables"], out, request.windows, leg)

    return run


def _stay(spark: SparkSession, request: Request, leg: Leg) -> Callable[[Path, Inputs], Facts]:
    def run(out: Path, inputs: Inputs) -> Facts:
        roster, ground = _known(inputs)
        return count_staying(spark, roster, ground, out, request.name, leg)

    return run


def _place(
    spark: SparkSession, request: Request, placer: Candidate, leg: Leg
) -> Callable[[Path, Inputs], Facts]:  # fmt: skip
    def run(out: Path, inputs: Inputs) -> Facts:
        roster, ground = _known(inputs)
        staying, balance = inputs["crowd-stay"], _balance(placer)
        return place_and_count(spark, roster, ground, staying, out, request.name, balance, request.seed, leg)

    return run


def _price(spark: SparkSession, asked: list[Candidate], ways: Ways) -> Callable[[Path, Inputs], Facts]:
    def run(out: Path, inputs: Inputs) -> Facts:
        placements: dict[str, Folder] = {STAY: inputs["crowd-stay"]}
        if "crowd-placed" in inputs:
            placements[PLACED] = inputs["crowd-placed"]
        clients = int(_facts(inputs["crowd"])["about"]["clients"])
        pieces = Pieces(out.parent.parent / BILLS, "-".join(one.name for one in placements.values()), ways)
        pieces.sweep()
        priced = price_systems(spark, placements, asked, pieces, ways, clients)
        for one in asked:
            pieces.restore(one, out)
        return {"priced": msgspec.to_builtins(priced)}

    return run


def _balance(placer: Candidate) -> Balance:
    imbalance = placer.system.stages.imbalance(placer.parameters)
    return Balance() if imbalance is None else Balance(connections=imbalance)


def _known(inputs: Inputs) -> tuple[Any, Any]:
    facts = _facts(inputs["crowd"])
    return roster_of(facts, inputs["crowd"], inputs["tables"]), ground_of(facts, inputs["crowd"])


def _facts(folder: Folder) -> Facts:
    manifest = read_manifest(folder)
    assert manifest is not None
    facts: Facts = manifest["facts"]
    return facts


def write_crowd_plan(outcome: Outcome, folder: Folder) -> None:
    """What a plan of a crowd holds: the design over brokers, topics, and everybody's node as a table."""
    assert outcome.chosen is not None
    work = outcome.folder / "work"
    crowd, designs = (only(work / name) for name in ("crowd", "crowd-designs"))
    design = design_file(Path(), outcome.chosen.system, outcome.chosen.placement).name
    copy_file(designs / design, folder / DESIGN)
    copy_file(crowd / TOPICS_FILE, folder / TOPICS_FILE)
    if outcome.chosen.placement == PLACED:
        for part in part_files(only(work / "crowd-placed") / PLACEMENT):
            copy_file(part, folder / PLACEMENT / part.name)


def publish_in_store(outcome: Outcome, key: str, facts: PlanFacts) -> int:
    """As `PlanStore.publish`, where nothing can be renamed: the manifest is written last of a version, CURRENT of all.

    One publisher at a time: stores have no locks.
    """
    plans = outcome.folder / "plans"
    done = {int(one.name): one for one in plans.iterdir() if one.name.isdigit() and (one / MANIFEST).exists()}
    for version, folder in done.items():
        if json.loads((folder / MANIFEST).read_text())["key"] == key:
            write_whole(plans / CURRENT, f"{version}\n".encode())
            return version
    version = max(done, default=0) + 1
    folder = plans / f"{version:06d}"
    remove_all(folder)
    write_crowd_plan(outcome, folder)
    digest = hashlib.blake2b((folder / DESIGN).read_bytes(), digest_size=16).hexdigest()
    told = msgspec.structs.replace(facts, version=version, key=key, design_digest=digest)
    write_whole(folder / MANIFEST, json.dumps(msgspec.to_builtins(told), indent=1, sort_keys=True).encode())
    write_whole(plans / CURRENT, f"{version}\n".encode())
    return version
