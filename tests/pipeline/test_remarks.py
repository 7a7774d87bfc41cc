"""What is odd about a log is said in a sentence, and nothing is said about a plain one."""

from __future__ import annotations

import pytest

from coterie.model.ledger import Dissemination, Ledger
from coterie.pipeline.remarks import file_remarks, remarks
from coterie.pipeline.verdict import anywhere

PLAIN = {
    "is_rate_assumed": False,
    "has_publications": True,
    "times_set_aside": 0,
    "times_set_aside_first_s": None,
    "times_set_aside_last_s": None,
    "filters": None,
    "shared_filters": 0,
    "filters_without_topics": 0,
    "topics": 140,
    "events_on_topics_nobody_wants": 0.0,
    "publishers_per_topic": None,
}


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ({}, None),
        ({"is_rate_assumed": True}, "one hour of traffic"),
        ({"is_rate_assumed": True, "has_publications": False}, None),  # the verdict says that there are none
        (
            {"times_set_aside": 1, "times_set_aside_first_s": 0.0, "times_set_aside_last_s": 0.0},
            "1 row has a time far from all others (1970-01-01): left out.",
        ),
        (
            {"times_set_aside": 1200, "times_set_aside_first_s": -62135596800.0, "times_set_aside_last_s": 86400.0},
            "1,200 rows have times far from all others (0001-01-01 to 1970-01-02): left out.",
        ),
        ({"filters": 21}, "21 filters match 140 topics."),
        (
            {"filters": 21, "shared_filters": 2, "filters_without_topics": 1},
            "21 filters, 2 of them shared, match 140 topics; 1 of them match nothing that is published.",
        ),
        ({"events_on_topics_nobody_wants": 0.5}, "1,800 publications an hour are on topics that nobody wants"),
        ({"publishers_per_topic": 3}, "the 3 busiest"),
    ],
)
def test_remarks(odd, told):
    found = remarks(PLAIN | odd)
    assert len(found) == (told is not None)
    if told is not None:
        assert told in found[0]


def noted(*notes: str, reasons: tuple[str, ...] = ()) -> dict[str, object]:
    files = [{"path": f"{number}.gz", "note": note} for number, note in enumerate(notes)]
    return {"files": files, "reasons": dict.fromkeys(reasons, 1)}


@pytest.mark.parametrize(
    ("account", "told"),
    [
        (noted("", "empty file"), []),
        ({"reasons": {}}, []),  # what was in memory has no files
        (noted("", "unreadable: no magic"), ["subscriptions: 1 of 2 files left out: no magic (1.gz)"]),
        (noted("unreadable: a", "unreadable: b"), ["subscriptions: 2 of 2 files left out: a (0.gz, ...)"]),
        (noted("unreadable: a") | {"file_count": 5000}, ["subscriptions: 1 of 5,000 files left out: a (0.gz)"]),
        (
            noted("truncated gz data"),
            ["subscriptions: 1 of 1 files read up to a damaged spot: truncated gz data (0.gz)"],
        ),
        (noted("truncated gz data", reasons=("the file is torn here: truncated gz data",)), []),
        (
            noted("read by one task: gz cannot be split"),
            ["subscriptions: 1 of 1 files read by one task: gz cannot be split (0.gz)"],
        ),
    ],
)
def test_files_that_were_not_read_as_they_should_are_told(account, told):
    assert file_remarks("subscriptions", account) == told


@pytest.mark.parametrize(
    ("least", "told"),
    [
        (0.005, ""),
        (0.3, " No balanced placement of the clients needs less than 30% of its copies."),
        (1.06, " It copies less than any placement that keeps brokers about evenly loaded."),
    ],
)
def test_a_bound_that_keeps_a_balance_says_so(least: float, told: str) -> None:
    """A plan that is less even on the part it has not seen may have fewer copies than any that is even there."""
    bill = Ledger(dissemination=Dissemination(wanted=1.0))
    found = anywhere({"is_peers": False, "least_copies": least}, bill)
    assert found.endswith(told)
    assert bool(found) == bool(told)
