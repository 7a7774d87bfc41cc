"""Limits from words and mappings, told to who chooses by them, kept by what is chosen."""

from __future__ import annotations

import pytest

from coterie.api.choosing import candidates_of
from coterie.api.comparing import compare
from coterie.api.limiting import limited, limits_of, paying
from coterie.api.logs import log_of
from coterie.errors import ConfigError, InputError
from coterie.model.limits import NO_LIMITS, DesignLimits
from coterie.model.prices import EXAMPLE, Prices
from tests.systems.test_choosing import fleet


def test_words_and_mappings_say_the_same() -> None:
    assert limits_of(["hops_p99=2", "survive=node"]) == limits_of({"hops_p99": 2, "survive": "node"})
    assert limits_of(None) == limits_of([]) == NO_LIMITS
    assert limits_of(["hops-p99=2"]).named() == "hops_p99=2"
    with pytest.raises(ConfigError, match="hops_max"):
        limits_of(["hops_max=2"])
    with pytest.raises(ConfigError, match="links_max"):
        limits_of(["links_max=few"])


def test_who_chooses_is_told_and_keeps_its_own() -> None:
    mesh, ours = candidates_of(["mesh", "coterie:links_max=9"])
    asked = DesignLimits(links_max=3, hops_p99=2)
    assert limited(mesh, asked) is mesh
    parameters = limited(ours, asked).parameters
    assert (parameters.links_max, parameters.hops_p99) == (9, 2)  # type: ignore[attr-defined]


def test_the_best_keeps_to_the_limits_whatever_the_system() -> None:
    log = log_of(fleet(8, 0.001))  # so quiet that a star is cheapest
    systems = ["mesh", "star:crossing=wanted", "scribe"]
    free = compare(log, systems=systems)
    sturdy = compare(log, systems=systems, limits=["survive=node"])
    assert free.best is not None
    assert sturdy.best is not None
    assert free.best.system == "star"
    assert sturdy.best.system != "star"
    assert sturdy.best.cut_by_node == 0


def test_what_cannot_be_kept_is_said_with_what_comes_closest(tmp_path: object) -> None:
    found = compare(log_of(fleet(8, 1.0)), systems=["mesh", "star"], limits={"hops_p99": 1, "links_max": 2})
    assert found.best is None
    assert found.outcome.unmet.startswith("Nothing keeps to hops_p99=1, links_max=2. The closest: mesh")
    assert "1 hops (p99), 7 links at a node, and misses links_max" in found.outcome.unmet
    assert found.sentences == [found.outcome.unmet]
    with pytest.raises(InputError, match="Nothing keeps to"):
        found.publish(str(tmp_path))


def test_moves_are_limited_for_every_system() -> None:
    workload = fleet(8, 5.0)
    found = compare(log_of(workload), systems=["mesh", "coterie"], limits={"moves_per_day": 0.05})
    for entry in found.outcome.priced:
        assert entry.later is not None
        assert entry.later.setup.moves <= 0.05 * workload.subscriber_count


def test_a_price_file_says_what_a_byte_between_zones_counts() -> None:
    mesh, plain, told = candidates_of(["mesh", "coterie", "coterie:across=2"])
    dear = Prices(per_gb_across_zones=0.1, per_million_messages=0.002)
    assert paying(plain, dear).parameters.across == pytest.approx(1 + 300 * 0.1e-9 / 0.002e-6)
    assert paying(plain, EXAMPLE) is plain
    assert paying(told, dear) is told
    assert paying(mesh, dear) is mesh
