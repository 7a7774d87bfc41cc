"""SpiderCast's parameters, each with its symbol and place in the paper."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.system import Parameters, check_count, check_period

LINKS = ("spidercast", "lean", "two-connected", "greedy-merge", "ring-per-topic", "similarity")
TIES = ("random", "first")
DISCONNECTS = ("at-target", "above-target")


class SpiderCastParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How links are chosen (bulk form), kept (protocol) and learned about (membership)."""

    links: str = "spidercast"  # who links whom; similarity(x, y) of section 3.9.1 takes x, y from k_greedy, k_random
    k_greedy: int = 3  # neighbours that each topic of a node should have, chosen for sharing many (K_g, section 2.1)
    k_random: int = 0  # and neighbours chosen at random (K_r, section 2.1)
    is_adaptive: bool = False  # nodes raise their own k_random (section 3.3.1)
    margin: int = 5  # links above the target before a node gives one up (Margin, Figure 1)
    bare_share: float = 0.42  # lean links: how many of the interests may have K_g neighbours and no more
    search_rounds: int = 30  # lean links: rounds of local search for links to save
    ties: str = "random"  # among equally good neighbours: random or the first (Figure 5, line 8)
    disconnects: str = "at-target"  # candidates have degree >= target (section 2.3.1); Figure 3, line 11 prints >
    view_share: float = 1.0  # p / 100, section 3.7: share of the others each node knows (bulk form)
    view_capacity: int = 1024  # size of the interest view that a node learns by gossip, section 2.2
    exchange_size: int = 32  # descriptors in one gossip message
    gossip_s: float = 20.0  # between two gossip exchanges once the view is learned
    connect_timeout_s: float = 0.2  # between two attempts to make a link (connect_timeout, Figure 2)
    quarantine_s: float = 30.0  # how long a refuser is left alone, section 2.3.1
    link_heartbeat_s: float = HEARTBEAT_S  # on every link, section 2.3
    beacon_s: float = 20.0  # how often a topic's lowest member shows itself to find partitions; 0: never
    is_planned: bool = True  # the slice's neighbours are links to make; else only contacts, and links are learned
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        for key, allowed in (("links", LINKS), ("ties", TIES), ("disconnects", DISCONNECTS)):
            if getattr(self, key) not in allowed:
                raise ConfigError(key, getattr(self, key), f"one of {', '.join(allowed)}")
        for key in ("k_greedy", "k_random", "margin", "search_rounds"):
            if getattr(self, key) < 0:
                raise ConfigError(key, getattr(self, key), "at least 0")
        if self.k_greedy + self.k_random == 0:
            raise ConfigError("k_greedy", 0, "at least 1 unless k_random is")
        check_period("link_heartbeat_s", self.link_heartbeat_s)
        for key in ("view_capacity", "exchange_size", "seen_capacity"):
            check_count(key, getattr(self, key))
        if self.exchange_size > self.view_capacity:
            raise ConfigError("exchange_size", self.exchange_size, f"at most view_capacity, {self.view_capacity}")
        if not 0 < self.view_share <= 1:
            raise ConfigError("view_share", self.view_share, "a share above 0, at most 1")
        if not 0 <= self.bare_share <= 1:
            raise ConfigError("bare_share", self.bare_share, "a share from 0 to 1")
        for key in ("gossip_s", "connect_timeout_s"):
            if not getattr(self, key) > 0:
                raise ConfigError(key, getattr(self, key), "seconds, more than 0")
        for key in ("quarantine_s", "beacon_s"):
            if not getattr(self, key) >= 0:
                raise ConfigError(key, getattr(self, key), "seconds, at least 0")

    @property
    def k_random_max(self) -> int:
        """Room for random coverage; the adaptive scheme stops at 3 (section 3.3.1)."""
        return max(self.k_random, 3) if self.is_adaptive else self.k_random

    @property
    def kept_coverage(self) -> tuple[int, int]:
        """(K_g, K_r) that nodes defend: what the construction promises, not more, or they would undo its thrift."""
        promised = {"greedy-merge": (1, 0), "two-connected": (2, 0), "ring-per-topic": (1, 0), "similarity": (0, 0)}
        return promised.get(self.links, (self.k_greedy, self.k_random))
