"""Metrics: every total has a meaning, a type and a name that a reader of the format accepts."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from coterie.live.metrics import MEANING, buckets_of, exposition
from coterie.mqtt.bins import Bins


def test_totals_are_what_a_scraper_reads():
    totals = {"clients": 3.0, "messages_in_total": 12.0, "sent_event_total": 5.0, "sent_control_total": 7.0}
    found = {family.name: family for family in text_string_to_metric_families(exposition({"a": totals}))}
    assert found["coterie_clients"].type == "gauge"
    assert found["coterie_messages_in"].type == "counter"
    assert found["coterie_messages_in"].documentation == MEANING["messages_in_total"]
    samples = {tuple(sorted(one.labels.items())): one.value for one in found["coterie_sent"].samples}
    assert samples[("node", "a"), ("traffic", "control")] == 7.0


def test_a_name_that_nobody_explained_is_still_there():
    assert "coterie_new_thing_total{" in exposition({"a": {"new_thing_total": 1.0}})


def test_several_processes_are_one_page():
    page = exposition({"a": {"clients": 1.0}, "a-1": {"clients": 2.0}})
    family = next(one for one in text_string_to_metric_families(page) if one.name == "coterie_clients")
    assert {one.labels["node"]: one.value for one in family.samples} == {"a": 1.0, "a-1": 2.0}
    assert page.count("# HELP coterie_clients ") == 1


def test_histograms_hold_every_number_once():
    bins = Bins()
    for number in (0, 1, 3, 4, 100):
        bins.add(number)
    bins.add(7, 10)
    page = exposition({}, {"a": {"fan_out": {"counts": bins.counts, "sum": bins.total}}})
    family = next(one for one in text_string_to_metric_families(page) if one.name == "coterie_fan_out")
    found = {one.labels.get("le", one.name): one.value for one in family.samples}
    assert (found["0"], found["1"], found["3"], found["7"], found["127"], found["+Inf"]) == (1, 2, 3, 14, 15, 15)
    assert found["coterie_fan_out_sum"] == 178
    assert len({name for name in found if name in ("0.000127", "1")}) == 1  # these are receivers, not seconds
    assert next(bound for bound, _ in buckets_of("queue_age_seconds", bins.counts)) == "0.000127"
