"""Run experiments and judge their claims: the paper's value, ours with its spread, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import ConfigError
from coterie.lab.code import code_of
from coterie.lab.experiment import Experiment, Kind, Point, Row
from coterie.lab.figures import DrawnFigure, figures_of
from coterie.lab.judging import Judgement, Verdict, judge
from coterie.lab.tables import measured_tables
from coterie.pipeline.page import PageSection, Report, ReportTable, TableRow
from coterie.pipeline.sweep import Measurement, Wave, sweep
from coterie.writing import replacing


@dataclass(frozen=True)
class Finding:
    """An experiment, its finished rows and its judged claims."""

    experiment: Experiment
    rows: list[Row]
    judgements: list[Judgement]


def chosen(experiments: Sequence[Experiment], claim: str | None) -> list[Experiment]:
    """The experiments that have this id or hold a claim that does, or whose id begins like it; all without one."""
    if claim is None:
        return list(experiments)
    found = [one for one in experiments if any(_begins(known, claim) for known in _ids(one))]
    if not found:
        known = ", ".join(one.id for one in experiments) or "none"
        raise ConfigError("--claim", claim, f"PAPER/FIGURE or PAPER/FIGURE/CLAIM; experiments are: {known}")
    return found


def _ids(experiment: Experiment) -> list[str]:
    return [experiment.id, *(experiment.id_of(claim) for claim in experiment.claims)]


def _begins(known: str, claim: str) -> bool:
    """Also without the paper's name."""
    return known.startswith(claim) or known.partition("/")[2].startswith(claim)


def reproduce(
    run_wave: Wave,
    experiments: Sequence[Experiment],
    folder: Path,
    is_full: bool,
    seeds: int | None = None,
    progress: Callable[[str, float], None] = lambda stage, share: None,
) -> list[Finding]:
    """Run every point with every seed (those not yet in `folder`), then judge.

    The last papers' runs are the longest, and go first: many short ones at the end keep every core busy to the end.
    """
    runs = [run for experiment in reversed(experiments) for run in _runs(experiment, is_full, seeds)]
    results = sweep(run_wave, list({one.key: one for *_, one in runs}.values()), folder / "runs", progress)
    findings = []
    for experiment in experiments:
        rows = [
            Row(
                owner.id,
                point,
                seed,
                results[one.key]["values"],
                results[one.key]["seconds"],
                _is_small(owner, point, one),
            )
            for owner, point, seed, one in runs
            if owner is experiment
        ]
        findings.append(Finding(experiment, rows, [judge(claim, rows) for claim in experiment.claims]))
    _write_table(findings, folder / "results.parquet")
    return findings


def _is_small(experiment: Experiment, point: Point, one: Measurement) -> bool:
    """Whether it was run smaller than its point says, or at a point that the full form does not have."""
    return one.point != point or point not in experiment.full


def _runs(
    experiment: Experiment, is_full: bool, seeds: int | None
) -> Iterator[tuple[Experiment, Point, int, Measurement]]:
    """Every point with every seed; two points that are the same when small are measured once.

    A seed's points follow each other: neighbours often share an instance, which a run keeps for the next one.
    """
    count = seeds or (experiment.full_seeds if is_full else experiment.quick_seeds)
    code = code_of(experiment.run)
    for seed in range(1, count + 1):
        for point in experiment.points(is_full):
            run_at = point if is_full else experiment.small(point)
            yield experiment, point, seed, Measurement(experiment.id, run_at, seed, experiment.run, code)


def _write_table(findings: Sequence[Finding], path: Path) -> None:
    """One row per (experiment, point, seed, value): the raw material of every verdict."""
    rows = [
        {
            "experiment": row.experiment,
            "point": str(dict(row.point)),
            "seed": row.seed,
            "name": name,
            "value": value,
            "seconds": row.seconds,
        }
        for finding in findings
        for row in finding.rows
        for name, value in row.values.items()
    ]
    kinds = [("experiment", pa.string()), ("point", pa.string()), ("seed", pa.int64()), ("name", pa.string())]
    schema = pa.schema([*kinds, ("value", pa.float64()), ("seconds", pa.float64())])
    with replacing(path) as beside:
        pq.write_table(pa.Table.from_pylist(rows, schema), beside)


