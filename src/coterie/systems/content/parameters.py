"""What can be set about content trees."""

from __future__ import annotations

from typing import ClassVar

from coterie.errors import ConfigError
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.system import Parameters, check_period
from coterie.systems.content.demand import UNITS
from coterie.systems.content.trees import SHAPES

ALGORITHMS = ("overlap", "cost", "hybrid", "single", "shortest-paths")
LEARN_FROM = ("auto", "documents", "interest")


class ContentParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults are the paper's where it has any."""

    are_trees_free: ClassVar[bool] = False  # whether classes too many to group may each have a tree

    unit: str = "keyword"  # what is grouped: all subscriptions to a keyword (or topic), or all of a node
    algorithm: str = "overlap"  # groups topics into trees: overlap (MULT), cost (MULT2), hybrid, single, shortest-paths
    shape: str = "best"  # of a tree: low-stretch (Algorithm 1), shortest (from the busiest node), the better of both
    learn_from: str = "auto"  # documents where the workload has content, else interest: every topic once
    sampling: float = 0.03  # p, the share of documents the coordinator sees (section VI; Figure 4)
    prior: float = 0.1  # weight of an assumed document per keyword, so that unsampled ones get trees; the paper: 0
    held_out: float = 0.25  # of the sample, to choose the number of groups by; 0: by the documents learned from
    gain_min: float = 0.02  # what several trees must save of one tree's cost on held-out documents to be chosen
    groups_max: int = 0  # k: trees at most (0: any number)
    classes_max: int = 2500  # keywords or topics that are grouped, those that cost most; others join what is most alike
    hybrid_groups: int = 200  # where the hybrid of section V hands over from Algorithm 3 to Algorithm 2
    threshold: float = 0.1  # a new strategy is installed if it saves more than this share (section VI)
    review_s: float = 600.0  # how often the coordinator computes a new strategy
    window_s: float = 3600.0  # the sliding window of samples (section III)
    window_max: int = 20_000  # and how many of them at most
    coordinator: int = 0  # the node that coordinates
    degree: int = 8  # of the random broker network that is made where none is given
    link_heartbeat_s: float = HEARTBEAT_S  # in each direction of a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        for key, allowed in (
            ("unit", UNITS),
            ("algorithm", ALGORITHMS),
            ("shape", SHAPES),
            ("learn_from", LEARN_FROM),
        ):
            if getattr(self, key) not in allowed:
                raise ConfigError(key, getattr(self, key), f"one of {', '.join(allowed)}")
        for key, low in (
            ("groups_max", 0),
            ("hybrid_groups", 1),
            ("classes_max", 1),
            ("coordinator", 0),
            ("degree", 2),
            ("window_max", 1),
            ("seen_capacity", 1),
        ):
            if getattr(self, key) < low:
                raise ConfigError(key, getattr(self, key), f"at least {low}")
        if not 0 < self.sampling <= 1:
            raise ConfigError("sampling", self.sampling, "a probability above 0, at most 1")
        for key in ("held_out", "threshold", "gain_min"):
            if not 0 <= getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "a share from 0 to below 1")
        if not 0 <= self.prior < 1e6:
            raise ConfigError("prior", self.prior, "a weight, at least 0")
        check_period("link_heartbeat_s", self.link_heartbeat_s)
        for key in ("review_s", "window_s"):
            if not getattr(self, key) > 0:
                raise ConfigError(key, getattr(self, key), "seconds, more than 0")
