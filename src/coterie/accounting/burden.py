"""One number for a bill, so that designs can be compared: bytes per second, those between zones counted several times.

Without zones it is `volume.total`.
"""

from __future__ import annotations

from coterie.model import Ledger

# What the example prices make of a message of 276 bytes: 2e-9 USD of work, 5.5e-9 more if it crosses.
ACROSS = 4.0


def burden(bill: Ledger, across: float = ACROSS) -> float:
    volume, crossing = bill.volume, bill.crossing
    between = crossing.bytes + crossing.links * (volume.upkeep + volume.control)
    return volume.total + (across - 1) * between
