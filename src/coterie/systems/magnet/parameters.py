"""What Magnet can be told, with the paper's symbols and defaults."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.system import Parameters, check_count, check_period
from coterie.substrate.oscar import OscarShape


class RingParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An Oscar ring with trees on it: all that the strawman needs."""

    links: int = 19  # links per node, ring neighbours included (section 4.2)
    near: int = 1  # ring neighbours on each side; more survive more crashes at once
    median_samples: int = 0  # random walks per median (section 2.2, step a); 0: exact medians
    choices: int = 1  # candidates per long link, of which one is kept (section 2.2, power of two choices)
    tree_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a tree edge (section 3.3)
    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        for key in ("tree_heartbeat_s", "link_heartbeat_s"):
            check_period(key, getattr(self, key))
        for key in ("near", "choices", "seen_capacity"):
            check_count(key, getattr(self, key))
        if self.links < 2 * self.near:
            raise ConfigError("links", self.links, f"at least {2 * self.near}, the ring neighbours on both sides")
        if self.median_samples < 0:
            raise ConfigError("median_samples", self.median_samples, "at least 0")

    @property
    def shape(self) -> OscarShape:
        return OscarShape(self.links - 2 * self.near, self.near, self.median_samples, self.choices)


class MagnetParameters(RingParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two rings: the control ring by name, the skewed ring by interest."""

    samples: int = 10  # interests sampled for each topic (k, section 3.4)
    rounds: int = 0  # how often everybody looks for a better place once all have arrived (section 3.2)
    is_rate_weighted: bool = True  # sim weighted by the topics' rates lambda_i (section 2.1), in the bulk form
    control_near: int = 4  # neighbours on each side of the control ring
    rejoin_every: int = 0  # changes of interest after which a running node looks for a new place; 0: never
    sample_rounds: int = 0  # sampling rounds per minute (section 3.4) in a running network; 0: none

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, least in {
            "samples": 1,
            "rounds": 0,
            "control_near": 1,
            "rejoin_every": 0,
            "sample_rounds": 0,
        }.items():
            if getattr(self, key) < least:
                raise ConfigError(key, getattr(self, key), f"at least {least}")
        if self.rejoin_every and not self.sample_rounds:
            raise ConfigError("rejoin_every", self.rejoin_every, "0, or sample_rounds of at least 1 to know anybody")
