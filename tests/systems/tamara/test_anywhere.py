"""Clusters over every system in the registry: everybody is served, and copies add up."""

from __future__ import annotations

import pytest

from coterie.accounting.price import price
from coterie.protocol.system import System, attach_as_given
from coterie.systems import SYSTEMS
from coterie.systems.tamara.anywhere import virtual_workload
from coterie.systems.tamara.stages import clusters_of, planned_channels
from tests.systems.tamara.test_planned import tasteful_workload


@pytest.mark.parametrize("system", [pytest.param(system, id=name) for name, system in SYSTEMS.items()])
def test_clusters_run_over_any_layer(system: System) -> None:
    workload = tasteful_workload(6, 40, 10, events_max=1)
    channels = planned_channels(workload, attach_as_given(workload, None, 0), None, 0)  # type: ignore[arg-type]
    assert clusters_of(channels).row_count > 0
    below = virtual_workload(workload, channels)
    if not system.fits(below):
        pytest.skip(f"{system.name} wants another kind of workload")
    clustered = price(system.plan(below, seed=1), below)
    assert clustered.loss.lost == 0
    assert below.interests.pair_count < workload.interests.pair_count
    assert clustered.loss.owed >= price(system.plan(workload, seed=1), workload).loss.owed


def test_publications_enter_every_channel_with_members() -> None:
    workload = tasteful_workload(6, 40, 10)
    channels = planned_channels(workload, attach_as_given(workload, None, 0), None, 0)  # type: ignore[arg-type]
    below = virtual_workload(workload, channels)
    members = below.interests.transposed
    for channel in range(channels.count):
        carried = channels.topics.row(channel)
        expected = workload.rates[carried].sum() if len(members.row(channel)) else 0.0
        assert below.rates[channel] == pytest.approx(expected)
