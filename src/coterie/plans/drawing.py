"""Bills as pictures; matplotlib is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.model import Ledger
from coterie.model.prices import MONTH_S

PARTS = ("wanted", "inbound", "relayed", "filtered", "duplicate", "upkeep", "control")


def new_axes(ax: Any, height: float) -> Any:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.0, height), layout="constrained")[1]


def draw_bills(bills: Mapping[str, Ledger], ax: Any = None) -> Any:
    """A bar for each bill: gigabytes a month between nodes, by what becomes of the copies; the first on top."""
    axes = new_axes(ax, 0.8 + 0.35 * len(bills))
    names = list(bills)
    left = [0.0] * len(names)
    for part in PARTS:
        widths = [getattr(bills[name].volume, part) * MONTH_S / 1e9 for name in names]
        if any(widths):
            axes.barh(names, widths, left=left, label=part)
            left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("GB a month between nodes")
    axes.legend(fontsize="small", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes
