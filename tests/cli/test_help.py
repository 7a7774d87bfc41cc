"""Help: every command has some, with examples that work; nothing is cut at 80 columns; documents say their version."""

from __future__ import annotations

import importlib
import io
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from coterie.cli import console, main

QUICK = {"systems", "workloads", "price", "simulate", "prices", "doctor"}


def docstring(name: str) -> str:
    module, _, function = main.COMMANDS[name].place.partition(":")
    found: str = getattr(importlib.import_module(f"coterie.cli.{module}"), function).__doc__
    return found


def examples(name: str) -> list[str]:
    _, mark, rest = docstring(name).partition("Examples:\n")
    lines = rest.replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()] if mark else []


ALL = [(name, line) for name in main.COMMANDS for line in examples(name)]


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    assert docstring(name).strip().startswith(main.COMMANDS[name].says.removesuffix("."))
    assert examples(name), "an example, please"


@pytest.mark.parametrize(("name", "line"), ALL)
def test_every_example_is_a_line_that_the_command_takes(name: str, line: str) -> None:
    words = shlex.split(line.partition(" > ")[0])
    assert words[:2] == ["coterie", name]
    context = main.load_command(name).make_context(name, words[2:])
    assert context.params


@pytest.mark.parametrize(("name", "line"), [pair for pair in ALL if pair[0] in QUICK])
def test_examples_that_need_nothing_are_run(name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n')
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m {line}",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", main.COMMANDS)
def test_help_fits_a_terminal_and_has_no_word_of_pythons(name: str) -> None:
    said = CliRunner().invoke(main.app, [name, "--help"], terminal_width=80, env={"COLUMNS": "80"}).stdout
    _, _, rest = docstring(name).partition("Examples:\n")
    assert all(line.strip() in said for line in rest.splitlines())  # an example that is folded cannot be copied
    assert not any(word in said for word in ("<bool>", "<int", "<str>", "list[", "<float", "<path>"))


def test_example_prices_are_a_document_where_that_is_asked_for() -> None:
    said = json.loads(CliRunner().invoke(main.app, ["prices", "--json"]).stdout)
    assert (said["schema"], said["is_example"]) == (1, True)


def test_minus_h_helps_everywhere_and_completion_is_offered() -> None:
    def said(*arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "coterie", *arguments], capture_output=True, text=True, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
        return done.stdout

    assert "--install-completion" in said("-h")
    assert "MQTT" in said("up", "-h")
    offered = said(_COTERIE_COMPLETE="complete_bash", COMP_WORDS="coterie sim", COMP_CWORD="1")
    assert "simulate" in offered


def test_numbers_are_never_cut() -> None:
    page = io.StringIO()
    rows = [["a name that is longer than anybody would think of, and then some more", "3,685,123,456", "12.3k"]]
    Console(file=page, width=60).print(console.table("t", ["what", "copies", "more"], rows))
    assert "3,685,123,456" in page.getvalue()
    assert "…" not in page.getvalue()


def test_wide_tables_are_cut_into_several(monkeypatch: pytest.MonkeyPatch) -> None:
    page = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=page, width=50))
    header = ["per second", *(f"system-{at}" for at in range(9))]
    console.print_wide("t", header, [["copies", *(f"{at}23,456" for at in range(9))]])
    text = page.getvalue()
    assert "…" not in text
    assert all(f"{at}23,456" in text for at in range(9))
    assert text.count("per second") >= 3
    assert max(map(len, text.splitlines())) <= 50


def test_documents_say_their_version(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"a": 1})
    console.print_json({"schema": 2})
    console.print_json([1])
    told = capsys.readouterr().out
    decoder, found = json.JSONDecoder(), []
    while told.strip():
        document, end = decoder.raw_decode(told)
        found.append(document)
        told = told[end:].lstrip()
    assert found == [{"a": 1, "schema": 1}, {"schema": 2}, {"items": [1], "schema": 1}]


def test_the_time_that_is_left_counts_down_between_reports_and_the_bar_never_ends_early() -> None:
    now = [0.0]
    pace = console.Pace(console.spans(tables=0.5, designs=0.5), lambda: now[0])
    assert pace.left_s() is None
    now[0] = 10.0
    pace.tell("tables", 1.0)
    assert (pace.share, pace.left_s()) == (0.5, 10.0)
    now[0] = 14.0
    assert pace.left_s() == 6.0  # nothing was reported, and the clock goes on
    now[0] = 25.0
    assert pace.left_s() is None  # half is done, and all the time that was thought of is over
    pace.tell("tables", 0.2)  # a step that looks back does not
    assert pace.share == 0.5
    pace.tell("designs", 1.0)
    assert pace.share < 1
    now[0] = 99.0
    assert pace.left_s() == 0.0


def test_a_stage_has_a_time_that_is_left_of_its_own() -> None:
    now = [0.0]
    pace = console.Pace(console.spans(tables=0.5, designs=0.5), lambda: now[0])
    now[0] = 10.0
    pace.tell("tables", 1.0)
    pace.tell("designs", 0.0)
    assert pace.stage_left_s() is None
    now[0] = 15.0
    pace.tell("designs", 0.25)
    assert (pace.stage_share, pace.stage_left_s()) == (0.25, 15.0)
    assert (pace.share, pace.left_s()) == (0.625, pytest.approx(9.0))  # the whole by what stages take elsewhere


def test_every_stage_of_a_run_over_a_log_has_its_place_on_the_way() -> None:
    few = ["tables", "workloads", "designs", "rolling"]
    crowd = ["tables", "crowd", "crowd-stay", "crowd-placed", "crowd-designs"]
    assert {*few, *crowd} == {*console.LOG_STAGES}
    for course in (few, crowd):
        places = [console.LOG_STAGES[stage] for stage in course]
        assert [low for low, _ in places] == pytest.approx([0.0, *(high for _, high in places[:-1])])
        assert places[-1][1] == pytest.approx(1.0)


def test_without_a_terminal_every_stage_that_lasts_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    report = console.StageLines("log", console.Pace({}, lambda: now[0]))
    report("files", 0.0)
    report("tables", 0.0)
    assert capsys.readouterr().err == ""
    now[0] = 3.0
    report("tables", 0.5)
    report("tables", 0.6)
    report("files", 1.0)  # it was over before it was worth a line
    report("designs", 0.0)
    report("tables", 0.0)  # a later stage that looks back
    assert capsys.readouterr().err.splitlines() == ["log: tables (3 s so far)", "log: designs (3 s so far)"]


def test_a_stage_that_reports_nothing_is_told_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "PATIENCE_S", 0.05)
    told = ""
    with console.progress("log", is_quiet=False) as report:
        report("kernels", 0.0)
        for _ in range(100):
            if told := told + capsys.readouterr().err:
                break
            time.sleep(0.05)
    assert told.startswith("log: kernels (")
