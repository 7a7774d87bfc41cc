"""What the nodes of a running network are told of a plan, and when."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coterie.model.plan import Slice


class PlanPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node's part of a plan. `generation` counts changes, so that a plan that comes back is another one.

    `made_for` are the nodes that a network has made it for by itself; a plan that somebody applies has none.
    """

    generation: int
    slice: Slice
    settings: dict[str, Any] = {}
    made_for: tuple[int, ...] = ()


class PlanOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a change of plans. Only *load* brings a part."""

    phase: Literal["load", "start", "switch", "drop"]
    generation: int = 0
    part: PlanPart | None = None
