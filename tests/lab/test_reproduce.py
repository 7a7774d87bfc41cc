"""From an experiment to verdicts without Spark: runs in processes, kept results, totals by whose claims they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest

from coterie.errors import RunError
from coterie.lab.experiment import OURS, Claim, Experiment, Kind, Point, per_seed, yes
from coterie.lab.judging import Verdict
from coterie.lab.reproduce import as_document, best_readings, report, reproduce, sentences, shown, totals
from coterie.pipeline.sweep import in_processes


def run(point: Point, seed: int) -> Mapping[str, float]:
    if point.get("broken"):
        raise ValueError("planted")
    return {"y": float(point["x"]) + seed, "spark": float("pyspark" in sys.modules)}


def experiment(*points: Point) -> Experiment:
    claims = (
        Claim("fig1/sum", "Figure 1", "x plus seed", 12.0, 3.0, lambda rows: per_seed(rows, "y", x=10)),
        Claim("fig1/far", "Figure 1", "far off", 99.0, 2.0, lambda rows: per_seed(rows, "y", x=10)),
        Claim("fig1/other", "Figure 1", "read elsewhere", 12.0, 2.0, lambda rows: [], reads="fig1/sum"),
        yes("fig1/quiet", OURS, "no JVM", lambda rows: [1.0 - one for one in per_seed(rows, "spark", x=10)]),
    )
    return Experiment("planted/fig1", "Planted", "Figure 1", "a sum", run, points, points, claims, quick_seeds=3)


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_are_judged_and_kept_and_no_spark_is_started(tmp_path, workers):
    wanted = [experiment({"x": 10}, {"x": 20})]
    findings = reproduce(in_processes(workers), wanted, tmp_path, is_full=False)
    verdicts = {one.claim.id: one.verdict for one in findings[0].judgements}
    assert verdicts == {
        "fig1/sum": Verdict.REPRODUCED,
        "fig1/far": Verdict.NOT,
        "fig1/other": Verdict.MISSING,
        "fig1/quiet": verdicts["fig1/quiet"],
    }
    if workers > 1:  # processes of their own; this one may have met Spark in another test
        assert verdicts["fig1/quiet"] is Verdict.REPRODUCED
    kept = sorted((tmp_path / "runs").glob("*.json"))
    assert len(kept) == 6
    kept[0].write_text(json.dumps({"values": {"y": -1e6, "spark": 0.0}, "seconds": 0.0}))
    again = reproduce(in_processes(workers), wanted, tmp_path, is_full=False)
    assert -1e6 in {row.values["y"] for row in again[0].rows}, "a kept result is not run again"


def test_totals_do_not_mix_whose_claims_they_are(tmp_path):
    findings = reproduce(in_processes(1), [experiment({"x": 10})], tmp_path, is_full=False)
    counted = {kind: {verdict.name: many for verdict, many in of.items() if many} for _, kind, of in totals(findings)}
    assert counted[Kind.PAPER] == {"REPRODUCED": 1, "NOT": 1}
    assert counted[Kind.READING] == {"MISSING": 1}
    assert sum(counted[Kind.OURS].values()) == 1
    document = as_document(findings)
    assert [one["claim"] for one in document][:2] == ["planted/fig1/sum", "planted/fig1/far"]
    assert document[2]["reads"] == "fig1/sum"
    assert "another reading" in report(findings, is_full=False, folder=tmp_path).read_text()


@pytest.mark.parametrize(
    ("near", "far", "verdict"),
    [
        (12.0, 12.0, Verdict.REPRODUCED),
        (12.0, 99.0, Verdict.PARTLY),
        (99.0, 99.0, Verdict.NOT),
        (12.0, 17.0, Verdict.PARTLY),
    ],
)
def test_a_sentence_counts_once_whatever_stands_in(tmp_path, near, far, verdict):
    claims = [
        Claim(f"fig1/{name}-sum", "Figure 1", "", expected, 3.0, lambda rows: per_seed(rows, "y", x=10))
        for name, expected in (("near", near), ("far", far))
    ]
    wanted = replace(experiment({"x": 10}), claims=claims, stand_ins=("near", "far"))
    findings = reproduce(in_processes(1), [wanted], tmp_path, is_full=False)
    assert {found: many for found, many in sentences(findings)["planted"].items() if many} == {verdict: 1}
    assert len(findings[0].judgements) == 2


def test_a_reading_that_fits_is_counted_beside_the_claim_and_never_for_it(tmp_path):
    claims = [
        Claim("fig1/sum", "Figure 1", "", 99.0, 3.0, lambda rows: per_seed(rows, "y", x=10)),
        Claim("fig1/read", "Figure 1", "", 12.0, 3.0, lambda rows: per_seed(rows, "y", x=10), reads="fig1/sum"),
        Claim("fig1/none", "Figure 1", "", 99.0, 3.0, lambda rows: per_seed(rows, "y", x=10)),
    ]
    wanted = replace(experiment({"x": 10}), claims=claims)
    findings = reproduce(in_processes(1), [wanted], tmp_path, is_full=False)
    best = best_readings(findings)["planted"]
    assert {found: many for found, many in best.items() if many} == {Verdict.REPRODUCED: 1, Verdict.NOT: 1}
    assert totals(findings)[0][2][Verdict.NOT] == 2


def test_a_run_that_fails_is_named_and_the_others_are_kept(tmp_path):
    with pytest.raises(RunError, match=r"3 of 6 runs failed.*planted/fig1.*broken.*ValueError: planted"):
        reproduce(in_processes(2), [experiment({"x": 10}, {"x": 1, "broken": True})], tmp_path, is_full=False)
    assert len(list((tmp_path / "runs").glob("*.json"))) == 3


def test_the_quick_form_runs_smaller_and_judges_what_the_paper_claims(tmp_path):
    """The point keeps the paper's size, so the claim finds it; the run has the small one, and the verdict says so."""
    quick = replace(experiment({"x": 10}, {"x": 1010}), small=lambda point: {"x": int(point["x"]) % 1000})
    judged = reproduce(in_processes(1), [quick], tmp_path, is_full=False)[0]
    assert [row.values["y"] for row in judged.rows] == [11.0, 11.0, 12.0, 12.0, 13.0, 13.0]
    assert [row.is_small for row in judged.rows] == [False, True] * 3
    assert shown(judged.judgements[0]) == "reproduced *"
    assert len(list((tmp_path / "runs").glob("*.json"))) == 3, "equal small points are measured once"
    other = reproduce(in_processes(1), [replace(experiment({"x": 10}), full=[{"x": 99}])], tmp_path, is_full=False)[0]
    assert shown(other.judgements[0]) == "reproduced *", "points of the quick form alone are marked as well"
    full = reproduce(in_processes(1), [quick], tmp_path, is_full=True, seeds=1)[0]
    assert [row.values["y"] for row in full.rows] == [11.0, 1011.0]
    assert shown(full.judgements[0]) == "reproduced"
