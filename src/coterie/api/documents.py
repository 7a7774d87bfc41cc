"""Results as plain values for `--json` and notebooks; each says which version of its layout it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.pipeline.verdict import month_of

if TYPE_CHECKING:
    from coterie.api.comparing import Comparison
    from coterie.pipeline.planning import Priced

COMPARISON_SCHEMA = 2


def comparison_document(found: Comparison) -> dict[str, Any]:
    outcome, saving = found.outcome, found.saving
    saved = saving and {"bytes": saving.saved, "money_a_month": saving.saved_money, "paid_back_s": saving.paid_back_s}
    told: dict[str, Any] = msgspec.to_builtins(
        {
            "schema": COMPARISON_SCHEMA,
            "input": outcome.name,
            "about": outcome.facts,
            "accounts": outcome.accounts,
            "against": outcome.against and outcome.against.name,
            "systems": {entry.name: _bill(entry, found) for entry in outcome.priced},
            "cheapest": outcome.chosen and outcome.chosen.name,
            "saved": saved,
            "sentences": found.sentences,
        }
    )
    return told


def _bill(entry: Priced, found: Comparison) -> dict[str, object]:
    """Rates are per second, whatever is shown to people."""
    if entry.learn is None or entry.later is None or entry.later_bound is None:
        return {"problem": entry.problem}
    return {
        "learn": entry.learn.columns(),
        "later": entry.later.columns(),
        "later_bound": entry.later_bound.columns(),
        "month": month_of(entry.later, found.prices, found.outcome.facts),
        "plan_s": entry.plan_s,
        "price_s": entry.price_s,
    }