def as_document(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [
        {
            "experiment": finding.experiment.id,
            "claim": finding.experiment.id_of(judgement.claim),
            "kind": judgement.claim.kind.value,
            "reads": judgement.claim.reads,
            "where": judgement.claim.where,
            "statement": judgement.claim.statement,
            "paper": judgement.claim.expected,
            "tolerance": judgement.claim.tolerance,
            "sense": judgement.claim.sense.value,
            "ours": None if not judgement.measured else judgement.mean,
            "interval": judgement.interval,
            "seeds": len(judgement.measured),
            "unit": judgement.claim.unit,
            "verdict": judgement.verdict.value,
            "is_small": judgement.is_small,
            "because": judgement.claim.because,
        }
        for finding in findings
        for judgement in finding.judgements
    ]


def totals(findings: Sequence[Finding]) -> list[tuple[str, Kind, dict[Verdict, int]]]:
    """Verdicts counted by paper and by whose claims they are; a paper's own claims come first."""
    counted: dict[tuple[str, Kind], dict[Verdict, int]] = {}
    for finding in findings:
        for judgement in finding.judgements:
            key = (finding.experiment.short, judgement.claim.kind)
            of = counted.setdefault(key, dict.fromkeys(Verdict, 0))
            of[judgement.verdict] += 1
    kinds = list(Kind)
    ordered = sorted(counted, key=lambda key: kinds.index(key[1]))
    return [(paper, kind, counted[paper, kind]) for paper, kind in ordered]


def sentences(findings: Sequence[Finding]) -> dict[str, dict[Verdict, int]]:
    """A paper's own sentences counted once each, by paper, whatever stood in for what it does not give.

    Reproduced is one that is so with everything that stands in, not reproduced one that is so with none.
    """
    found: dict[tuple[str, str], list[Verdict]] = {}
    for finding in findings:
        for judgement in finding.judgements:
            if judgement.claim.kind is Kind.PAPER:
                key = (finding.experiment.short, finding.experiment.sentence_of(judgement.claim))
                found.setdefault(key, []).append(judgement.verdict)
    counted: dict[str, dict[Verdict, int]] = {}
    for (paper, _), verdicts in found.items():
        counted.setdefault(paper, dict.fromkeys(Verdict, 0))[_together(verdicts)] += 1
    return counted


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    different = set(verdicts)
    if len(different) == 1:
        return verdicts[0]
    if different & {Verdict.REPRODUCED, Verdict.PARTLY}:
        return Verdict.PARTLY
    return Verdict.UNDECIDED if Verdict.UNDECIDED in different else Verdict.NOT


SETTLED = (Verdict.REPRODUCED, Verdict.PARTLY)
BEST_FIRST = (Verdict.REPRODUCED, Verdict.PARTLY, Verdict.UNDECIDED, Verdict.NOT, Verdict.MISSING)


def best_readings(findings: Sequence[Finding]) -> dict[str, dict[Verdict, int]]:
    """A paper's own claims by paper, each with the best verdict that any reading of it has.

    Readings that fit one sentence may spoil another, so this is no result; it tells which claims no reading saves.
    """
    found: dict[tuple[str, str], list[Verdict]] = {}
    for finding in findings:
        for judgement in finding.judgements:
            if judgement.claim.kind is not Kind.OURS:
                key = (finding.experiment.short, judgement.claim.reads or judgement.claim.id)
                found.setdefault(key, []).append(judgement.verdict)
    counted: dict[str, dict[Verdict, int]] = {}
    for (paper, _), verdicts in found.items():
        counted.setdefault(paper, dict.fromkeys(Verdict, 0))[min(verdicts, key=BEST_FIRST.index)] += 1
    return counted


SENTENCES = "the paper's sentences"  # each once, whatever stands in for its network or its trace
BEST = "the paper's, each as it reads best"
TOTALS_HEADER = ["paper", "whose claims", *(verdict.value for verdict in Verdict)]


def totals_rows(findings: Sequence[Finding]) -> list[list[str]]:
    counted = [(paper, kind.value, counts) for paper, kind, counts in totals(findings)]
    counted += [(paper, SENTENCES, counts) for paper, counts in sentences(findings).items()]
    counted += [(paper, BEST, counts) for paper, counts in best_readings(findings).items()]
    return [[paper, whose, *(str(counts[verdict]) for verdict in Verdict)] for paper, whose, counts in counted]


SMALL_MARK = " *"
SMALL_NOTE = "* judged at a smaller size than the paper's"
MARKS = {Verdict.REPRODUCED: "good", Verdict.NOT: "bad"}


def report(findings: Sequence[Finding], is_full: bool, folder: Path) -> Path:
    """The verdicts and the plots, one section per experiment."""
    form = "full" if is_full else "quick"
    sums = PageSection(
        "Verdicts", (), (), [ReportTable(TOTALS_HEADER, [TableRow(row) for row in totals_rows(findings)], (0, 1))]
    )
    drawn = [figures_of(finding.experiment, finding.rows) for finding in findings]
    made = Report(
        title="Coterie: claims of the papers",
        subtitle=f"The {form} form of {len(findings)} experiments. {SMALL_NOTE}.",
        sections=[sums, *(_section(finding, figures) for finding, figures in zip(findings, drawn, strict=True))],
    )
    _write_figures([named for figures in drawn for named in figures], folder / "figures")
    return made.write(folder / "report.html")


NamedFigure = tuple[str, DrawnFigure]


def _write_figures(drawn: Sequence[NamedFigure], folder: Path) -> None:
    """Every picture of the report with its numbers beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn:
        (folder / f"{name}.svg").write_text(figure.svg)
        (folder / f"{name}.csv").write_text(figure.csv)


def shown(judgement: Judgement) -> str:
    """The verdict with a mark where it was found at a smaller size than the paper's."""
    return f"{judgement.verdict.value}{SMALL_MARK if judgement.is_small and judgement.measured else ''}"


def _section(finding: Finding, figures: Sequence[NamedFigure]) -> PageSection:
    experiment = finding.experiment
    rows = [
        TableRow(
            [
                judgement.claim.statement,
                judgement.paper,
                judgement.ours,
                shown(judgement),
                judgement.claim.because,
            ],
            MARKS.get(judgement.verdict, ""),
        )
        for judgement in finding.judgements
    ]
    header = ["claim", "claimed", "ours, with its 95 % confidence interval", "verdict", "because"]
    pictures = [figure.svg for _, figure in figures]
    tables = [ReportTable(header, rows, (0, 3, 4))] if rows else []
    tables += [
        ReportTable(table.header, [TableRow(row) for row in table.rows], (0,)) for table in measured_tables(finding)
    ]
    return PageSection(f"{experiment.paper}, {experiment.where}: {experiment.title}", (), pictures, tables)
