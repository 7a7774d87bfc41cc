"""The papers' pages: what people wrote stays, what was found stands between the marks, figures with their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.errors import ConfigError
from coterie.lab.experiment import Claim, Experiment, Plot, Point, ValueTable, per_seed
from coterie.lab.pages import BEGIN, END, write_pages
from coterie.lab.registry import PAPERS, experiments
from coterie.lab.reproduce import reproduce
from coterie.pipeline.sweep import in_processes

FIVE = [paper for paper in PAPERS if paper not in ("coterie", "survey")]
DOCS = Path(__file__).parents[2] / "docs" / "papers"


def run(point: Point, seed: int) -> Mapping[str, float]:
    return {"y": float(point["x"]) + seed / 10}


def value(rows):
    return per_seed(rows, "y", x=10)


PLANTED = Experiment(
    "planted/fig1",
    "Planted",
    "Figure 1",
    "sums",
    run,
    [{"x": 10}, {"x": 20}],
    [{"x": 10}, {"x": 20}],
    [
        Claim("fig1/sum", "Figure 1", "|x| plus seed", 10.0, 0.5, value),
        Claim("fig1/far", "Figure 1", "far off", 99.0, 1.0, value, because="it is not there"),
        Claim("fig1/near", "Figure 1", "not so far off", 10.0, 1.0, value, reads="fig1/far"),
    ],
    [Plot("Figure 1", "x", "y")],
    tables=[ValueTable("Sums", "x", {"sum": "y", "none": "z"})],
)


@pytest.fixture
def page(tmp_path):
    made = tmp_path / "planted.md"
    made.write_text(f"# Mine\n\n{BEGIN}\nold\n{END}\n\nmy last word\n")
    return made


def found(tmp_path):
    return reproduce(in_processes(1), [PLANTED], tmp_path / "out", is_full=False)


def test_a_page_keeps_what_people_wrote_and_gets_every_verdict(tmp_path, page):
    assert write_pages(found(tmp_path), False, tmp_path) == [page]
    text = page.read_text()
    assert text.startswith("# Mine\n")
    assert text.endswith("my last word\n")
    assert "old" not in text
    assert "6 runs, 3 seeds, 0.0 minutes of processor time" in text
    assert "Of 2 claims of the paper 1, 50%, are reproduced or partly so" in text
    assert "reads best, which no one reading does for all: 2, 100%)." in text
    rows = re.findall(r"^\| `(.*?)` \| (.*?) \| .*? \| (\S+) ± .*? \| (.*?) \|$", text, re.M)
    assert rows == [
        ("fig1/sum", "\\|x\\| plus seed", "10.2", "reproduced"),
        ("fig1/far", "far off", "10.2", "not reproduced: it is not there"),
        ("fig1/near", "reading: not so far off", "10.2", "reproduced"),
    ]
    assert "| 20 | 20.2 |  |" in text, "a value that was not measured stays empty"


def test_seeds_that_were_asked_for_stand_in_the_command(tmp_path, page):
    write_pages(found(tmp_path), True, tmp_path, seeds=3)
    assert f"`coterie reproduce planted --full --seeds 3 --pages {tmp_path}`" in page.read_text()


def test_figures_stand_beside_the_page_with_their_numbers(tmp_path, page):
    write_pages(found(tmp_path), False, tmp_path)
    for target in re.findall(r"\((figures/\S+)\)", page.read_text()):
        assert (tmp_path / target).is_file()
    numbers = (tmp_path / "figures" / "planted-fig1-1.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in numbers] == ["who", "coterie", "coterie"]


def test_writing_twice_changes_nothing(tmp_path, page):
    write_pages(found(tmp_path), False, tmp_path)
    first = page.read_text()
    write_pages(found(tmp_path), False, tmp_path)
    assert page.read_text() == first


def test_a_page_without_marks_is_left_alone(tmp_path, page):
    page.write_text("# Mine\n")
    with pytest.raises(ConfigError, match=r"planted\.md"):
        write_pages(found(tmp_path), False, tmp_path)
    assert page.read_text() == "# Mine\n"


def test_the_survey_counts_the_claims_of_every_paper(tmp_path, page):
    """As their pages have them, whichever form each is of; it need not be run together with them."""
    survey = page.with_name("survey.md")
    survey.write_text(page.read_text())
    page.with_name("other.md").write_text("# A page without verdicts\n")
    write_pages(found(tmp_path), True, tmp_path)
    ledger = replace(PLANTED, id="survey/ledger", paper="survey", claims=())
    write_pages(reproduce(in_processes(1), [ledger], tmp_path / "out", is_full=False), False, tmp_path)
    counts = [line for line in survey.read_text().splitlines() if line.startswith("| planted |")]
    assert counts == ["| planted | full | 2 | 1 | 0 | 1 | 0 | 0 | 1, 50% | 1, 50% | 2, 100% |"]
    assert "The papers' own claims" not in page.read_text()


@pytest.mark.parametrize("paper", [*FIVE, "survey"])
def test_every_paper_has_a_page_with_its_verdicts_and_figures(paper):
    text = (DOCS / f"{paper}.md").read_text()
    assert text.index(BEGIN) < text.index("## Every claim and its verdict") < text.index(END)
    for target in re.findall(r"\((figures/\S+)\)", text):
        assert (DOCS / target).is_file(), target


@pytest.mark.parametrize("paper", FIVE)
def test_a_page_says_which_form_its_table_is_of_and_what_the_other_one_has(paper):
    text = (DOCS / f"{paper}.md").read_text()
    form = re.search(r"verdict \((full|quick) form\)", text)
    told = re.search(
        r"^\*\*Two forms\.\*\* The table at the end of this page is of the (full|quick) form.*", text, re.M
    )
    assert form
    assert told
    assert told[1] == form[1]
    paragraph = text[told.start() : text.index("\n\n", told.start())]
    assert "full form" in paragraph
    assert "quick form" in paragraph


def test_one_command_can_write_all_pages():
    assert [paper for paper in PAPERS if (DOCS / f"{paper}.md").read_text().count(BEGIN) != 1] == []


@pytest.mark.parametrize("paper", FIVE)
def test_what_does_not_hold_has_a_reason_and_a_second_reading(paper):
    """On the page as it was written last: a reviewer finds both beside the verdict."""
    text = (DOCS / f"{paper}.md").read_text()
    rows = [line for line in text[text.index(BEGIN) :].splitlines() if line.startswith("| `")]
    for at, line in enumerate(rows):
        told, verdict = line.split(" | ")[1], line.split(" | ")[-1]
        if verdict.startswith("not reproduced") and not told.startswith(("reading: ", "ours: ")):
            assert ": " in verdict, line
            assert rows[at + 1].split(" | ")[1].startswith("reading: "), line


@pytest.mark.parametrize("paper", FIVE)
def test_a_page_says_of_a_claim_what_the_registry_says(paper):
    """Who changes a sentence or a reason in the code writes the page anew."""
    claims = {claim.id: claim for experiment in experiments(paper) for claim in experiment.claims}
    text = (DOCS / f"{paper}.md").read_text()
    for row in re.findall(r"^\| `.*$", text[text.index(BEGIN) :], re.M):
        id, told, *_, verdict = (cell.replace("\\", "") for cell in row[2:-2].split(" | "))
        claim = claims[id.strip("`")]
        assert told.endswith(claim.statement), id
        if not verdict.startswith("reproduced"):
            assert verdict.partition(": ")[2] == claim.because, id
