"""What was found, on the papers' own pages: every claim with its readings and its verdict, every figure with numbers.

A page keeps what people wrote. What stands between the two marks is written by `coterie reproduce --pages FOLDER`,
with the day, the commit and the machine, and never by hand.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import coterie
from coterie.errors import ConfigError
from coterie.lab.experiment import Kind
from coterie.lab.figures import SMALLER, figures_of
from coterie.lab.judging import Judgement, Verdict
from coterie.lab.reproduce import (
    BEST,
    SENTENCES,
    SETTLED,
    SMALL_NOTE,
    TOTALS_HEADER,
    Finding,
    best_readings,
    sentences,
    shown,
    totals,
    totals_rows,
)
from coterie.lab.tables import measured_tables
from coterie.writing import write_whole

BEGIN = "<!-- from here on `coterie reproduce --pages` writes -->"
END = "<!-- up to here -->"
FIGURES = "figures"
SURVEY = "survey"  # its page tells what was found in all papers
HEADER = ("id", "claim", "claimed", "ours, with its 95 % interval", "verdict")
Counts = dict[Verdict, int]
WHOSE = {Kind.PAPER: "", Kind.READING: "reading: ", Kind.OURS: "ours: "}


def write_pages(findings: Sequence[Finding], is_full: bool, folder: Path, seeds: int | None = None) -> list[Path]:
    """Every paper's page in `folder` that these findings are of; its figures and their numbers go beside it.

    `seeds` is what was asked for instead of each experiment's own number.
    """
    pages = []
    for paper, group in groupby(findings, key=lambda finding: finding.experiment.short):
        found = list(group)
        page = folder / f"{paper}.md"
        before, after = _kept(page)
        every = _every_paper(folder) if paper == SURVEY else ()
        lines = [*_section(found, is_full, folder, seeds), *every, *_drawn(found, folder / FIGURES)]
        write_whole(page, "\n".join([before + BEGIN, "", *lines, "", END + after]))
        pages.append(page)
    return pages


def _kept(page: Path) -> tuple[str, str]:
    text = page.read_text() if page.is_file() else ""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ConfigError("--pages", str(page), f"a page with the lines {BEGIN!r} and {END!r}")
    return before, after


def _section(found: Sequence[Finding], is_full: bool, folder: Path, seeds: int | None) -> Iterator[str]:
    paper = found[0].experiment.short
    form = "full" if is_full else "quick"
    yield f"## Every claim and its verdict ({form} form)"
    yield ""
    asked = f" --seeds {seeds}" if seeds else ""
    yield f"`coterie reproduce {paper} --{form}{asked} --pages {folder}`, {_ran(found)}."
    yield from _share(found)
    yield ""
    yield from _table(TOTALS_HEADER, totals_rows(found))
    if any(judgement.is_small for finding in found for judgement in finding.judgements):
        yield f"\\{SMALL_NOTE}. Readings stand below the claim that they read."
        yield ""
    for finding in found:
        yield from _claims(finding, found)
        for table in measured_tables(finding):
            yield from (f"### {table.title}", "")
            yield from _table(table.header, table.rows)


def _ran(found: Sequence[Finding]) -> str:
    """When and where, and what it cost."""
    runs = [row for finding in found for row in finding.rows]
    minutes = sum(row.seconds for row in runs) / 60
    day = datetime.now(UTC).strftime("%-d %B %Y")
    cost = f"{len(runs):,} runs, {_seeds(found)}, {minutes:.1f} minutes of processor time"
    return f"{day}, {_commit()}, {_machine()}: {cost}"


def _seeds(found: Sequence[Finding]) -> str:
    """How many, where experiments differ from the fewest to the most."""
    counts = sorted({len({row.seed for row in finding.rows}) for finding in found})
    return f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seed{'s' * (counts[0] > 1)}"


def _commit() -> str:
    """What the package's folder is checked out at, else its version."""
    asked = ["git", "-C", str(Path(coterie.__file__).parent), "rev-parse", "--short", "HEAD"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return f"commit {told.stdout.strip()}" if told.returncode == 0 else f"version {coterie.__version__}"


def _machine() -> str:
    """Its cores and what they are."""
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return f"{os.cpu_count()} cores{f' ({model[1]})' if model else ''}"


def _share(found: Sequence[Finding]) -> Iterator[str]:
    for paper, kind, counts in totals(found):
        if kind is Kind.PAPER:
            yield f"Of {sum(counts.values())} claims of the paper {_settled(counts)}, are reproduced or partly so"
            yield f"(each sentence once, whatever stands in: {_settled(sentences(found)[paper])}; each claim as it"
            yield f"reads best, which no one reading does for all: {_settled(best_readings(found)[paper])})."


def _every_paper(folder: Path) -> Iterator[str]:
    """How many claims of each paper are reproduced, as the papers' own pages in this folder have them."""
    counted = {page.stem: found for page in sorted(folder.glob("*.md")) if (found := _counted(page))}
    if not counted:
        return
    yield from ("### The papers' own claims", "")
    yield from _table(
        (
            "paper",
            "form",
            "claims",
            *(verdict.value for verdict in Verdict),
            "reproduced or partly",
            "of its sentences",
            "as each reads best",
        ),
        [
            [
                paper,
                form,
                str(sum(own.values())),
                *(str(own[verdict]) for verdict in Verdict),
                *(_settled(counts) for counts in (own, once, best)),
            ]
            for paper, (form, own, once, best) in counted.items()
        ],
    )


def _counted(page: Path) -> tuple[str, Counts, Counts, Counts] | None:
    """The form that a page's verdicts are of, and its totals: of the paper's claims, its sentences, and as they read
    best; None for a page without a paper's claims."""
    text = page.read_text()
    form = re.search(r"^## Every claim and its verdict \((\w+) form\)", text, re.MULTILINE)
    found = []
    for whose in (Kind.PAPER.value, SENTENCES, BEST):
        row = re.search(rf"^\| {page.stem} \| {re.escape(whose)} \|([\d |]+)\|$", text, re.MULTILINE)
        if row:
            found.append(dict(zip(Verdict, map(int, row[1].split("|")), strict=True)))
    return (form[1], found[0], found[1], found[2]) if form and len(found) == 3 else None


def _settled(counts: Mapping[Verdict, int]) -> str:
    settled, claims = sum(counts[verdict] for verdict in SETTLED), sum(counts.values())
    return f"{settled}, {settled / claims:.0%}"


def _claims(finding: Finding, found: Sequence[Finding]) -> Iterator[str]:
    """The experiment's own claims, each with all readings of it, whichever experiment ran them."""
    rows: list[list[str]] = []
    for judgement in finding.judgements:
        if not judgement.claim.reads:
            rows.append(_row(judgement))
            rows += map(_row, _readings(judgement.claim.id, found))
    if rows:
        yield from (f"### {finding.experiment.where}: {finding.experiment.title}", "")
        yield from _table(HEADER, rows)


def _readings(id: str, found: Sequence[Finding]) -> Iterator[Judgement]:
    for finding in found:
        yield from (judgement for judgement in finding.judgements if judgement.claim.reads == id)


def _row(judgement: Judgement) -> list[str]:
    claim = judgement.claim
    why = f": {claim.because}" if claim.because and judgement.verdict is not Verdict.REPRODUCED else ""
    told = f"{WHOSE[claim.kind]}{claim.statement}"
    return [f"`{claim.id}`", told, judgement.paper, judgement.ours, f"{shown(judgement)}{why}"]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _line(header)
    yield _line(["---"] * len(header))
    yield from map(_line, rows)
    yield ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |"


def _drawn(found: Sequence[Finding], folder: Path) -> Iterator[str]:
    """The figures, and beside each the numbers that it was drawn from."""
    drawn = [(name, figure) for finding in found for name, figure in figures_of(finding.experiment, finding.rows)]
    if not drawn:
        return
    folder.mkdir(parents=True, exist_ok=True)
    yield from ("### Figures", "", "Ours with 95 % intervals; what the paper prints as hollow marks, where its text")
    yield from ("gives a number, with how far the reading may be off.",)
    if any(figure.is_small for _, figure in drawn):
        yield f"A title that ends in{SMALLER}: some of it was measured at a smaller size than the axis says."
    yield ""
    for name, figure in drawn:
        write_whole(folder / f"{name}.svg", figure.picture(is_lettered=True))
        write_whole(folder / f"{name}.csv", figure.csv)
        yield f"![{figure.plot.title}]({FIGURES}/{name}.svg)"
        yield f"[{name}.csv]({FIGURES}/{name}.csv)"
        yield ""
