"""`coterie torture`: whole brokers, their disks and clients under every kind of trouble, by the thousand seeds."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa
import typer

import coterie
from coterie.cli.choices import Json
from coterie.cli.console import number, out, print_json, progress, table
from coterie.errors import ConfigError
from coterie.sim.world.drawing import ALONE, FAULTS, TOGETHER, Swarm, draw_scenario
from coterie.sim.world.scenario import Scenario, read_scenario, write_scenario
from coterie.sim.world.shrinking import shrink
from coterie.sim.world.torture import Job, Ordeal, Score, brokers_of, run_job, run_scenario
from coterie.systems import SYSTEMS, system_named
from coterie.writing import write_whole

SEEDS_PER_JOB = 20
JOBS_AT_ONCE = 500  # for a cluster: what was done is kept behind each of these
SHRUNK = 5  # of those that broke something; the others are written down as they are
SAID = 50  # lines of what brokers said last, when one is replayed
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Score).decode


def torture_command(
    seeds: Annotated[str, typer.Option("--seeds", help="How many, or FIRST:LAST.")] = "200",
    system: Annotated[list[str] | None, typer.Option("--system", "-s", help="Repeatable; all by default.")] = None,
    nodes: Annotated[int, typer.Option(help="Up to this many brokers; 1 is a broker alone.", min=1, max=16)] = 4,
    machine: Annotated[bool, typer.Option("--machine", help="Brokers are processes of one machine.")] = False,
    faults: Annotated[str, typer.Option(help="Kinds of faults, separated by commas; 'none' for none.")] = ", ".join(
        FAULTS
    ),
    replay: Annotated[Path | None, typer.Option(help="Run one saved scenario and show everything.")] = None,
    spread: Annotated[str, typer.Option(help="Where seeds run: here, processes or spark.")] = "processes",
    shrinks: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Make the first few that fail smaller.")] = True,
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="Where the report, failing scenarios and what is done so far go.")
    ] = Path("out/torture"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again instead of continuing an interrupted run.")
    ] = False,
    spark: Annotated[str, typer.Option("--spark", help="Master, with --spread spark.")] = "local[*]",
    as_json: Json = False,
) -> None:
    """Test whole brokers and clients in simulation, under every kind of fault.

    They run in virtual time, with crashes, torn disks, partitions and worse, and every promise is checked. A seed draws
    which kinds of trouble exist, then what happens when. What breaks a promise is made smaller and written down, with
    the command that replays it. The same seed gives the same run on any machine. Systems take turns, a seed each. A run
    that was interrupted goes on where it stopped; the report is kept beside what failed.

    Examples:
      coterie torture --seeds 1000 --system scribe --nodes 5
      coterie torture --seeds 20000
      coterie torture --seeds 1000 --machine --nodes 3
    """
    if replay is not None:
        _replay(read_scenario(replay), as_json)
        return
    chosen = () if faults == "none" else tuple(one.strip() for one in faults.split(","))
    if machine and chosen == FAULTS:
        chosen = (*ALONE, *TOGETHER)
    limits = Swarm(nodes, chosen, is_machine=machine)
    names = tuple(system_named(name).name for name in system or sorted(SYSTEMS))
    jobs = [Job(names, first, count, limits) for first, count in _parts(seeds)]
    scores = JobScores(out_folder / "done.jsonl", fresh)
    score, total = Score(), sum(one.count for one in jobs)
    with progress("torture", as_json) as tell:
        for part in scores.of(jobs, lambda missing: _scores(missing, spread, spark)):
            score.add(part)
            tell(f"{score.seeds} seeds, {len(score.broken)} broke something", score.seeds / total)
    commands = {
        (one.system, one.seed): _keep(one, limits, out_folder, shrinks and rank < SHRUNK)
        for rank, one in enumerate(score.broken)
    }
    report = {**msgspec.to_builtins(score), "replay": sorted(commands.values())}
    write_whole(out_folder / "report.json", json.dumps(report, indent=1, sort_keys=True) + "\n")
    scores.forget()
    if as_json:
        print_json(report)
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
    score.job = job
    return _encode(score)


def as_table(job: Job) -> pa.Table:
    return pa.table({"score": [scored(job)]})


class JobScores:
    """What became of the jobs of a run, kept line by line as they end, so that it can go on after an interruption."""

    def __init__(self, path: Path, is_fresh: bool) -> None:
        self._path = path
        if is_fresh:
            self.forget()

    def of(self, jobs: list[Job], run: Callable[[list[Job]], Iterator[bytes]]) -> Iterator[Score]:
        """Scores of all jobs, those that are known already first."""
        known = self._known()
        names = [self._name(job) for job in jobs]
        yield from (_decode(known[name]) for name in names if name in known)
        missing = [job for job, name in zip(jobs, names, strict=True) if name not in known]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as lines:
            for told in run(missing):
                score = _decode(told)
                assert score.job is not None
                lines.write(json.dumps([self._name(score.job), told.decode()]).encode() + b"\n")
                lines.flush()
                yield score

    def _known(self) -> dict[str, bytes]:
        found = {}
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                with suppress(ValueError):  # the last one may be half written
                    name, told = json.loads(line)
                    found[name] = told.encode()
        return found

    @staticmethod
    def _name(job: Job) -> str:
        """By the job and the text of the program: what another version found is not taken for this one's."""
        return sha256(_encode(job) + _program()).hexdigest()

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


@cache
def _program() -> bytes:
    digest = sha256()
    for path in sorted(Path(coterie.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _scores(jobs: list[Job], spread: str, master: str) -> Iterator[bytes]:
    if spread == "here" or not jobs:
        yield from map(scored, jobs)
    elif spread == "processes":
        with multiprocessing.get_context("spawn").Pool(os.cpu_count() or 1) as pool:
            yield from pool.imap_unordered(scored, jobs)
    elif spread == "spark":
        yield from _spark_scores(jobs, master)
    else:
        raise ConfigError("--spread", spread, "here, processes or spark")


def _spark_scores(jobs: list[Job], master: str) -> Iterator[bytes]:
    from coterie.pipeline.session import close_session, open_session
    from coterie.pipeline.tasks import run_tasks

    session = open_session(master)
    try:
        for first in range(0, len(jobs), JOBS_AT_ONCE):
            told = run_tasks(session, jobs[first : first + JOBS_AT_ONCE], as_table, "score binary")
            yield from told["score"].to_pylist()
    finally:
        close_session(session)


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
        f"{score.seeds:,} seeds over {len(score.systems)} systems, {score.simulated_s / 3600:,.1f} simulated hours, "
        f"{cpu_s / 3600:.2f} CPU hours, {score.seeds / cpu_s:.1f} seeds and {score.facts / cpu_s:,.0f} facts "
        "per CPU second"
    )
    for title, counts in (("injected", score.injected), ("checked", score.checked)):
        out.print(table("", [title, "times"], [[name, number(times)] for name, times in sorted(counts.items())]))
    if not score.broken:
        out.print("[green]no promise was broken[/]")
        return
    out.print(f"[red]{len(score.broken)} seeds broke a promise[/]")
    for trial in score.broken:
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
        for line in trial.said[-SAID:]:
            out.print(line, soft_wrap=True, markup=False)
        for one in trial.violations:
            out.print(f"{one.rule}: {one.text}", soft_wrap=True, markup=False)
        if not trial.violations:
            out.print("[green]no promise was broken[/]")
    if trial.violations:
        raise typer.Exit(1)
