"""SpiderCast: one topic-connected overlay with few links (Chockler, Melamed, Tock, Vitenberg, DEBS 2007)."""

from __future__ import annotations

from coterie.systems.spidercast.system import SYSTEM

__all__ = ["SYSTEM"]
