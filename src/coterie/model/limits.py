"""What a design must keep to, whatever it saves: how far events travel, how many links, how hot a node may be, what
a crash may cut, moves.

A limit that is set is kept or nothing is chosen. One holds although nobody set it, as far as it can be had: no node is
much busier than the mean, once it handles so much that this matters (`calm`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from coterie.errors import ConfigError
from coterie.model.ledger import Ledger

SURVIVE = ("none", "node", "zone")
DUST = 1e-9
HOTTEST = 2.0  # times the mean that a node handles, unless a limit says otherwise,
EASY = 10_000.0  # and unless it is fewer messages a second than any node handles with ease
NEARLY = 1.1  # where nothing is so even: times what the coolest has


class Standard(msgspec.Struct, frozen=True):
    """One limit: how a bill is measured by it, and how a person reads it."""

    measure: Callable[[Ledger], float]
    words: str


STANDARDS = {
    "hops_mean": Standard(lambda bill: bill.delay.hops.mean, "{:.2f} hops on average"),
    "hops_p99": Standard(lambda bill: bill.delay.hops.p99, "{:.0f} hops (p99)"),
    "ms_mean": Standard(lambda bill: bill.delay.milliseconds.mean, "{:.1f} ms on average"),
    "ms_p99": Standard(lambda bill: bill.delay.milliseconds.p99, "{:.1f} ms (p99)"),
    "links_max": Standard(lambda bill: bill.state.degree.max, "{:.0f} links at a node"),
    "hottest_max": Standard(lambda bill: bill.load.hottest, "the busiest node at {:.2f} times the mean"),
}


class DesignLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """0 means no limit; moves: below 0 does. What a crash cuts is a measure of the design, not of its bill."""

    hops_mean: float = 0.0  # links a delivery crosses
    hops_p99: float = 0.0
    ms_mean: float = 0.0  # from publication to delivery
    ms_p99: float = 0.0
    links_max: int = 0  # at any node
    hottest_max: float = 0.0  # messages that the busiest node handles, as a multiple of the mean
    survive: str = "none"  # the crash of any one node, or zone (and node), cuts nobody else off
    moves_per_day: float = -1.0  # share of the clients that a plan may move; plans are made once a day
    hop_ms: float = 1.0  # what limits in milliseconds assume: from node to node,
    zone_ms: float = 5.0  # and between zones

    def __post_init__(self) -> None:
        for key in STANDARDS:
            if not 0 <= getattr(self, key) < float("inf"):
                raise ConfigError(key, getattr(self, key), "at least 0; 0 means no limit")
        for key in ("hop_ms", "zone_ms"):
            if not 0 <= getattr(self, key) < float("inf"):
                raise ConfigError(key, getattr(self, key), "milliseconds, at least 0")
        if self.survive not in SURVIVE:
            raise ConfigError("survive", self.survive, f"one of {', '.join(SURVIVE)}")
        if not self.moves_per_day < float("inf"):
            raise ConfigError("moves_per_day", self.moves_per_day, "a share of the clients; below 0 means no limit")

    @property
    def is_empty(self) -> bool:
        return self == DesignLimits(hop_ms=self.hop_ms, zone_ms=self.zone_ms)

    def named(self) -> str:
        """As a person would set them."""
        told = [f"{key}={getattr(self, key):g}" for key in STANDARDS if getattr(self, key)]
        told += [f"survive={self.survive}"] if self.survive != "none" else []
        return ", ".join(told + ([f"moves_per_day={self.moves_per_day:g}"] if self.moves_per_day >= 0 else []))

    def broken(self, bill: Ledger, cut_by_node: float, cut_by_zone: float, clients: int) -> list[str]:
        """The limits that are not kept."""
        found = [
            key
            for key, standard in STANDARDS.items()
            if getattr(self, key) and standard.measure(bill) > getattr(self, key) + DUST
        ]
        if (self.survive != "none" and cut_by_node > DUST) or (self.survive == "zone" and cut_by_zone > DUST):
            found.append("survive")
        if self.moves_per_day >= 0 and bill.setup.moves > self.moves_per_day * clients + DUST:
            found.append("moves_per_day")
        return found

    def excess(self, bill: Ledger, cut_by_node: float, cut_by_zone: float) -> float:
        """How far a design is from keeping to them: the largest multiple of a limit, and what a crash cuts on top."""
        multiples = [one.measure(bill) / getattr(self, key) for key, one in STANDARDS.items() if getattr(self, key)]
        cut = {"none": 0.0, "node": cut_by_node, "zone": max(cut_by_node, cut_by_zone)}[self.survive]
        return max(multiples, default=0.0) + cut

    def achieved(self, bill: Ledger, cut_by_node: float, cut_by_zone: float) -> str:
        """What a design has to show where limits are set."""
        told = [one.words.format(one.measure(bill)) for key, one in STANDARDS.items() if getattr(self, key)]
        if self.survive != "none":
            told.append(f"a crash of one node cuts {100 * cut_by_node:.0f} %")
        if self.moves_per_day >= 0:
            told.append(f"{bill.setup.moves:,.0f} clients moved")
        if self.survive == "zone":
            told.append(f"of one zone {100 * cut_by_zone:.0f} %")
        return ", ".join(told)


NO_LIMITS = DesignLimits()


def is_calm(bill: Ledger, hottest: float = HOTTEST, easy: float = EASY) -> bool:
    """Whether no node is so much busier than the mean that somebody should care."""
    return bill.load.hottest <= hottest + DUST or bill.load.messages.max <= easy


def calm(bills: Sequence[Ledger], hottest: float = HOTTEST, easy: float = EASY) -> list[int]:
    """Which of them are; if none is, those that are hardly hotter than the coolest."""
    found = [at for at, bill in enumerate(bills) if is_calm(bill, hottest, easy)]
    coolest = min((bill.load.hottest for bill in bills), default=0.0)
    return found or [at for at, bill in enumerate(bills) if bill.load.hottest <= NEARLY * coolest]
