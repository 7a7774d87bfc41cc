"""Every registered claim: an id of one form, found by it, readings that point somewhere, a reason where it may fail."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import pytest

from coterie.errors import ConfigError
from coterie.lab.experiment import Sense
from coterie.lab.registry import PAPERS, experiments
from coterie.lab.reproduce import chosen

ALL = experiments()
CLAIMS = [(experiment, claim) for experiment in ALL for claim in experiment.claims]


def test_ids_are_unique_and_of_one_form():
    ids = [experiment.id_of(claim) for experiment, claim in CLAIMS]
    assert [found for found, times in Counter(ids).items() if times > 1] == []
    assert [found for found in ids if not re.fullmatch(r"[a-z]+(/[a-z0-9_-]+){2}", found)] == []
    assert {experiment.short for experiment in ALL} == set(PAPERS)


def test_every_id_is_accepted_with_and_without_its_paper():
    for experiment, claim in CLAIMS:
        assert experiment in chosen(ALL, experiment.id_of(claim))
        assert experiment in chosen(ALL, claim.id)


def test_an_unknown_claim_names_what_there_is():
    with pytest.raises(ConfigError, match="tamara/table2"):
        chosen(ALL, "tamara/table9")


def test_readings_stand_beside_the_claim_they_read():
    """In the same paper: another reading may need another run."""
    read = {experiment.id_of(claim) for experiment, claim in CLAIMS if not claim.reads}
    for experiment, claim in CLAIMS:
        if claim.reads:
            assert f"{experiment.short}/{claim.reads}" in read, claim.id


def test_a_number_has_a_tolerance_that_it_can_miss():
    """A share of 0 or more that is expected to be 0 within 1 cannot fail; nor can yes or no within a half."""
    for _, claim in CLAIMS:
        if claim.sense is Sense.HOLDS:
            assert (claim.expected, claim.tolerance) == (1.0, 0.0)
        elif claim.expected:
            assert claim.tolerance <= abs(claim.expected) or claim.unit == "%" or claim.where == "Table 1", claim.id


def test_a_limit_is_held_as_a_limit():
    """What is over, under, at least or at most so much may be better than that; "about" would call it wrong."""
    words = re.compile(r"\b(at least|at most|over \d|more than|less than|no more than|no worse)\b")
    two_sided = [claim for _, claim in CLAIMS if claim.sense is Sense.ABOUT]
    assert [claim.id for claim in two_sided if words.search(claim.statement)] == []


def test_runs_travel_to_other_processes():
    for experiment in ALL:
        pickle.dumps(experiment.run)
