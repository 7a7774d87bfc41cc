"""Limits and prices as a user sets them: what a plan must keep to, and what zones cost; told to who chooses by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from coterie.accounting.burden import ACROSS
from coterie.model.limits import NO_LIMITS, DesignLimits
from coterie.model.parameters import configure, settings_of
from coterie.model.prices import Prices
from coterie.pipeline.planning import Candidate
from coterie.substrate.placing import Zoning
from coterie.systems.coterie import CoterieParameters

COPY_BYTES = 300.0  # of a usual copy, where work is paid by the message and traffic by the byte
Limits = DesignLimits | Mapping[str, object] | Sequence[str]


def limits_of(told: Limits | None) -> DesignLimits:
    """From words (NAME=VALUE) or a mapping; ConfigError names the key and what there is."""
    if told is None or isinstance(told, DesignLimits):
        return told or NO_LIMITS
    settings = told if isinstance(told, Mapping) else settings_of(told, "--limit")
    return configure(DesignLimits, settings, "a limit")


def limited(candidate: Candidate, limits: DesignLimits) -> Candidate:
    """Systems that choose by limits are told them; those set in their own parameters stay."""
    if not isinstance(candidate.parameters, CoterieParameters) or limits == NO_LIMITS:
        return candidate
    own = candidate.parameters.limits
    told = {
        name: getattr(limits, name)
        for name in DesignLimits.__struct_fields__
        if getattr(own, name) == getattr(NO_LIMITS, name)
    }
    return replace(candidate, parameters=msgspec.structs.replace(candidate.parameters, **told))


def paying(candidate: Candidate, prices: Prices) -> Candidate:
    """Systems that look at zones are told what a byte between them costs; what their own parameters say stays."""
    parameters = candidate.parameters
    if not isinstance(parameters, CoterieParameters) or parameters.across != ACROSS or prices.is_example:
        return candidate
    across = 1 + Zoning.of(prices, COPY_BYTES).crossing
    return replace(candidate, parameters=msgspec.structs.replace(parameters, across=across))
