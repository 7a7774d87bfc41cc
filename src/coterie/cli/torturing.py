"""`coterie torture`: whole brokers, their disks and clients under every kind of trouble, by the thousand seeds."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa
import typer

from coterie.cli.choices import Json
from coterie.cli.console import number, out, print_json, progress, table
from coterie.errors import ConfigError
from coterie.sim.world.drawing import ALONE, TOGETHER, Swarm, draw_scenario
from coterie.sim.world.scenario import Scenario, read_scenario, write_scenario
from coterie.sim.world.shrinking import shrink
from coterie.sim.world.torture import Job, Ordeal, Score, brokers_of, run_job, run_scenario
from coterie.systems import SYSTEMS, system_named

SEEDS_PER_JOB = 20
SHOWN = 5
DEFAULT_FAULTS = (*ALONE, *(one for one in TOGETHER if one != "roam"))
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Score).decode


def torture_command(
    seeds: Annotated[str, typer.Option("--seeds", help="How many, or FIRST:LAST.")] = "200",
    system: Annotated[list[str] | None, typer.Option("--system", "-s", help="May be repeated; else all.")] = None,
    nodes: Annotated[int, typer.Option(help="Up to so many brokers; 1 is a broker alone.", min=1, max=16)] = 4,
    faults: Annotated[
        str, typer.Option(help="Kinds of trouble that may occur, with commas between; 'none' for none.")
    ] = ",".join(DEFAULT_FAULTS),
    replay: Annotated[Path | None, typer.Option(help="Run one scenario that was written down, and tell all.")] = None,
    spread: Annotated[str, typer.Option(help="Where seeds run: here, processes or spark.")] = "processes",
    shrinks: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Make what fails smaller.")] = True,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Where failing scenarios go.")] = Path("out/torture"),
    spark: Annotated[str, typer.Option("--spark", help="Master, with --spread spark.")] = "local[*]",
    as_json: Json = False,
) -> None:
    """Whole brokers and clients under every kind of trouble, by seed.

    They run in virtual time, with crashes, torn disks, partitions and worse, and every promise is checked. A seed draws
    which kinds of trouble exist, then what happens when. What breaks a promise is made smaller and written down, with
    the command that replays it. The same seed gives the same run on any machine.

    Examples:
      coterie torture --seeds 1000 --system scribe --nodes 5
    """
    if replay is not None:
        _replay(read_scenario(replay), as_json)
        return
    limits = Swarm(nodes, () if faults == "none" else tuple(one.strip() for one in faults.split(",")))
    jobs = [
        Job(system_named(name).name, first, count, limits)
        for first, count in _parts(seeds)
        for name in (system or sorted(SYSTEMS))
    ]
    score = Score()
    with progress("torture", as_json) as tell:
        for done, part in enumerate(_scores(jobs, spread, spark), 1):
            score.add(part)
            tell(f"{score.seeds} seeds, {len(score.broken)} broke something", done / len(jobs))
    commands = {(one.system, one.seed): _keep(one, limits, out_folder, shrinks) for one in score.broken[:SHOWN]}
    if as_json:
        print_json({**msgspec.to_builtins(score), "replay": sorted(commands.values())})
    else:
        _tell(score, commands)
    if score.broken:
        raise typer.Exit(1)


def _parts(seeds: str) -> list[tuple[int, int]]:
    first, colon, last = seeds.partition(":")
    try:
        begin, end = (int(first), int(last)) if colon else (0, int(first))
    except ValueError:
        raise ConfigError("--seeds", seeds, "a number, or FIRST:LAST") from None
    if begin < 0 or end <= begin:
        raise ConfigError("--seeds", seeds, "at least one seed, none below 0")
    return [(at, min(SEEDS_PER_JOB, end - at)) for at in range(begin, end, SEEDS_PER_JOB)]


def scored(job: Job) -> bytes:
    """A job, in whatever process it runs; what it cost is told with it."""
    before_s = time.process_time()
    score = run_job(job, system_named)
    score.cpu_s = time.process_time() - before_s
    return _encode(score)


def as_table(job: Job) -> pa.Table:
    return pa.table({"score": [scored(job)]})


def _scores(jobs: list[Job], spread: str, master: str) -> Iterator[Score]:
    if spread == "here":
        yield from (_decode(scored(job)) for job in jobs)
    elif spread == "processes":
        with multiprocessing.get_context("spawn").Pool(os.cpu_count() or 1) as pool:
            yield from (_decode(one) for one in pool.imap_unordered(scored, jobs))
    elif spread == "spark":
        from coterie.pipeline.session import open_session
        from coterie.pipeline.tasks import run_tasks

        session = open_session(master)
        try:
            told = run_tasks(session, jobs, as_table, "score binary")
        finally:
            session.stop()
        yield from (_decode(one) for one in told["score"].to_pylist())
    else:
        raise ConfigError("--spread", spread, "here, processes or spark")


def _keep(trial: Ordeal, limits: Swarm, folder: Path, shrinks: bool) -> str:
    """Write the scenario down, as small as it can be made; returns the command that replays it."""
    scenario = draw_scenario(trial.seed, trial.system, limits)
    rule = trial.violations[0].rule
    if shrinks:
        scenario = shrink(
            scenario, lambda one: rule in run_scenario(one, brokers_of(one, system_named), system_named).rules
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{trial.system}-{trial.seed}-{rule}.json"
    write_scenario(scenario, path)
    return f"coterie torture --replay {path}"


def _tell(score: Score, commands: dict[tuple[str, int], str]) -> None:
    cpu_s = max(score.cpu_s, 1e-9)
    out.print(
        f"{score.seeds:,} seeds, {score.simulated_s / 3600:,.1f} simulated hours, {cpu_s / 3600:.2f} CPU hours, "
        f"{score.seeds / cpu_s:.1f} seeds and {score.facts / cpu_s:,.0f} facts per CPU second"
    )
    for title, counts in (("injected", score.injected), ("checked", score.checked)):
        out.print(table("", [title, "times"], [[name, number(times)] for name, times in sorted(counts.items())]))
    if not score.broken:
        out.print("[green]no promise was broken[/]")
        return
    out.print(f"[red]{len(score.broken)} seeds broke a promise[/]")
    for trial in score.broken[:SHOWN]:
        worst = trial.violations[0]
        out.print(f"{trial.system}, seed {trial.seed}: {worst.rule}: {worst.text}", soft_wrap=True, markup=False)
        out.print(f"  {commands[trial.system, trial.seed]}", soft_wrap=True, markup=False)


def _replay(scenario: Scenario, as_json: bool) -> None:
    trial = run_scenario(scenario, brokers_of(scenario, system_named), system_named)
    if as_json:
        print_json(trial)
    else:
        for action in scenario.actions:
            out.print(f"{action.at_s:9.3f} {action}", soft_wrap=True, markup=False)
        for line in trial.said[-SHOWN * 10 :]:
            out.print(line, soft_wrap=True, markup=False)
        for one in trial.violations:
            out.print(f"{one.rule}: {one.text}", soft_wrap=True, markup=False)
        if not trial.violations:
            out.print("[green]no promise was broken[/]")
    if trial.violations:
        raise typer.Exit(1)
