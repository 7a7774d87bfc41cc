"""What can be set about coterie: how clients are placed, which links nodes have, and what the links must keep to."""

from __future__ import annotations

from typing import ClassVar

from coterie.accounting.burden import ACROSS
from coterie.errors import ConfigError
from coterie.model.limits import EASY, HOTTEST, DesignLimits
from coterie.systems.content.parameters import ContentParameters

PLACEMENTS = ("hypergraph", "given")
LEAVING = ("never", "paid", "free")
AUTO, LEAN, SPARSE = "auto", "lean", "sparse"
LINKS = ("mesh", "mesh+zones", "homes", "homes+zones", "star", "star+zones", LEAN, SPARSE)


class CoterieParameters(ContentParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those of content trees, which run on lean links; how clients are placed and nodes linked; limits (0: none)."""

    are_trees_free: ClassVar[bool] = True  # links are kept alive, not trees

    placement: str = "hypergraph"  # clients where it costs least; "given": where they are
    imbalance: float = 0.1  # how far above the mean number of clients a node may be
    message_imbalance: float = 0.3  # and above the mean of messages handled for clients
    hottest: float = HOTTEST  # times the mean that the busiest node may handle, if any links are so even
    node_messages: float = EASY  # a second that a node handles with ease: up to there it may be hotter
    links: str = AUTO  # the cheapest within the limits; or mesh, homes, star (each also +zones), lean, sparse
    coverage: int = 0  # of lean links: neighbours that each interest of a node should have; 0: what connects is enough
    across: float = ACROSS  # a byte between zones counts as so many
    leaving: str = "never"  # clients and their zone: or "paid" (by `across`, all they hear and say), or "free"
    hop_ms: float = 1.0  # from node to node, for limits in milliseconds
    zone_ms: float = 5.0  # the same between zones
    hops_mean: float = 0.0  # limit: links that a delivery crosses on average; 0: none
    hops_p99: float = 0.0
    ms_mean: float = 0.0
    ms_p99: float = 0.0
    links_max: int = 0
    hottest_max: float = 0.0
    survive: str = "none"
    moves_per_day: float = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.placement not in PLACEMENTS:
            raise ConfigError("placement", self.placement, f"one of {', '.join(PLACEMENTS)}")
        if self.leaving not in LEAVING:
            raise ConfigError("leaving", self.leaving, f"one of {', '.join(LEAVING)}")
        if self.links not in (AUTO, *LINKS):
            raise ConfigError("links", self.links, f"one of {', '.join((AUTO, *LINKS))}")
        for key in ("imbalance", "message_imbalance", "coverage", "node_messages"):
            if not 0 <= getattr(self, key) < float("inf"):
                raise ConfigError(key, getattr(self, key), "at least 0")
        for key in ("across", "hottest"):
            if not 1 <= getattr(self, key) < float("inf"):
                raise ConfigError(key, getattr(self, key), "at least 1")
        self.limits  # noqa: B018 - says what is wrong with it

    @property
    def limits(self) -> DesignLimits:
        return DesignLimits(**{name: getattr(self, name) for name in DesignLimits.__struct_fields__})

    @property
    def known_links(self) -> str:
        """Where there is no bill to choose by, as for the layer below another system: lean ones."""
        return LEAN if self.links == AUTO else self.links
