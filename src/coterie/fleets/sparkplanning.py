"""Planning a fleet from its journal with the pipeline, for journals that are too big for one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout, read_layout
from coterie.plans.store import PlanStore

if TYPE_CHECKING:
    from coterie.fleets.loop import Planner


def plan_with_spark(
    fleet: BrokerFleet, journal: Path, out: Path, systems: Sequence[str], master: str = "local[*]", session: Any = None
) -> Planner:
    """The journal's cheapest plan by these systems (as `--system` takes them), published below `out`."""

    def plan(now: FleetLayout) -> FleetLayout:
        from coterie.pipeline.session import (
            close_session,
            open_session,
        )  # Spark takes seconds to load and is needed here only

        spark = session or open_session(master)
        try:
            version = _publish(spark, journal, out, systems)
        finally:
            if session is None:
                close_session(spark)
        planned = read_layout(out, fleet, version)
        homes = {client: broker for client, broker in planned.home.items() if client in now.home}
        return replace(now, home={**now.home, **homes}, version=version)

    return plan


def _publish(spark: Any, journal: Path, out: Path, systems: Sequence[str]) -> int:
    from coterie.pipeline.job import Request, publish_plan, run_job
    from coterie.pipeline.planning import Candidate
    from coterie.systems import system_named

    candidates = []
    for entry in systems:
        name, _, words = entry.partition(":")
        system = system_named(name)
        settings = dict(word.split("=", 1) for word in words.split(",") if word)
        candidates.append(Candidate(system, system.configure(settings)))
    placer = system_named("coterie")
    request = Request(journal.name, trace=journal)
    outcome = run_job(spark, request, candidates, out, placer=Candidate(placer, placer.parameters()))
    return publish_plan(outcome, PlanStore(out))
