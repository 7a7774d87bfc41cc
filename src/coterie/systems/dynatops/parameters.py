"""What DYNATOPS can be told, each with the paper's symbol and section."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.system import Parameters, check_count, check_period
from coterie.systems.dynatops.positions import METHODS, SPACINGS

PLACEMENTS = ("similarity", "given", "hypergraph")


class DynatopsParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults are the paper's where it gives any."""

    placement: str = "similarity"  # beside their like (Algorithm 1); "given": where they are; "hypergraph": ours
    cluster_size: int = 10  # brokers that a joining user compares (c, section 4)
    load_weight: float = 1.0  # how much load counts beside likeness when users choose a broker (w_l / |B|, section 4)
    joins_per_update: int = 1  # T_update while users join at first: joins between two exchanges of state
    rounds: int = 1  # how often everybody joins; more than once lets early users reconsider
    imbalance: float = 0.03  # hypergraph placement: how far above the mean load a broker may be
    positions: str = "paper"  # the like side by side on the ring (SSBR-Greedy); "hash": by chance (beyond 8,192 always)
    spacing: str = "random"  # of node ids on the ring, which the paper does not give
    delay_weight: float = 1.0  # how much the length of links counts when positions are chosen (w_d, eq. 5)
    near: int = 4  # neighbours kept on each side of the ring
    coordinator: int = 0  # the node that is the reconfiguration manager, section 3.1
    tree_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a tree edge
    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    retry_s: float = 3.0  # how long a request waits for its answer before it is made again
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice
    reliable: bool = True  # ours: events are acknowledged, kept and offered again (systems/reliable_events.py)
    retention_s: float = 600.0  # how long a broker keeps an event for others: longer than a tree needs to be repaired
    kept_capacity: int = 2048  # and how many at most; fewer than it remembers having seen

    def __post_init__(self) -> None:
        for key, allowed in (("placement", PLACEMENTS), ("positions", METHODS), ("spacing", SPACINGS)):
            if getattr(self, key) not in allowed:
                raise ConfigError(key, getattr(self, key), f"one of {', '.join(allowed)}")
        for key in ("cluster_size", "joins_per_update", "rounds", "near", "seen_capacity", "kept_capacity"):
            check_count(key, getattr(self, key))
        for key in ("load_weight", "delay_weight", "imbalance", "coordinator"):
            if getattr(self, key) < 0:
                raise ConfigError(key, getattr(self, key), "at least 0")
        for key in ("tree_heartbeat_s", "link_heartbeat_s"):
            check_period(key, getattr(self, key))
        for key in ("retry_s", "retention_s"):
            if getattr(self, key) <= 0:
                raise ConfigError(key, getattr(self, key), "more than 0")
        if self.kept_capacity > self.seen_capacity:
            raise ConfigError("kept_capacity", self.kept_capacity, f"at most seen_capacity ({self.seen_capacity})")
