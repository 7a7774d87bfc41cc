"""How Magnet's claims are measured on finished rows, beside what its runs bring along."""

from __future__ import annotations

from coterie.lab.measuring import each_seed

# 1 for every seed in which every point saves something.
always_saves = each_seed(lambda own: all(row.values["saving"] > 0 for row in own))
