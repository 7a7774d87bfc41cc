"""Metrics: every total has a meaning, a type and a name that a reader of the format accepts."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from coterie.live.metrics import MEANING, exposition


def test_totals_are_what_a_scraper_reads():
    totals = {"clients": 3.0, "messages_in_total": 12.0, "sent_event_total": 5.0, "sent_control_total": 7.0}
    found = {family.name: family for family in text_string_to_metric_families(exposition(totals, "a"))}
    assert found["coterie_clients"].type == "gauge"
    assert found["coterie_messages_in"].type == "counter"
    assert found["coterie_messages_in"].documentation == MEANING["messages_in_total"]
    samples = {tuple(sorted(one.labels.items())): one.value for one in found["coterie_sent"].samples}
    assert samples[("node", "a"), ("traffic", "control")] == 7.0


def test_a_name_that_nobody_explained_is_still_there():
    assert "coterie_new_thing_total{" in exposition({"new_thing_total": 1.0}, "a")
