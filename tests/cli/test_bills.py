"""Units are chosen where bills are printed: they change no ratio, no ranking and no sentence."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from coterie.cli.bills import Unit, bill_tables, short
from coterie.cli.shown import shown_table
from coterie.errors import ConfigError
from coterie.model.prices import EXAMPLE, Prices
from coterie.model.store import save_workload
from coterie.pipeline.job import Outcome
from coterie.pipeline.planning import LATER, LEARN, STAY, Candidate, cheapest, price_one
from coterie.pipeline.rolling import Rolled
from coterie.pipeline.verdict import at_scale, busier, duration, gigabytes, sentences, verdict
from coterie.systems import SYSTEMS
from tests.conftest import small_workload

FACTS = {
    "clients": 40, "nodes": 9, "topics": 6, "zones": [], "is_peers": False, "is_rate_assumed": False,
    "is_held_out": False, "brokers_assumed": False, "zones_assumed": False, "sizes_assumed": 0.0,
    "published_per_s": 0.5, "subscriptions": 70, "times_set_aside": 0, "filters": None, "filters_without_topics": 0,
    "publishers_per_topic": None, "events_on_topics_nobody_wants": 0.0, "publishers_outside": 0, "shared_filters": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Every system's bill on one small fleet."""
    folder = tmp_path_factory.mktemp("bills")
    for name, seed in ((LEARN, 4), (LATER, 5)):
        zones = np.arange(9, dtype=np.int32) % 3  # zone relays are not made for fleets without
        save_workload(replace(small_workload(9, 6, seed, subscribers=40), zone_of=zones), folder / name)
    asked = [Candidate(system, system.parameters(), STAY) for system in SYSTEMS.values()]
    priced = [price_one(one, folder, folder / "designs") for one in asked]
    against = next(one for one in priced if one.system == "mesh")
    return Outcome("small", Path("out"), priced, FACTS, {}, cheapest(priced), {}, against)


def cells(outcome: Outcome, unit: Unit) -> list[list[str]]:
    return [list(row) for row in bill_tables(outcome, unit)[0].rows]


@given(seconds=st.one_of(st.sampled_from([60.0, 3600.0, 86400.0]), st.floats(1e-3, 1e9)))
def test_no_ratio_and_no_ranking_depends_on_the_unit(outcome: Outcome, seconds: float) -> None:
    shown, plain = cells(outcome, Unit(seconds)), cells(outcome, Unit(1.0))
    assert len(shown) == len([one for one in outcome.priced if not one.problem]) > 10
    assert [[row[0], *row[5:]] for row in shown] == [[row[0], *row[5:]] for row in plain]
    later = {one.system: one.later for one in outcome.priced if one.later is not None}
    for row in shown:
        assert row[1] == short(later[row[0]].dissemination.copies * seconds)
        assert row[2] == short(later[row[0]].maintenance.upkeep * seconds)


def test_copies_and_upkeep_are_apart_and_a_row_fits_into_eighty_columns(outcome: Outcome) -> None:
    for seconds in (1.0, 3600.0, 86400.0):
        page = io.StringIO()
        Console(file=page, width=80).print(shown_table(bill_tables(outcome, Unit(seconds))[0]))
        lines = page.getvalue().splitlines()
        assert len(lines) == len([one for one in outcome.priced if not one.problem]) + 2
        assert "copies" in lines[1]
        assert "upkeep" in lines[1]
        assert "…" not in page.getvalue()


def test_the_sentences_say_what_runs_what_is_saved_and_what_that_costs(outcome: Outcome) -> None:
    told = " ".join(sentences(outcome, EXAMPLE))
    found = verdict(outcome, EXAMPLE)
    assert found is not None
    for words in ("Now: a full mesh", "a month", "EXAMPLES", "hops" if not found.keeps else "Keep what you have"):
        assert words in told
    assert "EXAMPLES" not in " ".join(sentences(outcome, Prices()))
    rolled = Outcome(**{**vars(outcome), "rolled": Rolled((0.4, 0.4), (0.1, 0.3))})
    assert (
        "10% to 30% (20% on average); 50% of the saving was lost" in " ".join(sentences(rolled, EXAMPLE))
    ) is not found.keeps


def test_a_plan_that_saves_next_to_nothing_is_no_reason_to_change(outcome: Outcome) -> None:
    same = Outcome(**{**vars(outcome), "chosen": outcome.against})
    assert "Keep what you have" in " ".join(sentences(same, EXAMPLE))


def test_what_costs_more_with_more_traffic_saves_no_negative_amount(outcome: Outcome) -> None:
    found = verdict(outcome, EXAMPLE)
    assert found is not None
    turned = replace(found, now=found.best, best=found.now)
    told = {at_scale(FACTS, one, EXAMPLE) for one in (found, turned)}
    assert len(told) == 2
    assert not any("-" in words for words in told)
    assert sum(words.endswith(" more") for words in told) == 1


def test_numbers_in_words() -> None:
    assert [short(value) for value in (0, 0.1234, 12.34, 999, 1234, 999_999, 2.5e6, 7e12)] == [
        *("0", "0.123", "12.3", "999", "1.23k", "1000k", "2.5M", "7T"),
    ]
    assert gigabytes(1e3) == "2.63 GB"
    assert (duration(30), duration(7200), duration(3 * 86400)) == ("a minute", "2 hours", "3 days")
    with pytest.raises(ConfigError, match="interval"):
        Unit(0.0)


def test_more_traffic_multiplies_copies_and_leaves_heartbeats_alone(outcome: Outcome) -> None:
    assert outcome.against is not None
    bill = outcome.against.later
    assert bill is not None
    more = busier(bill, 100.0)
    assert more.dissemination.copies == pytest.approx(100 * bill.dissemination.copies)
    assert more.volume.copies == pytest.approx(100 * bill.volume.copies)
    assert (more.volume.upkeep, more.maintenance, more.control) == (bill.volume.upkeep, bill.maintenance, bill.control)
    assert more.loss.lost == bill.loss.lost == 0


def test_assumed_rates_stand_beside_every_table(outcome: Outcome) -> None:
    assumed = Outcome(**{**vars(outcome), "facts": FACTS | {"is_rate_assumed": True, "has_publications": False}})
    assert all("ASSUMED" in str(table.title) for table in bill_tables(assumed, Unit(60.0)))
    assert "ASSUMED" in " ".join(sentences(assumed, EXAMPLE))
    assert not any("ASSUMED" in str(table.title) for table in bill_tables(outcome, Unit(60.0)))
