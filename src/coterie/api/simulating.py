"""A system's own protocol in virtual time: what it costs, what it loses, whether it recovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price as price_design
from coterie.api.choosing import candidates_of
from coterie.api.logs import Log, Report, log_of
from coterie.errors import ConfigError, InputError
from coterie.model import Design, Ledger, Workload
from coterie.model.latency import Latency
from coterie.plans.plan import Plan
from coterie.plans.pricing import adopted, named
from coterie.protocol.system import Parameters, System
from coterie.sim.book import Missing
from coterie.sim.faults import FaultMix
from coterie.sim.run import SPAN_S
from coterie.sim.run import simulate as run_simulation
from coterie.systems import system_named
from coterie.trace import TraceEvent, Tracer

STORM = "storm"
SIMULATION_SCHEMA = 1


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedRun:
    """What a run showed. `missing` lists every delivery that was owed and not made, with the reason."""

    system: str
    workload: str
    seed: int
    ledger: Ledger
    bound: Ledger
    priced: Ledger | None  # what the accountant says of the same design; None under faults
    missing: list[Missing]
    input_count: int
    virtual_s: float
    unpublished: int
    probes: int

    @property
    def reasons(self) -> dict[str, int]:
        """Why deliveries were lost, most common first."""
        kinds = Counter(one.reason.split(" on the way")[0].split(" upstream")[0] for one in self.missing)
        return dict(kinds.most_common())

    def document(self) -> dict[str, Any]:
        return {
            "schema": SIMULATION_SCHEMA,
            "system": self.system,
            "workload": self.workload,
            "seed": self.seed,
            "ledger": self.ledger.columns(),
            "lower_bound": self.bound.columns(),
            "inputs": self.input_count,
            "virtual_s": self.virtual_s,
            "unpublished": self.unpublished,
            "probes": self.probes,
            "lost": [msgspec.to_builtins(one) for one in self.missing],
        }

    def plot(self, ax: Any = None) -> Any:
        """Bytes a month, simulated beside priced and the lower bound."""
        from coterie.plans.drawing import draw_bills

        shown = {"simulated": self.ledger, "priced": self.priced, "bound": self.bound}
        return draw_bills({name: one for name, one in shown.items() if one is not None}, ax)

    def __repr__(self) -> str:
        lost = f"{len(self.missing):,} deliveries missing" if self.missing else "nothing missing"
        return (
            f"<SimulatedRun {self.system} on {self.workload}, seed {self.seed}: {self.virtual_s:,.0f} virtual s, "
            f"{self.ledger.dissemination.copies:,.3g} copies/s, {lost}>"
        )

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{escape(why)}: {count:,}</li>" for why, count in self.reasons.items())
        return f"<p>{escape(repr(self)[1:-1])}</p><ul>{reasons}</ul>"


def simulate(
    what: Plan | str,
    log: Log | Workload,
    *,
    settings: Mapping[str, object] | None = None,
    faults: str | FaultMix | None = None,
    seed: int = 0,
    latency: Latency | None = None,
    trace: str | Path | None = None,
    progress: Report | None = None,
) -> SimulatedRun:
    """Run a plan, or a system planned on this very demand, in virtual time; the same seed gives the same run.

    `faults="storm"` brings loss, crashes and a partition that heals; afterwards every topic is probed.
    """
    if isinstance(faults, str) and faults != STORM:
        raise ConfigError("faults", faults, f"{STORM!r}, a FaultMix or None")
    demand = named(
        log_of(log) if isinstance(log, Workload) else log, what.node_count if isinstance(what, Plan) else None
    )
    told = progress or (lambda stage, share: None)
    workload = demand.workload.with_whole_events(seed, SPAN_S)
    told("plan", 0.0)
    system, parameters, design = _designed(what, demand, workload, settings or {}, seed)
    storm = FaultMix() if faults == STORM else faults if isinstance(faults, FaultMix) else None
    with _TraceFile(None if trace is None else Path(trace)) as tracer:
        found = run_simulation(system, parameters, design, workload, seed, latency, storm, tracer, progress=told)
    return SimulatedRun(
        system.name,
        workload.name,
        seed,
        found.ledger,
        lower_bounds(workload, design.placement.node_of),
        None if storm else price_design(design, workload, latency),
        found.missing,
        found.input_count,
        found.virtual_s,
        found.unpublished,
        found.probes,
    )


def _designed(
    what: Plan | str, demand: Any, workload: Workload, settings: Mapping[str, object], seed: int
) -> tuple[System, Parameters, Design]:
    if isinstance(what, Plan):
        system = system_named(what.system)
        return system, system.configure(what.settings), adopted(what, replace(demand, workload=workload))
    candidate = candidates_of([what])[0]
    parameters = candidate.system.configure(settings) if settings else candidate.parameters
    return candidate.system, parameters, candidate.system.plan(workload, parameters, seed)


class _TraceFile:
    """Writes what happened, one JSON object a line; without a path nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._encoder = path, msgspec.json.Encoder()
        self._file: Any = None

    def __enter__(self) -> Tracer | None:
        if self._path is None:
            return None
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise InputError(str(self._path), f"cannot be written: {error.strerror}") from None
        return self._write

    def _write(self, event: TraceEvent) -> None:
        self._file.write(self._encoder.encode(event) + b"\n")

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
