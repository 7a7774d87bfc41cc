"""A bill as people ask for it: copies, bytes, money, hops, beside what runs now and beside what nothing goes below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

from coterie.model import Ledger
from coterie.model.prices import EXAMPLE, MONTH_S, Money, Prices, monthly

ROWS: tuple[tuple[str, Callable[[Ledger], float]], ...] = (
    ("copies between nodes a second", lambda one: one.dissemination.copies),
    ("bytes between nodes a second", lambda one: one.volume.total),
    ("upkeep messages a second", lambda one: one.maintenance.upkeep),
    ("control messages a second", lambda one: one.control.messages),
    ("hops on average", lambda one: one.delay.hops.mean),
    ("links", lambda one: one.state.links),
    ("hottest node, times the mean", lambda one: one.load.hottest),
    ("deliveries lost a second", lambda one: one.loss.lost),
    ("clients to move once", lambda one: one.setup.moves),
)


@dataclass(frozen=True, repr=False)
class Bill:
    """What a plan costs on one window. Rates are per second, money is per month."""

    system: str
    ledger: Ledger
    now: Ledger | None = None  # what runs now, on the same window
    bound: Ledger | None = None  # what nothing that delivers everything goes below, with clients placed like this
    against: str | None = None  # the name of what runs now
    prices: Prices = EXAMPLE
    node_count: int = 0
    client_count: int = 0

    @property
    def copies(self) -> float:
        """Copies of events between nodes, per second."""
        return self.ledger.dissemination.copies

    @property
    def bytes(self) -> float:
        """Between nodes, per second: copies, upkeep and control, headers included."""
        return self.ledger.volume.total

    @property
    def hops(self) -> float:
        """Of a delivery, on average."""
        return self.ledger.delay.hops.mean

    @cached_property
    def money(self) -> Money:
        """A month of it, at the prices given."""
        return monthly(self.ledger, self.prices, self.node_count, self.client_count)

    @property
    def saved(self) -> float | None:
        """The share of the bytes that is saved against what runs now; None where nothing is known of that."""
        if self.now is None or not self.now.volume.total:
            return None
        return 1 - self.bytes / self.now.volume.total

    @property
    def saved_money(self) -> float | None:
        """A month."""
        if self.now is None:
            return None
        return monthly(self.now, self.prices, self.node_count, self.client_count).total - self.money.total

    def columns(self) -> dict[str, float]:
        """Every column of the ledger by its name, per second."""
        return self.ledger.columns()

    def rows(self) -> list[tuple[str, float, float | None, float | None]]:
        """(what, this plan, what runs now, the lower bound)."""
        found: list[tuple[str, float, float | None, float | None]] = []
        for name, read in ROWS:
            at = [None if one is None else float(read(one)) for one in (self.ledger, self.now, self.bound)]
            assert at[0] is not None
            found.append((name, at[0], at[1], at[2]))
        money = self.money
        before = None if self.saved_money is None else money.total + self.saved_money
        found.append((f"{money.currency} a month, all in all", money.total, before, None))
        return [row for row in found if any(row[1:])]

    def to_pandas(self) -> Any:
        """The rows as a data frame."""
        import pandas

        header = ["", self.system, self.against or "now", "bound"]
        return pandas.DataFrame(self.rows(), columns=header).set_index("")

    def plot(self, ax: Any = None) -> Any:
        """Bars of the bytes a month by what becomes of them; returns matplotlib's axes."""
        from coterie.plans.drawing import draw_bills

        shown = {self.against or "now": self.now, self.system: self.ledger, "bound": self.bound}
        return draw_bills({name: one for name, one in shown.items() if one is not None}, ax)

    def __repr__(self) -> str:
        saved = "" if self.saved is None else f", {self.saved:+.0%} saved against {self.against}"
        return (
            f"<Bill {self.system}: {self.copies:,.3g} copies/s, {self.bytes * MONTH_S / 1e9:,.3g} GB a month, "
            f"{self.hops:.1f} hops{saved}>"
        )

    def _repr_html_(self) -> str:
        header = "".join(f"<th>{escape(one)}</th>" for one in ("", self.system, self.against or "now", "bound"))
        body = "".join(
            f"<tr><td>{escape(name)}</td>{''.join(f'<td>{_shown(one)}</td>' for one in values)}</tr>"
            for name, *values in self.rows()
        )
        return f"<table><tr>{header}</tr>{body}</table>"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"
